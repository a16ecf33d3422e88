"""Text of a scenario → plain values: maps, lists, names, exact numbers. JSON is YAML too and has a quick door.

Nothing is executed and nothing can blow up: depth, size and the number of values behind aliases are bounded, numbers
keep their digits, a key that stands twice is remembered, and what is no value of ours becomes `Unreadable`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import yaml

from pools.domain.amounts import InvalidNumber, parse_exact
from pools.domain.errors import Violation

MAX_CHARACTERS = 64 * 2**20
MAX_REPEATED_KEYS = 100  # keys given twice that one map tells of
MAX_VALUES = 3_000_000
MAX_LEVELS = 64

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null"))


class DocumentMap(dict[str, Any]):
    """A map as written; `repeated` are the keys that stand in it more than once."""

    repeated_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableScalar:
    """A scalar that is none of ours: not-a-number, a number of too many digits, a tag."""

    text: str
    reason: str


@dataclass(slots=True)
class YamlDocument:
    """One document: its value, or what keeps it from being read at all. `lines`: path → line, from 1, if asked for."""

    value: Any = None
    faults: list[Violation] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


class _DocumentStopped(Exception):
    """The document cannot be read on; carries the fault."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.fault = Violation("", "bad_value", message, line)


def read_documents(text: str, *, record_lines: bool = False) -> list[YamlDocument]:
    """The documents of a file, in order; a document that cannot be read ends the file."""
    if len(text) > MAX_CHARACTERS:
        message = f"The file has more than {MAX_CHARACTERS} characters."
        return [YamlDocument(faults=[Violation("", "bad_value", message)])]
    if not record_lines and text.lstrip()[:1] in {"{", "["}:
        quick = _json(text)
        if quick is not None:
            return [quick]
    found: list[YamlDocument] = []
    try:
        # One by one: what was read before a fault is kept.
        for document in _DocumentBuilder(text, record=record_lines).documents():
            found.append(document)  # noqa: PERF402
    except UnicodeEncodeError:
        found.append(YamlDocument(faults=[Violation("", "bad_value", "The text holds characters that are none.")]))
    except _DocumentStopped as stop:
        found.append(YamlDocument(faults=[stop.fault]))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it breaks off"
        line = None if mark is None else mark.line + 1
        found.append(YamlDocument(faults=[Violation("", "bad_value", f"This is no YAML: {problem}.", line)]))
    if not found:
        found.append(YamlDocument(faults=[Violation("", "bad_value", "The file is empty.")]))
    return found


def _json(text: str) -> YamlDocument | None:
    def pairs(items: list[tuple[str, Any]]) -> DocumentMap:
        made = DocumentMap(items)
        if len(made) != len(items):
            made.repeated_keys = _repeated(key for key, _value in items)
        return made

    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_int=_number, parse_float=_number,
            parse_constant=lambda name: UnreadableScalar(name, "is not a number"),
        )  # fmt: skip
    except ValueError:
        return None
    except RecursionError:
        return YamlDocument(faults=[Violation("", "bad_value", f"Values may stand at most {MAX_LEVELS} levels deep.")])
    return YamlDocument(value)


def _repeated(keys: Iterator[str]) -> tuple[str, ...]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for key in keys:
        if key in seen:
            twice[key] = None
        seen.add(key)
    return tuple(twice)


def _number(text: str) -> int | Fraction | UnreadableScalar:
    try:
        return parse_exact(text)
    except InvalidNumber:
        return UnreadableScalar(text[:60], "has too many digits")


class _DocumentBuilder:
    """Builds values from the events of the YAML parser, which does not recurse; so neither does this."""

    def __init__(self, text: str, *, record: bool) -> None:
        self._events = yaml.parse(text, Loader=_Loader)
        self._record = record
        self._values = 0

    def documents(self) -> Iterator[YamlDocument]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._lines: dict[str, int] = {}
                self._anchors: dict[str, tuple[Any, int]] = {}
                value = self._value()
                yield YamlDocument(value, lines=self._lines)

    def _value(self) -> Any:
        """The next value, whole."""
        root: list[Any] = []
        stack: list[_OpenCollection] = [_OpenCollection(root, "", None, 0)]
        while True:
            top = stack[-1]
            event = next(self._events)
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                closed = stack.pop()
                if closed.anchor is not None:
                    self._anchors[closed.anchor] = (closed.holder, self._values - closed.before)
            else:
                self._put(event, top, stack)
            if len(stack) == 1 and root:
                return root[0]

    def _put(self, event: Any, top: _OpenCollection, stack: list[_OpenCollection]) -> None:
        line = event.start_mark.line + 1
        self._values += 1
        if self._values > MAX_VALUES:
            raise _DocumentStopped(f"The file holds more than {MAX_VALUES} values.", line)
        if isinstance(top.holder, DocumentMap) and top.key is None:
            if not isinstance(event, yaml.ScalarEvent):
                raise _DocumentStopped("A key is a name, not a list or a map.", line)
            top.key = event.value
            if event.value in top.holder and len(top.holder.repeated_keys) < MAX_REPEATED_KEYS:
                top.holder.repeated_keys = (*top.holder.repeated_keys, event.value)
            return
        path = top.path_of_next() if self._record else ""
        if self._record:
            self._lines.setdefault(path, line)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _DocumentStopped(
                    f"The alias '*{event.anchor}' stands inside what it names, or names nothing.", line
                )
            value, size = self._anchors[event.anchor]
            self._values += size
            top.add(value)
        elif isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = (value, 1)
            top.add(value)
        else:
            if len(stack) > MAX_LEVELS:
                raise _DocumentStopped(f"Values may stand at most {MAX_LEVELS} levels deep.", line)
            holder: Any = DocumentMap() if isinstance(event, yaml.MappingStartEvent) else []
            if event.tag is not None and event.tag not in _TAGS:
                raise _DocumentStopped(f"The tag '{event.tag}' is not known here.", line)
            top.add(holder)
            stack.append(_OpenCollection(holder, path, event.anchor, self._values))


class _OpenCollection:
    """A list or map that is being filled."""

    __slots__ = ("anchor", "before", "holder", "key", "path")

    def __init__(self, holder: Any, path: str, anchor: str | None, before: int) -> None:
        self.holder, self.path, self.anchor, self.before = holder, path, anchor, before
        self.key: str | None = None

    def path_of_next(self) -> str:
        """Where the next value will stand."""
        if isinstance(self.holder, DocumentMap):
            return f"{self.path}.{self.key}".lstrip(".")
        return f"{self.path}[{len(self.holder)}]" if self.path else ""

    def add(self, value: Any) -> None:
        """Put the next value in."""
        if isinstance(self.holder, DocumentMap):
            self.holder[str(self.key)] = value
            self.key = None
        else:
            self.holder.append(value)


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag not in _TAGS and event.tag != "!":
        return UnreadableScalar(event.tag, "is a tag that is not known here")
    if event.style or (event.tag is not None and event.tag.endswith(":str")) or event.tag == "!":
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _NUMBER.fullmatch(text):
        return _number(text)
    if text.lower().lstrip("+-") in {".inf", ".nan", "nan", "inf", "infinity"}:
        return UnreadableScalar(text, "is not a number")
    return text
