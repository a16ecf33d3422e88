"""A place in a file: its node, path and line. Asking it for a value of some form notes a fault if it has another."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pools.domain.byte_sizes import MAX_BYTES, MAX_UNITS, UNITS, parse_size
from scheduling.specs.faults import SpecFaults, join_words, quote
from scheduling.specs.whole_numbers import parse_whole_number
from scheduling.specs.yaml_nodes import MapNode, Node, ScalarNode, SequenceNode, plain_value

_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class YamlCursor:
    """Where we are. Every reader returns None (or nothing) after noting a fault, so that reading goes on."""

    node: Node
    path: str
    line: int
    faults: SpecFaults

    def add_fault(self, code: str, message: str) -> None:
        """Note a fault here."""
        self.faults.add(self.path or "file", code, message, self.line)

    def add_warning(self, sentence: str) -> None:
        """Note a warning that names this place."""
        self.faults.add_warning(f"{self.path} (line {self.line}): {sentence}")

    @property
    def is_absent(self) -> bool:
        """Written without a value (`timeout:`), which counts as not written."""
        return isinstance(self.node, ScalarNode) and self.node.value is None

    @property
    def is_map(self) -> bool:
        """A map stands here."""
        return isinstance(self.node, MapNode)

    @property
    def is_empty_list(self) -> bool:
        """`[]` stands here."""
        return isinstance(self.node, SequenceNode) and not self.node.items

    @property
    def plain_value(self) -> Any:
        """The value as JSON can hold it."""
        return plain_value(self.node)

    def map_entries(self, expected: str) -> dict[str, YamlCursor]:
        """The places of a map by key; those without a value too."""
        if not isinstance(self.node, MapNode):
            self._wrong(f"a map ({expected})")
            return {}
        return {
            name: YamlCursor(entry.node, f"{self.path}.{name}" if self.path else name, entry.line, self.faults)
            for name, entry in self.node.entries.items()
        }

    def known_fields(self, allowed: Collection[str], required: Collection[str] = ()) -> dict[str, YamlCursor]:
        """The places of a map with known keys, without those that have no value. Unknown or missing keys are faults."""
        if not isinstance(self.node, MapNode):
            self._wrong(f"a map with {join_words(allowed)}")
            return {}
        found = self.map_entries("")
        for name in [name for name in found if name not in allowed]:
            near = self.faults.suggestion(name, allowed)
            message = f"The key {quote(name)} is not known here.{near} Allowed are {join_words(allowed)}."
            found.pop(name).add_fault("unknown_key", message)
        found = {name: place for name, place in found.items() if not place.is_absent}
        for name in [name for name in required if name not in found]:
            path = f"{self.path}.{name}" if self.path else name
            self.faults.add(path, "missing", f"{quote(name)} is missing here. Add it; the file needs it.", self.line)
        return found

    def list_items(self, expected: str) -> list[YamlCursor]:
        """The places of a list."""
        if not isinstance(self.node, SequenceNode):
            self._wrong(f"a list of {expected}")
            return []
        return [
            YamlCursor(item, f"{self.path}[{index}]", item.line, self.faults)
            for index, item in enumerate(self.node.items)
        ]

    def text(self, *, empty: bool = False) -> str | None:
        """Text as written; numbers, dates and true/false are text too where text is asked for."""
        if not isinstance(self.node, ScalarNode) or (self.node.value is None and not empty):
            self._wrong("text")
            return None
        if not self.node.text.strip() and not empty:
            self.add_fault("empty", "The text is empty. Write a value, or leave the key out.")
            return None
        return "" if self.node.value is None else self.node.text

    def texts(self, expected: str = "texts") -> tuple[str, ...]:
        """A list of texts. An item may be empty if it is written as such (`''`)."""
        return tuple(text for item in self.list_items(expected) if (text := item._item_text()) is not None)

    def text_map(self, expected: str) -> dict[str, str]:
        """A map from text to text; a key without value has the empty text."""
        found = {name: place.text(empty=True) for name, place in self.map_entries(expected).items()}
        return {name: text for name, text in found.items() if text is not None}

    def boolean(self, default: bool) -> bool:
        """true or false, in any of YAML's spellings."""
        word = self.node.text.lower() if isinstance(self.node, ScalarNode) else ""
        if word not in _FLAGS:
            self._wrong("true or false")
        return _FLAGS.get(word, default)

    def whole_number(self, subject: str, *, minimum: int = 0) -> int:
        """A whole number from `minimum`; 0 after a fault."""
        number = parse_whole_number(self.node.text) if isinstance(self.node, ScalarNode) else None
        if number is None or number < minimum:
            self.add_fault(
                "bad_number",
                f"{subject} is {self.value_text}; allowed are whole numbers from {minimum} to {MAX_UNITS}. Write for example 1.",
            )
            return 0
        return number

    def size(self, subject: str) -> int:
        """A size in bytes; 0 after a fault."""
        size = parse_size(self.node.text) if isinstance(self.node, ScalarNode) else None
        if size is None:
            self.add_fault(
                "bad_size",
                f"{subject} is {self.value_text}; allowed are a number and one of the units "
                f"{', '.join(UNITS)}, up to {MAX_BYTES // 1024**4} Ti (no unit: bytes). Write for example 16Gi.",
            )
        return size or 0

    @property
    def value_text(self) -> str:
        """What stands here, in words."""
        if isinstance(self.node, SequenceNode):
            return "a list"
        if isinstance(self.node, MapNode):
            return "a map"
        return "empty" if self.is_absent else quote(self.node.text)

    def _item_text(self) -> str | None:
        if self.is_absent:
            self.add_fault("empty", "The item is empty. Write '' for an empty text, or remove the item.")
            return None
        return self.text(empty=True)

    def _wrong(self, expected: str) -> None:
        hint = ""
        if expected.startswith("a list") and isinstance(self.node, ScalarNode):
            hint = " Put it in brackets, as in [a, b], or write one `- item` a line."
        elif expected == "text":
            hint = " Put quotes around it if it was meant as text."
        self.add_fault("wrong_type", f"Here stands {self.value_text}; expected is {expected}.{hint}")


def iterate_items(place: YamlCursor | None, expected: str) -> Iterator[YamlCursor]:
    """The items of a list that may be absent."""
    if place is not None:
        yield from place.list_items(expected)
