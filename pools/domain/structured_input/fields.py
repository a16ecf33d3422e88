"""The values of one map, read by their keys. `null` always means the same as leaving the key out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Self, TypeVar

from pools.domain.errors import Fault, Violation
from pools.domain.structured_input.faults import Faults
from pools.domain.structured_input.values import ValueReader, unknown_key_message

T = TypeVar("T")
MAX_TEXT_LENGTH = 10_000


class FieldReader:
    """One map of the input and its path. Faults of the whole input gather in `faults`."""

    values: ClassVar[type[ValueReader]] = ValueReader

    def __init__(self, body: Mapping[str, Any], path: str, faults: Faults | list[Violation]) -> None:
        self.body, self.path = body, path
        self.faults = faults if isinstance(faults, Faults) else Faults(faults)

    def path_of(self, key: str) -> str:
        """The path of a key, such as `resources.gpu.guarantee`."""
        return f"{self.path}.{key}" if self.path else key

    def add_fault(self, key: str, code: Fault, message: str) -> None:
        """Note a fault of a key; the path of the key is the subject of the message."""
        path = self.path_of(key)
        self.faults.add(path, code, f"{path} {message}")

    def reject_unknown_keys(self, known: Collection[str], ignored: Collection[str] = ()) -> None:
        """Refuse each unknown key; `ignored` are keys that answers add and that a request may contain."""
        for key in [key for key in self.body if key not in known and key not in ignored]:
            if self.faults.is_full:
                self.faults.leave_out()  # a message is slow to make for many keys
            else:
                path = self.path_of(shorten_value(str(key)))
                self.faults.add(
                    path, Fault.UNKNOWN_KEY, unknown_key_message(path, str(key), sorted(known), self.faults)
                )

    def is_given(self, key: str) -> bool:
        """Whether the key has a value."""
        return self.body.get(key) is not None

    def field(self, key: str) -> ValueReader:
        """The reader of the value under a key."""
        return self.values(self.body.get(key), self.path_of(key), None, self.faults)

    def read_text(self, key: str, default: str = "") -> str:
        """A text of at most `MAX_TEXT_LENGTH` characters."""
        if not self.is_given(key):
            return default
        text = self.field(key).text()
        if text is not None and len(text) > MAX_TEXT_LENGTH:
            self.add_fault(key, Fault.BAD_VALUE, f"must be a text of at most {MAX_TEXT_LENGTH:,} characters.")
            return default
        return default if text is None else text

    def boolean(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return self.field(key).boolean(default) if self.is_given(key) else default

    def whole_number(
        self, key: str, default: int, *, minimum: int, maximum: int, below_code: Fault | None = None
    ) -> int:
        """A whole number inside its bounds."""
        if not self.is_given(key):
            return default
        return self.field(key).whole_number(default, minimum=minimum, maximum=maximum, below_code=below_code)

    def read_texts(self, key: str) -> list[str]:
        """A list of texts."""
        items = self._items(key, "texts")
        if any(item.dialect.text(item.value) is None for item in items):
            self.add_fault(key, Fault.BAD_VALUE, "must be a list of texts.")
            return []
        return [item.value for item in items]

    def nested(self, key: str) -> Self | None:
        """The map under a key; None if it is absent or something else."""
        if not self.is_given(key):
            return None
        field = self.field(key)
        if not field.is_map:
            field.refuse(field.dialect.map_name)
            return None
        return type(self)(field.value, field.path, self.faults)

    def nested_list(self, key: str) -> list[Self]:
        """The maps of a list, each with its index in its path: `nodes[2]`."""
        items = self._items(key, "objects")
        if not all(item.is_map for item in items):
            self.add_fault(key, Fault.BAD_VALUE, "must be a list of objects.")
            return []
        return [type(self)(item.value, item.path, self.faults) for item in items]

    def _items(self, key: str, expected: str) -> list[ValueReader]:
        return self.field(key).list_items(expected) if self.is_given(key) else []

    def parsed_text(self, key: str, parse: Callable[[str], T | None], default: T, expected: str) -> T:
        """The result of `parse` for a text or a whole number; `parse` returns None for a text that is not valid."""
        if not self.is_given(key):
            return default
        value = self.body[key]
        found = parse(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
        if found is None:
            self.field(key).refuse(expected)
            return default
        return found


def shorten_value(text: str) -> str:
    """A text of the author, cut to a length that fits into a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."
