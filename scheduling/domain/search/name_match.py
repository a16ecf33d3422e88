"""How well a name fits what a person typed into the search: the words in any order, parts of names, and one mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

LEAST_WITH_MISTAKE = 4  # letters: a shorter word is near to too many names


class Fit(IntEnum):
    """How a name fits, the best first."""

    EXACT = 0
    BEGINS = 1
    PART_BEGINS = 2
    INSIDE = 3
    MISTYPED = 4


def words_of(text: str) -> list[str]:
    """The words of a typed text. A NUL stands in no text of the database."""
    return text.replace("\0", " ").lower().split()


def name_fit(name: str, words: Sequence[str], place: str = "") -> Fit | None:
    """The fit of the word that fits worst; None if a word is not in the name. Where names repeat from place to place,
    some of several words may be in that of the place (`n3 team1`); a place alone does not fit."""
    lowered = name.lower()
    if lowered == " ".join(words):
        return Fit.EXACT
    fits = [_word_fit(lowered, word) for word in words]
    if place and len(words) > 1 and any(fit is not None for fit in fits):
        fits = [_fit_beside(lowered, place.lower(), word) for word in words]
    found = [fit for fit in fits if fit is not None]
    return max(found) if found and len(found) == len(fits) else None


def mistyped_fit(name: str, words: Sequence[str], place: str = "") -> Fit | None:
    """As `name_fit`, where each word may have one mistake: a wrong, missing or added letter, or two swapped ones."""
    near, near_place = (_are_near(words, text.lower()) for text in (name, place))
    is_near = any(near) and all(map(any, zip(near, near_place, strict=True)))
    return Fit.MISTYPED if is_near else None


def _fit_beside(name: str, place: str, word: str) -> Fit | None:
    fits = (Fit.EXACT if word in {name, place} else None, _word_fit(name, word), _word_fit(place, word))
    return min((fit for fit in fits if fit is not None), default=None)


def _are_near(words: Sequence[str], text: str) -> list[bool]:
    runs = list(_runs(text))
    return [word in text or any(_differs_once(word, run) for run in runs) for word in words]


def _word_fit(name: str, word: str) -> Fit | None:
    if name.startswith(word):
        return Fit.BEGINS
    at = name.find(word)
    if at < 0:
        return None
    while at > 0:
        if not name[at - 1].isalnum():
            return Fit.PART_BEGINS
        at = name.find(word, at + 1)
    return Fit.INSIDE


def _runs(name: str) -> Iterator[str]:
    """The parts of the name between dashes, and those that follow one another: `export`, `export-7`, …"""
    edges = [at for at in range(len(name) + 1) if at in (0, len(name)) or not name[at - 1 : at + 1].isalnum()]
    for first in edges:
        for last in edges:
            if last - first >= LEAST_WITH_MISTAKE - 1:
                yield name[first:last]


def _differs_once(word: str, other: str) -> bool:
    if len(word) < LEAST_WITH_MISTAKE or abs(len(word) - len(other)) > 1:
        return False
    at = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    a, b = word[at:], other[at:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[2:] == b[2:] and a[:2] == b[1::-1])
