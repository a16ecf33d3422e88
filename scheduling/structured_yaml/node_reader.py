"""YAML text -> nodes with their lines. A key given twice is reported; :mod:`pools.domain.values.scalars` reads
scalars."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import yaml

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import Faults, quote, shorten
from pools.domain.values.scalars import UnreadableScalar, plain_scalar
from scheduling.structured_yaml.composer import CORE_TAG, CompositionStopped, OpenCollection, YamlComposer
from scheduling.structured_yaml.nodes import (
    MapEntry,
    MapNode,
    Node,
    ScalarNode,
    SequenceNode,
    key_kind_text,
    plain_value,
)

MAX_DEPTH = 40
MAX_NODES = 50_000
"""Nodes of a file with every alias written out."""

_STRING = f"{CORE_TAG}str"
_TYPES_OF_TAGS: dict[str, tuple[type, ...]] = {
    f"{CORE_TAG}int": (int,),
    f"{CORE_TAG}float": (int, Fraction),
    f"{CORE_TAG}bool": (bool,),
    f"{CORE_TAG}null": (type(None),),
}
_SCALAR_TAGS = {_STRING, *_TYPES_OF_TAGS}

LineOf = Callable[[int], int]
"""Line of the text that is read (from 0) -> line in the author's file (from 1)."""


def read_yaml(text: str, faults: Faults, *, path: str, line_of: LineOf, string_keys: bool = True) -> Node | None:
    """The one document in `text`; None (and a fault) if the text is not valid YAML, too large, or not a single
    document."""
    nodes = read_yaml_documents(text, faults, path=path, line_of=line_of, string_keys=string_keys)
    if nodes is None:
        return None
    if not nodes:
        message = "The file holds no value, only comments. A workflow file begins with `workflow:`."
        faults.add(path, Fault.EMPTY, message, 1)
        return None
    if len(nodes) > 1:
        message = (
            "A second document begins here after `---`. One file holds one workflow: send each document on its own."
        )
        faults.add(path, Fault.SEVERAL_DOCUMENTS, message, nodes[1].line)
        return None
    return nodes[0]


def read_yaml_documents(
    text: str, faults: Faults, *, path: str, line_of: LineOf, string_keys: bool = True
) -> list[Node] | None:
    """All documents in `text` that hold something; None (and a fault) if the text is not valid YAML or too large."""
    try:
        documents = _NodeComposer(text, faults, path, line_of, string_keys).documents()
        # A `---` at the very end or beginning opens a document without anything in it.
        return [node for node in documents if not _is_nothing(node)]
    except CompositionStopped as problem:
        faults.add(path, problem.code, problem.message, line_of(problem.line))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if "end of stream" in (error.problem or "") and error.context_mark:
            mark = error.context_mark  # for a quote or bracket that is never closed, the line where it opens helps
        at = mark.line if mark is not None else 0
        faults.add(path, Fault.YAML_SYNTAX, _syntax_message(error, text, at), line_of(at))
    except yaml.YAMLError as error:
        faults.add(path, Fault.YAML_SYNTAX, f"This is not valid YAML: {shorten(str(error), 200)}.", line_of(0))
    return None


class _NodeComposer(YamlComposer):
    """Values as nodes. Keys that are not text, merges of other values than maps, and unknown tags are faults that do
    not stop the reading."""

    max_levels: ClassVar[int] = MAX_DEPTH
    max_values: ClassVar[int] = MAX_NODES

    def __init__(self, text: str, faults: Faults, path: str, line_of: LineOf, string_keys: bool) -> None:
        super().__init__(text)
        self.faults, self.path, self.line_of, self.string_keys = faults, path, line_of, string_keys

    def key(self, event: Any, line: int) -> Any:
        # A list or a map as a key is composed like any value; `put` reports it.
        return self.scalar(event, line) if isinstance(event, yaml.ScalarEvent) else None

    def collection(self, line: int, *, is_map: bool) -> Node:
        return MapNode(self.line_of(line)) if is_map else SequenceNode(self.line_of(line), [])

    def append(self, top: OpenCollection, value: Node) -> None:
        top.holder.items.append(value)

    def put(self, top: OpenCollection, key: Node, value: Node) -> None:
        if not isinstance(key, ScalarNode):
            self.faults.add(
                self.path,
                Fault.BAD_KEY,
                "A list or a map stands where a key is expected. If `{{ … }}` was "
                "meant, put quotes around the whole value.",
                key.line,
            )
        elif key.text == "<<" and key.value == "<<":
            top.merged += self.sources_of_merge(value)
        else:
            self.put_entry(top.holder, key, value)

    def close(self, closed: OpenCollection) -> None:
        for source in closed.merged:
            for name, entry in source.entries.items():
                closed.holder.entries.setdefault(name, entry)

    def put_entry(self, made: MapNode, key: ScalarNode, value: Node) -> None:
        if self.string_keys and not isinstance(key.value, str):
            self.faults.add(
                self.path,
                Fault.BAD_KEY,
                f"The key {quote(key.text)} is not read as text by YAML but as "
                f"{key_kind_text(key.value)}. Put it in quotes.",
                key.line,
            )
            return
        before = made.entries.get(key.text)
        if before is not None:
            where = f"The key {quote(key.text)} is given twice in the same map, in lines {before.line} and {key.line}"
            if plain_value(before.node) == plain_value(value):
                self.faults.add_warning(f"{where}, with the same value; one of them can go.")
            else:
                self.faults.add(self.path, Fault.DUPLICATE_KEY, f"{where}, with different values. Keep one.", key.line)
        made.entries[key.text] = MapEntry(key.value, key.line, value)

    def sources_of_merge(self, value: Node) -> list[MapNode]:
        sources = value.items if isinstance(value, SequenceNode) else [value]
        maps = [source for source in sources if isinstance(source, MapNode)]
        if len(maps) != len(sources):
            self.faults.add(
                self.path,
                Fault.BAD_MERGE,
                "`<<` merges maps; this is something else. Name an anchor of a map, as in `<<: *common`.",
                value.line,
            )
        return maps

    def scalar(self, event: yaml.ScalarEvent, line: int) -> ScalarNode:
        text, line = event.value, self.line_of(line)
        if bad := next((c for c in text if c == "\0" or "\ud800" <= c <= "\udfff"), None):
            self.faults.add(
                self.path,
                Fault.BAD_CHARACTER,
                f"The escape for U+{ord(bad):04X} makes a character that a container cannot receive. Remove it.",
                line,
            )
            return ScalarNode(line, "", "")
        if event.tag in (None, "!"):
            is_plain = event.implicit[0] and event.tag is None
            return ScalarNode(line, text, _as_json(plain_scalar(text), text) if is_plain else text)
        if event.tag not in _SCALAR_TAGS:
            self.add_unknown_tag(event.tag, line)
        elif event.tag != _STRING:
            value = plain_scalar(text)
            if type(value) not in _TYPES_OF_TAGS[event.tag]:
                self.faults.add(self.path, Fault.BAD_VALUE, "The value is not what its tag says. Remove the tag.", line)
            return ScalarNode(line, text, _as_json(value, text))
        return ScalarNode(line, text, text)

    def unknown_tag(self, tag: str, line: int) -> None:
        self.add_unknown_tag(tag, self.line_of(line))

    def add_unknown_tag(self, tag: str, line: int) -> None:
        """Note the tag, with the line of the author's file."""
        name = tag.replace(CORE_TAG, "!!")
        self.faults.add(
            self.path,
            Fault.UNKNOWN_TAG,
            f"The tag {quote(name)} is not known here; values are text, numbers, "
            "true/false, lists and maps. Remove the tag.",
            line,
        )


def _as_json(value: Any, text: str) -> Any:
    """A value as JSON has it. A number that JSON cannot hold is its text, which the reader of a number refuses."""
    if isinstance(value, UnreadableScalar):
        return text
    if not isinstance(value, Fraction):
        return value
    try:
        return float(value)
    except OverflowError:
        return text


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _syntax_message(error: yaml.MarkedYAMLError, text: str, at: int) -> str:
    """The problem of the scanner, its line, and the usual correction."""
    lines = text.split("\n")
    row = lines[at] if at < len(lines) else ""
    problem = ", ".join(shorten(part, 120) for part in (error.context, error.problem) if part)
    where = f"at {quote(row.strip())}" if row.strip() else "at an empty line or the end of the text"
    message = f"This is not valid YAML: {problem}, {where}."
    if "\t" in row[: len(row) - len(row.lstrip())] or "'\\t'" in problem:
        return message + " Indent with spaces, not with tabs."
    if "mapping values are not allowed" in problem:
        return message + " Check the indentation; a value that holds `: ` needs quotes."
    if row.lstrip().startswith(("{%", "{#")) or "{{" in row:
        return message + " Put quotes around a value that begins with `{`."
    return message + " Check the indentation and the quotes around it."
