"""A place in a file: its node, path and line. Asking it for a value of some form notes a fault if it has another."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pools.domain.sizes import MOST_BYTES, MOST_UNITS, UNITS, size_in_bytes
from scheduling.specs.faults import Faults, listed, quoted
from scheduling.specs.nodes import Map, Node, Scalar, Sequence, plain
from scheduling.specs.units import whole_number

_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Place:
    """Where we are. Every reader returns None (or nothing) after noting a fault, so that reading goes on."""

    node: Node
    path: str
    line: int
    faults: Faults

    def fail(self, code: str, message: str) -> None:
        """Note a fault here."""
        self.faults.add(self.path or "file", code, message, self.line)

    def warn(self, sentence: str) -> None:
        """Note a warning that names this place."""
        self.faults.warn(f"{self.path} (line {self.line}): {sentence}")

    @property
    def absent(self) -> bool:
        """Written without a value (`timeout:`), which counts as not written."""
        return isinstance(self.node, Scalar) and self.node.value is None

    @property
    def is_map(self) -> bool:
        """A map stands here."""
        return isinstance(self.node, Map)

    @property
    def is_empty_list(self) -> bool:
        """`[]` stands here."""
        return isinstance(self.node, Sequence) and not self.node.items

    @property
    def plain(self) -> Any:
        """The value as JSON can hold it."""
        return plain(self.node)

    def entries(self, expected: str) -> dict[str, Place]:
        """The places of a map by key; those without a value too."""
        if not isinstance(self.node, Map):
            self._wrong(f"a map ({expected})")
            return {}
        return {
            name: Place(entry.node, f"{self.path}.{name}" if self.path else name, entry.line, self.faults)
            for name, entry in self.node.entries.items()
        }

    def fields(self, allowed: Collection[str], required: Collection[str] = ()) -> dict[str, Place]:
        """The places of a map with known keys, without those that have no value. Unknown or missing keys are faults."""
        if not isinstance(self.node, Map):
            self._wrong(f"a map with {listed(allowed)}")
            return {}
        found = self.entries("")
        for name in [name for name in found if name not in allowed]:
            near = self.faults.suggestion(name, allowed)
            message = f"The key {quoted(name)} is not known here.{near} Allowed are {listed(allowed)}."
            found.pop(name).fail("unknown_key", message)
        found = {name: place for name, place in found.items() if not place.absent}
        for name in [name for name in required if name not in found]:
            path = f"{self.path}.{name}" if self.path else name
            self.faults.add(path, "missing", f"{quoted(name)} is missing here. Add it; the file needs it.", self.line)
        return found

    def items(self, expected: str) -> list[Place]:
        """The places of a list."""
        if not isinstance(self.node, Sequence):
            self._wrong(f"a list of {expected}")
            return []
        return [
            Place(item, f"{self.path}[{index}]", item.line, self.faults) for index, item in enumerate(self.node.items)
        ]

    def text(self, *, empty: bool = False) -> str | None:
        """Text as written; numbers, dates and true/false are text too where text is asked for."""
        if not isinstance(self.node, Scalar) or (self.node.value is None and not empty):
            self._wrong("text")
            return None
        if not self.node.text.strip() and not empty:
            self.fail("empty", "The text is empty. Write a value, or leave the key out.")
            return None
        return "" if self.node.value is None else self.node.text

    def texts(self, expected: str = "texts") -> tuple[str, ...]:
        """A list of texts. An item may be empty if it is written as such (`''`)."""
        return tuple(text for item in self.items(expected) if (text := item._item_text()) is not None)

    def text_map(self, expected: str) -> dict[str, str]:
        """A map from text to text; a key without value has the empty text."""
        found = {name: place.text(empty=True) for name, place in self.entries(expected).items()}
        return {name: text for name, text in found.items() if text is not None}

    def flag(self, default: bool) -> bool:
        """true or false, in any of YAML's spellings."""
        word = self.node.text.lower() if isinstance(self.node, Scalar) else ""
        if word not in _FLAGS:
            self._wrong("true or false")
        return _FLAGS.get(word, default)

    def whole(self, what: str, *, least: int = 0) -> int:
        """A whole number from `least`; 0 after a fault."""
        number = whole_number(self.node.text) if isinstance(self.node, Scalar) else None
        if number is None or number < least:
            self.fail(
                "bad_number",
                f"{what} is {self.found}; allowed are whole numbers from {least} to {MOST_UNITS}. Write for example 1.",
            )
            return 0
        return number

    def size(self, what: str) -> int:
        """A size in bytes; 0 after a fault."""
        size = size_in_bytes(self.node.text) if isinstance(self.node, Scalar) else None
        if size is None:
            self.fail(
                "bad_size",
                f"{what} is {self.found}; allowed are a number and one of the units "
                f"{', '.join(UNITS)}, up to {MOST_BYTES // 1024**4} Ti (no unit: bytes). Write for example 16Gi.",
            )
        return size or 0

    @property
    def found(self) -> str:
        """What stands here, in words."""
        if isinstance(self.node, Sequence):
            return "a list"
        if isinstance(self.node, Map):
            return "a map"
        return "empty" if self.absent else quoted(self.node.text)

    def _item_text(self) -> str | None:
        if self.absent:
            self.fail("empty", "The item is empty. Write '' for an empty text, or remove the item.")
            return None
        return self.text(empty=True)

    def _wrong(self, expected: str) -> None:
        hint = ""
        if expected.startswith("a list") and isinstance(self.node, Scalar):
            hint = " Put it in brackets, as in [a, b], or write one `- item` a line."
        elif expected == "text":
            hint = " Put quotes around it if it was meant as text."
        self.fail("wrong_type", f"Here stands {self.found}; expected is {expected}.{hint}")


def each(place: Place | None, expected: str) -> Iterator[Place]:
    """The items of a list that may be absent."""
    if place is not None:
        yield from place.items(expected)
