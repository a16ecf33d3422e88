"""Where the faults of one file are gathered, so that its author sees all of them at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from pools.domain.errors import Violation

MAX_FAULTS = 100
MAX_WARNINGS = 50
_LONGEST_SHOWN = 60
_LONGEST_COMPARED = 64
_MOST_COMPARED = 200
_MOST_LISTED = 30


class SpecFaults:
    """The list that the readers write into. Beyond `MAX_FAULTS` only the number is kept: nobody reads on."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.unlisted_count = 0
        self.warnings: list[str] = []

    def add(self, path: str, code: str, message: str, line: int | None = None) -> None:
        """Note one broken rule. `path` as in `workflow.tasks[2].image`, `line` from 1 in the file the author wrote."""
        fault = Violation(shorten(path, 200), code, message, line)
        if len(self.violations) >= MAX_FAULTS:
            self.unlisted_count += 1
        elif fault not in self.violations:  # ten tasks of one resource tell of its fault ten times
            self.violations.append(fault)

    def suggestion(self, word: str, allowed: Iterable[str]) -> str:
        """` Did you mean "x"?` if an allowed word is near (case, `-` and `_` do not count), else nothing.

        Nothing either once the list is full: comparing is slow, and a hostile file can ask for it very often.
        """
        if len(word) > _LONGEST_COMPARED or len(self.violations) >= MAX_FAULTS:
            return ""
        known = {_bare(name): name for name in islice(allowed, _MOST_COMPARED) if len(name) <= _LONGEST_COMPARED}
        near = difflib.get_close_matches(_bare(word), known, n=1, cutoff=0.7)
        return f" Did you mean {quote(known[near[0]])}?" if near else ""

    def add_warning(self, sentence: str) -> None:
        """Note something that is allowed and still worth saying; each sentence once."""
        if len(self.warnings) < MAX_WARNINGS and sentence not in self.warnings:
            self.warnings.append(sentence)


def shorten(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """`text` on one line and not longer than a message can bear."""
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: longest + 1])
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def quote(text: str) -> str:
    """`text` as a message shows it."""
    return f'"{shorten(text)}"'


def join_words(words: Iterable[str]) -> str:
    """`a, b, c`, cut where it becomes a wall of text."""
    names = list(words)
    shown = ", ".join(shorten(name) for name in names[:_MOST_LISTED])
    return shown + (f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else "")


def _bare(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
