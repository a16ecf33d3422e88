"""Numbers with the word that they count."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: float, word: str, plural: str = "") -> str:
    """`1 workflow`, `2 workflows`; `plural` for words that take more than an s."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def first_names(names: Sequence[str], limit: int = 10) -> str:
    """`a, b and 3 more`: the first names, and the number of the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
