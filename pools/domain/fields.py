"""Reading a JSON object key by key: the value in its type, or a violation with its path. All faults at once.

`null` always means the same as leaving the key out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from pools.domain.errors import Violation

T = TypeVar("T")
MAX_TEXT_LENGTH = 10_000


class FieldReader:
    """One object of the input and where it stands. Faults of the whole input gather in `faults`."""

    def __init__(self, body: Mapping[str, Any], path: str, faults: list[Violation]) -> None:
        self.body, self.path, self.faults = body, path, faults

    def path_of(self, key: str) -> str:
        """The path of a key, as `resources.gpu.guarantee`."""
        return f"{self.path}.{key}" if self.path else key

    def add_fault(self, key: str, code: str, message: str) -> None:
        """Note what is wrong with a key; the sentence follows its path."""
        self.faults.append(Violation(self.path_of(key), code, f"{self.path_of(key)} {message}"))

    def reject_unknown_keys(self, known: Collection[str], ignored: Collection[str] = ()) -> None:
        """Refuse every key that nobody reads; `ignored` are keys that answers add and that may come back."""
        for key in self.body:
            if key not in known and key not in ignored:
                allowed = ", ".join(sorted(known))
                self.add_fault(shorten_value(key), "unknown_key", f"is not known here; known are {allowed}.")

    def is_given(self, key: str) -> bool:
        """Whether the key says something."""
        return self.body.get(key) is not None

    def read_text(self, key: str, default: str = "") -> str:
        """A text of at most `LONGEST_TEXT` characters."""
        value = self.body.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH:
            return self._bad(key, default, f"must be a text of at most {MAX_TEXT_LENGTH} characters")
        return value

    def boolean(self, key: str, default: bool = False) -> bool:
        """true or false, nothing that only looks like it."""
        value = self.body.get(key)
        if value is None:
            return default
        return value if isinstance(value, bool) else self._bad(key, default, "must be true or false")

    def whole_number(self, key: str, default: int, *, minimum: int, maximum: int, below_code: str = "bad_value") -> int:
        """A whole number inside its bounds."""
        value = self.body.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            return self._bad(key, default, "must be a whole number")
        if value < minimum:
            self.add_fault(key, below_code, f"is {shorten_value(str(value))}; the least is {minimum}.")
            return default
        if value > maximum:
            self.add_fault(key, "too_large", f"is {shorten_value(str(value))}; the most is {maximum}.")
            return default
        return value

    def read_texts(self, key: str) -> list[str]:
        """A list of texts."""
        value = self.body.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            return self._bad(key, [], "must be a list of texts")
        return list(value)

    def nested(self, key: str) -> FieldReader | None:
        """An object inside this one; None if it is absent or no object."""
        value = self.body.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            return self._bad(key, None, "must be an object")
        return FieldReader(value, self.path_of(key), self.faults)

    def nested_list(self, key: str) -> list[FieldReader]:
        """A list of objects, each with its place in its path: `nodes[2]`."""
        value = self.body.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            return self._bad(key, [], "must be a list of objects")
        return [FieldReader(each, f"{self.path_of(key)}[{index}]", self.faults) for index, each in enumerate(value)]

    def parsed_text(self, key: str, parse: Callable[[str], T | None], default: T, expected: str) -> T:
        """A text that `parse` understands (it answers None for others)."""
        value = self.body.get(key)
        if value is None:
            return default
        found = parse(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
        return (
            found if found is not None else self._bad(key, default, f"is {shorten_value(repr(value))}; give {expected}")
        )

    def _bad(self, key: str, default: T, rule: str) -> T:
        self.add_fault(key, "bad_value", f"{rule}.")
        return default


def shorten_value(text: str) -> str:
    """Somebody else's text, short enough for a sentence."""
    return text if len(text) <= 60 else f"{text[:57]}..."
