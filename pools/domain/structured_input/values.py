"""One value of an input: its path, and conversions to each type."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Self

from pools.domain.errors import Fault
from pools.domain.structured_input.dialect import JSON, Dialect
from pools.domain.structured_input.faults import Faults, join_words, quote, shorten

_MAX_SUBJECT = 120


class ValueReader:
    """A value, its path and its line. A reader that finds another type notes a fault and returns a default."""

    __slots__ = ("faults", "line", "path", "value")

    dialect: ClassVar[Dialect] = JSON
    root: ClassVar[str] = ""
    """The path of a fault of the input as a whole."""

    def __init__(self, value: Any, path: str, line: int | None, faults: Faults) -> None:
        self.value, self.path, self.line, self.faults = value, path, line, faults

    def add_fault(self, code: Fault, message: str) -> None:
        """Note a fault of this value."""
        self.faults.add(self.path or self.root, code, message, self.line)

    def refuse(self, expected: str, code: Fault | None = None, hint: str = "") -> None:
        """Note that the value is not `expected`. The message names the kind of the value where that helps, and never
        the value."""
        subject = shorten(self.path, _MAX_SUBJECT) or "The input"
        found = self.dialect.describe(self.value)
        helps = found and not (found == "a number" and "number" in expected) and found not in expected
        kind = f", not {found}" if helps else ""
        self.add_fault(code or self.dialect.wrong_type, f"{subject} must be {expected}{kind}.{hint}")

    @property
    def is_absent(self) -> bool:
        """Whether the value counts as not written."""
        return self.dialect.is_absent(self.value)

    @property
    def is_map(self) -> bool:
        """Whether the value is a map."""
        return self.dialect.entries(self.value) is not None

    def child(self, key: str, value: Any, line: int | None) -> Self:
        """The reader of the value under a key."""
        return type(self)(value, f"{self.path}.{key}" if self.path else key, line, self.faults)

    def map_entries(self, expected: str) -> dict[str, Self]:
        """The readers of a map's values by key, absent values included."""
        entries = self.dialect.entries(self.value)
        if entries is None:
            self.refuse(f"{self.dialect.map_name}{expected and f' ({expected})'}")
            return {}
        return {key: self.child(key, value, line) for key, value, line in entries}

    def known_fields(self, allowed: Collection[str], required: Collection[str] = ()) -> dict[str, Self]:
        """The readers of the values that a map has under known keys. Unknown and missing keys are faults."""
        if not self.is_map:
            self.refuse(f"{self.dialect.map_name} with {join_words(allowed)}")
            return {}
        found = self.map_entries("")
        for key in [key for key in found if key not in allowed]:
            unknown = found.pop(key)
            if self.faults.is_full:
                self.faults.leave_out()  # a message is slow to make for many keys
            else:
                unknown.add_fault(Fault.UNKNOWN_KEY, unknown_key_message(unknown.path, key, allowed, self.faults))
        found = {key: reader for key, reader in found.items() if not reader.is_absent}
        for key in [key for key in required if key not in found]:
            self.child(key, None, self.line).add_fault(Fault.MISSING, f"The key {quote(key)} is missing. Add it.")
        return found

    def list_items(self, expected: str) -> list[Self]:
        """The readers of a list's items."""
        items = self.dialect.items(self.value)
        if items is None:
            self.refuse(f"a list of {expected}" if expected else "a list")
            return []
        return [
            type(self)(value, f"{self.path}[{index}]", line, self.faults) for index, (value, line) in enumerate(items)
        ]

    def text(self) -> str | None:
        """A text; None after a fault."""
        found = self.dialect.text(self.value)
        if found is None:
            self.refuse("a text")
        return found

    def texts(self, expected: str = "texts") -> tuple[str, ...]:
        """A list of texts."""
        return tuple(text for item in self.list_items(expected) if (text := item.text()) is not None)

    def boolean(self, default: bool = False) -> bool:
        """True or false."""
        found = self.dialect.boolean(self.value)
        if found is None:
            self.refuse("true or false")
            return default
        return found

    def whole_number(
        self, default: int = 0, *, minimum: int = 0, maximum: int | None = None, below_code: Fault | None = None
    ) -> int:
        """A whole number inside its bounds."""
        found = self.dialect.whole_number(self.value)
        expected = f"a whole number from {minimum:,}" + ("" if maximum is None else f" to {maximum:,}")
        if found is None:
            self.refuse(expected)
        elif found < minimum:
            self.refuse(expected, below_code or self.dialect.too_small)
        elif maximum is not None and found > maximum:
            self.refuse(expected, self.dialect.too_large)
        else:
            return found
        return default


def unknown_key_message(path: str, key: str, known: Collection[str], faults: Faults) -> str:
    """The message for an unknown key."""
    allowed = f"{faults.suggestion(key, known)} Known are {join_words(known)}." if known else " Leave it out."
    return f"{shorten(path, _MAX_SUBJECT)} is not known here.{allowed}"
