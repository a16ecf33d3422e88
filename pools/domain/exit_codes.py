"""The exit codes that complete, fail or reschedule a task: `{"RESCHEDULE": "0,1-10,3006"}` (design, O7.4)."""

from __future__ import annotations

import re

EXIT_ACTIONS = ("COMPLETE", "FAIL", "RESCHEDULE")
MAX_EXIT_CODE = 9999
EXIT_CODES_RULE = f"codes from 0 to {MAX_EXIT_CODE} and ranges of them, as in 0,1-10,3006"

ExitCodes = tuple[tuple[int, int], ...]
"""Ranges of exit codes, both ends included."""

_CODES = re.compile(r"\s*\d{1,6}\s*(?:-\s*\d{1,6}\s*)?", re.ASCII)


def parse_exit_codes(text: str) -> ExitCodes | None:
    """The ranges of a text such as `0,1-10,3006`; None if the text is not valid."""
    parts = text.split(",")
    if len(text) > 1000 or not all(_CODES.fullmatch(part) for part in parts):
        return None
    ranges = []
    for part in parts:
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if low > high or high > MAX_EXIT_CODE:
            return None
        ranges.append((low, high))
    return tuple(ranges)
