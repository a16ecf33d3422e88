"""YAML text -> values, put together from the events of PyYAML's parser with a bound on depth and number.

The parser does not recurse, and neither does the composer. An alias counts as often as the values that it refers to,
so a short text cannot spell out more than the bound. Tags never build Python objects. A subclass says what a scalar, a
list and a map become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

from pools.domain.errors import Fault

CORE_TAG = "tag:yaml.org,2002:"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_KEY: Any = object()
MEAN_PATH = 128
"""Characters of a path, if the file has as many values as it may: a long key is repeated in each path below it."""


class CompositionStopped(Exception):
    """Reading cannot go on: code, message, and line of the text, from 0."""

    def __init__(self, code: Fault, message: str, line: int) -> None:
        super().__init__(message)
        self.code, self.message, self.line = code, message, line


class OpenCollection:
    """A list or map that is being filled. `merged` is for the subclass; `path` is kept if lines are recorded."""

    __slots__ = ("anchor", "before", "holder", "is_map", "key", "merged", "path", "size")

    def __init__(self, holder: Any, *, is_map: bool, anchor: str | None, path: str, before: int) -> None:
        self.holder, self.is_map, self.anchor, self.path, self.before = holder, is_map, anchor, path, before
        self.key: Any = _NO_KEY
        self.size = 0
        self.merged: list[Any] = []

    @property
    def expects_key(self) -> bool:
        """Whether the next value is a key."""
        return self.is_map and self.key is _NO_KEY

    @property
    def path_of_next(self) -> str:
        """The path of the next value."""
        if self.is_map:
            return f"{self.path}.{self.key}".lstrip(".")
        return f"{self.path}[{self.size}]"


class YamlComposer(ABC):
    """The composer of one text. `lines` records the line of each path, from 1, if it is a dictionary."""

    max_levels: ClassVar[int]
    max_values: ClassVar[int]

    def __init__(self, text: str, most_values: int | None = None) -> None:
        self._most_values = self.max_values if most_values is None else most_values
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._values = 0
        self._path_characters = 0
        self.lines: dict[str, int] | None = None

    def documents(self) -> Iterator[Any]:
        """The value of each document. Raises CompositionStopped and what PyYAML raises."""
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors: dict[str, tuple[Any, int]] = {}
                yield self._compose()

    @abstractmethod
    def scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        """The value of a scalar."""

    @abstractmethod
    def collection(self, line: int, *, is_map: bool) -> Any:
        """An empty list or map."""

    @abstractmethod
    def append(self, top: OpenCollection, value: Any) -> None:
        """Add an item to the list."""

    @abstractmethod
    def put(self, top: OpenCollection, key: Any, value: Any) -> None:
        """Add an entry to the map."""

    @abstractmethod
    def unknown_tag(self, tag: str, line: int) -> None:
        """A list or map carries a tag of another type."""

    def key(self, event: Any, line: int) -> Any:
        """The value of a scalar that is a key; called for every event where a key is expected."""
        return self.scalar(event, line)

    def close(self, closed: OpenCollection) -> None:  # noqa: B027  # most subclasses have nothing to do then
        """The list or map is complete."""

    def _compose(self) -> Any:
        stack: list[OpenCollection] = []
        while True:
            event = next(self._events)
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                closed = stack.pop()
                self.close(closed)
                value = closed.holder
                if closed.anchor is not None:
                    self._anchors[closed.anchor] = (value, self._values - closed.before)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                stack.append(self._open(event, stack))
                continue
            else:
                value = self._single_value(event, stack)
            if not stack:
                return value
            self._add(stack[-1], value)

    def _add(self, top: OpenCollection, value: Any) -> None:
        if not top.is_map:
            self.append(top, value)
            top.size += 1
        elif top.key is _NO_KEY:
            top.key = value
        else:
            self.put(top, top.key, value)
            top.key = _NO_KEY

    def _open(self, event: Any, stack: list[OpenCollection]) -> OpenCollection:
        is_map, line = isinstance(event, yaml.MappingStartEvent), event.start_mark.line
        if stack and stack[-1].expects_key:
            self.key(event, line)
        before = self._values
        self._count(1, line)
        self._check_level(stack, line)
        path = self._record(stack, line)
        if event.tag not in (None, "!", f"{CORE_TAG}{'map' if is_map else 'seq'}"):
            self.unknown_tag(event.tag, line)
        holder = self.collection(line, is_map=is_map)
        return OpenCollection(holder, is_map=is_map, anchor=event.anchor, path=path, before=before)

    def _single_value(self, event: Any, stack: list[OpenCollection]) -> Any:
        line = event.start_mark.line
        is_key = bool(stack) and stack[-1].expects_key
        if not is_key:
            self._record(stack, line)
        if isinstance(event, yaml.AliasEvent):
            if is_key:
                self.key(event, line)
            if event.anchor not in self._anchors:
                message = (
                    "The alias of this line points to an anchor that is not complete before it. Define it above as "
                    "`&name`, and not around its own use."
                )
                raise CompositionStopped(Fault.UNKNOWN_ANCHOR, message, line)
            value, weight = self._anchors[event.anchor]
            self._count(weight, line)
            return value
        self._count(1, line)
        self._check_level(stack, line)
        value = self.key(event, line) if is_key else self.scalar(event, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > self._most_values:
            message = (
                f"With every alias written out, the file has more than {self._most_values} values up to this line."
            )
            raise CompositionStopped(Fault.TOO_MANY_VALUES, message, line)

    def _check_level(self, stack: list[OpenCollection], line: int) -> None:
        if len(stack) > self.max_levels:
            raise CompositionStopped(
                Fault.TOO_DEEP, f"Values may be nested at most {self.max_levels} levels deep.", line
            )

    def _record(self, stack: list[OpenCollection], line: int) -> str:
        if self.lines is None or not stack or stack[-1].expects_key:
            if self.lines is not None and not stack:
                self.lines.setdefault("", line + 1)
            return ""
        path = stack[-1].path_of_next
        self._path_characters += len(path)
        if self._path_characters > MEAN_PATH * self._most_values:
            raise CompositionStopped(Fault.TOO_MANY_VALUES, "The keys around this line are too long.", line)
        self.lines.setdefault(path, line + 1)
        return path
