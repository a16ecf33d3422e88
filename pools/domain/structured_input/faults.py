"""The faults of one input, collected so that its author sees all of them at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from pools.domain.errors import MAX_DETAILS, Fault, RuleName, Violation
from pools.domain.values.counting import first_names

MAX_WARNINGS = 50
_MAX_PATH = 200
_MAX_SHOWN = 60
_MAX_COMPARED_LENGTH = 64
_MAX_COMPARED_WORDS = 200
_MAX_LISTED = 30
_MAX_SUGGESTIONS = 100


class Faults:
    """The violations that the readers of one input add. Beyond `maximum`, or what an error names, only their number is
    counted."""

    def __init__(self, violations: list[Violation] | None = None, *, maximum: int | None = None) -> None:
        self.violations = [] if violations is None else violations
        self.maximum = maximum
        self.unlisted_count = 0
        self.warnings: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether further violations are only counted."""
        return len(self.violations) >= (MAX_DETAILS - 1 if self.maximum is None else self.maximum)

    def add(self, path: str, code: Fault | RuleName, message: str, line: int | None = None) -> None:
        """Note one broken rule. `path` as in `workflow.tasks[2].image`, `line` from 1 in the file of the author."""
        self.append(Violation(path if self.maximum is None else shorten(path, _MAX_PATH), code, message, line))

    def append(self, violation: Violation) -> None:
        """Note a violation that another check has found."""
        if self.is_full:
            self.leave_out()
        elif (
            self.maximum is None or violation not in self.violations
        ):  # ten tasks with one resource report its fault ten times
            self.violations.append(violation)

    def leave_out(self) -> None:
        """Count a violation that is not listed. What an error names ends with a violation that says so."""
        if self.maximum is None and self.violations[-1].code != Fault.MORE:
            self.violations.append(Violation("", Fault.MORE, "More faults are not listed. Correct these first."))
        self.unlisted_count += 1

    def extend(self, violations: Iterable[Violation]) -> None:
        """Note several violations."""
        for violation in violations:
            self.append(violation)

    def suggestion(self, word: str, allowed: Iterable[str]) -> str:
        """` Did you mean "x"?` if a similar word is allowed (case, `-` and `_` do not count), else an empty text. After
        `_MAX_SUGGESTIONS` faults the text is empty, too: comparing is slow, and a hostile file can request it very
        often."""
        if len(word) > _MAX_COMPARED_LENGTH or len(self.violations) >= _MAX_SUGGESTIONS:
            return ""
        known = {
            _normalize_word(name): name
            for name in islice(allowed, _MAX_COMPARED_WORDS)
            if len(name) <= _MAX_COMPARED_LENGTH
        }
        near = difflib.get_close_matches(_normalize_word(word), known, n=1, cutoff=0.7)
        return f" Did you mean {quote(known[near[0]])}?" if near else ""

    def add_warning(self, message: str) -> None:
        """Note something that is allowed but unusual; each message only once."""
        if len(self.warnings) < MAX_WARNINGS and message not in self.warnings:
            self.warnings.append(message)


def shorten(text: str, maximum: int = _MAX_SHOWN) -> str:
    """`text` on one line, cut to a length that fits into a message."""
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: maximum + 1])
    return flat if len(flat) <= maximum else flat[: maximum - 1] + "…"


def quote(text: str) -> str:
    """`text` in quotes, for a message."""
    return f'"{shorten(text)}"'


def join_words(words: Iterable[str]) -> str:
    """`a, b, c`; words beyond the length of a message are only counted."""
    return first_names([shorten(word) for word in words], _MAX_LISTED)


def _normalize_word(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
