"""The Python values that an input consists of, and their conversion to the types that readers return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pools.domain.errors import Fault


class Dialect:
    """Parsed JSON: a text is a `str`, a number is a number, and null counts as absent.

    A conversion returns None for a value of another type. Each value comes with its line in the file, from 1; None
    without lines.
    """

    map_name = "an object"
    wrong_type = Fault.BAD_VALUE
    too_small = Fault.BAD_VALUE
    too_large = Fault.TOO_LARGE

    def is_absent(self, value: Any) -> bool:
        """Whether the value counts as absent."""
        return value is None

    def text(self, value: Any) -> str | None:
        """The value as text."""
        return value if isinstance(value, str) else None

    def boolean(self, value: Any) -> bool | None:
        """The value as true or false."""
        return value if isinstance(value, bool) else None

    def whole_number(self, value: Any) -> int | None:
        """The value as a whole number."""
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def entries(self, value: Any) -> Iterator[tuple[str, Any, int | None]] | None:
        """Key, value and line of each entry of a map."""
        return ((key, inner, None) for key, inner in value.items()) if isinstance(value, dict) else None

    def items(self, value: Any) -> Iterator[tuple[Any, int | None]] | None:
        """Value and line of each item of a list."""
        return ((inner, None) for inner in value) if isinstance(value, list) else None

    def describe(self, value: Any) -> str:
        """The kind of the value for a message; a message never repeats the value."""
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true or false"
        if isinstance(value, dict):
            return self.map_name
        if isinstance(value, list):
            return "a list"
        return "a text" if isinstance(value, str) else "a number"


JSON = Dialect()
