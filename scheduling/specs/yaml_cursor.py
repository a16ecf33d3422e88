"""One value of a workflow file, with the line that its author wrote it in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pools.domain.errors import Fault
from pools.domain.structured_input import Dialect, ValueReader
from pools.domain.values.byte_sizes import MAX_BYTES, MAX_UNITS, UNITS, parse_size
from pools.domain.values.scalars import BOOLEANS, whole_number
from scheduling.structured_yaml.nodes import MapNode, Node, ScalarNode, SequenceNode, plain_value

MAX_FAULTS = 100
"""The number of faults of one file that are listed."""


class _WorkflowFile(Dialect):
    """Nodes of YAML. A scalar is read from its text, so a number, a date or true/false is a text, too, where a text is
    requested, and `'2'` is a number where a number is requested."""

    map_name = "a map"
    wrong_type = Fault.WRONG_TYPE
    too_small = too_large = Fault.BAD_NUMBER

    def is_absent(self, value: Node) -> bool:
        """Written without a value (`timeout:`), which counts as not written."""
        return isinstance(value, ScalarNode) and value.value is None

    def text(self, value: Node) -> str | None:
        if not isinstance(value, ScalarNode):
            return None
        return "" if value.value is None else value.text

    def boolean(self, value: Node) -> bool | None:
        return BOOLEANS.get(value.text) if isinstance(value, ScalarNode) else None

    def whole_number(self, value: Node) -> int | None:
        number = whole_number(value.text) if isinstance(value, ScalarNode) else None
        return number if number is not None and 0 <= number <= MAX_UNITS else None

    def entries(self, value: Node) -> Iterator[tuple[str, Node, int | None]] | None:
        if not isinstance(value, MapNode):
            return None
        return ((key, entry.node, entry.line) for key, entry in value.entries.items())

    def items(self, value: Node) -> Iterator[tuple[Node, int | None]] | None:
        return ((item, item.line) for item in value.items) if isinstance(value, SequenceNode) else None

    def describe(self, value: Node) -> str:
        if isinstance(value, ScalarNode):
            return "empty" if value.value is None else ""
        return "a list" if isinstance(value, SequenceNode) else "a map"


class YamlCursor(ValueReader):
    """A value of a workflow file. Every reading returns None (or nothing) after a fault, so that reading goes on."""

    __slots__ = ()

    dialect: ClassVar[Dialect] = _WorkflowFile()
    root: ClassVar[str] = "file"

    @property
    def node(self) -> Node:
        """The node that is read."""
        node: Node = self.value
        return node

    @property
    def file_line(self) -> int:
        """The line in the author's file, from 1."""
        return self.line or 1

    def add_warning(self, message: str) -> None:
        """Note a warning that names this place."""
        self.faults.add_warning(f"{self.path} (line {self.line}): {message}")

    @property
    def is_empty_list(self) -> bool:
        """Whether the list has no items."""
        return isinstance(self.value, SequenceNode) and not self.value.items

    @property
    def plain_value(self) -> Any:
        """The value as JSON can hold it."""
        return plain_value(self.value)

    def text(self, *, may_be_empty: bool = False) -> str | None:
        """A text as it is written."""
        if self.is_absent and not may_be_empty:
            self.refuse("text")
            return None
        text = self.dialect.text(self.value)
        if text is None:
            self.refuse("text")
        elif not text.strip() and not may_be_empty:
            self.add_fault(Fault.EMPTY, "The text is empty. Write a value, or leave the key out.")
            return None
        return text

    def texts(self, expected: str = "texts") -> tuple[str, ...]:
        """A list of texts. An item may be empty if it is written as such (`''`)."""
        return tuple(text for item in self.list_items(expected) if (text := item._item_text()) is not None)

    def text_map(self, expected: str) -> dict[str, str]:
        """A map from text to text; a key without value has the empty text."""
        found = {name: cursor.text(may_be_empty=True) for name, cursor in self.map_entries(expected).items()}
        return {name: text for name, text in found.items() if text is not None}

    def count(self, *, minimum: int = 0) -> int:
        """A whole number from `minimum`; 0 after a fault."""
        number = self.dialect.whole_number(self.value)
        if number is None or number < minimum:
            self.refuse(f"a whole number from {minimum:,} to {MAX_UNITS:,}, written as 8", Fault.BAD_NUMBER)
            return 0
        return number

    def size(self) -> int:
        """A size in bytes; 0 after a fault."""
        size = parse_size(self.value.text) if isinstance(self.value, ScalarNode) else None
        if size is None:
            units = f"{', '.join(UNITS)}, up to {MAX_BYTES // 1024**4} Ti (no unit: bytes)"
            self.refuse(f"a number with one of the units {units}, for example 16Gi", Fault.BAD_SIZE)
        return size or 0

    def refuse(self, expected: str, code: Fault | None = None, hint: str = "") -> None:
        if expected.startswith("a list") and isinstance(self.value, ScalarNode):
            hint = " Put it in brackets, as in [a, b], or write one `- item` a line."
        elif expected == "text":
            hint = " Put quotes around it if it is meant as text."
        super().refuse(expected, code, hint)

    def _item_text(self) -> str | None:
        if self.is_absent:
            self.add_fault(Fault.EMPTY, "The item is empty. Write '' for an empty text, or remove the item.")
            return None
        return self.text(may_be_empty=True)


def iterate_items(cursor: YamlCursor | None, expected: str) -> Iterator[YamlCursor]:
    """The items of a list that may be absent."""
    if cursor is not None:
        yield from cursor.list_items(expected)
