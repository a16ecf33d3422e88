"""Numbers with the word that they count."""

from __future__ import annotations


def counted(number: object, word: str, plural: str = "") -> str:
    """`1 workflow`, `2 workflows`; `plural` for words that take more than an s."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"
