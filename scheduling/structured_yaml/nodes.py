"""A YAML file as nodes with the lines of their author."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ScalarNode:
    """One value: its text as written, and the value that YAML reads from it."""

    line: int
    text: str
    value: Any


@dataclass(slots=True)
class SequenceNode:
    """A list."""

    line: int
    items: list[Node]


@dataclass(slots=True)
class MapEntry:
    """A key of a map (its line and the value that YAML reads from it) with its value."""

    key: Any
    line: int
    node: Node


@dataclass(slots=True)
class MapNode:
    """A map; keys as written, in file order."""

    line: int
    entries: dict[str, MapEntry] = field(default_factory=dict)


Node = ScalarNode | SequenceNode | MapNode


def plain_value(node: Node) -> Any:
    """The node as lists, dicts and values that JSON can hold; values that JSON does not have (dates, NaN) as their
    text."""
    if isinstance(node, SequenceNode):
        return [plain_value(item) for item in node.items]
    if isinstance(node, MapNode):
        return {name: plain_value(entry.node) for name, entry in node.entries.items()}
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return node.text
    return node.value if node.value is None or isinstance(node.value, str | bool | int | float) else node.text


def key_kind_text(value: Any) -> str:
    """The type of a key that YAML does not read as text, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true/false"
    return "a number" if isinstance(value, int | float) else "a date"
