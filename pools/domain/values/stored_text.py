"""Texts that PostgreSQL can keep."""

from __future__ import annotations

from typing import Any


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can keep the text: no NUL, no half of a surrogate pair."""
    return "\x00" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def are_storable(data: Any) -> bool:
    """Whether this holds for every text of a JSON value, the keys of objects too."""
    stack = [data]
    while stack:
        each = stack.pop()
        if isinstance(each, str) and not is_storable(each):
            return False
        if isinstance(each, dict):
            stack += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            stack += each
    return True


def as_storable(text: str) -> str:
    """The text with a replacement character for each that PostgreSQL cannot keep."""
    return "".join(letter if is_storable(letter) else "\ufffd" for letter in text)
