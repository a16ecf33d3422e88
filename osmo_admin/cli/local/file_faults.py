"""The faults of files on a terminal: each with its file and line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pools.domain.errors import BadInput
    from scheduling.history.traces.faults import ReplayFault

MAX_SHOWN = 40


def print_faults(refusal: BadInput | ReplayFault) -> None:
    """The message and the first faults."""
    print(refusal.message, file=sys.stderr)
    for fault in refusal.details[:MAX_SHOWN]:
        file = dict(fault.numbers).get("file", "")
        place = ", ".join(part for part in (file, f"line {fault.line}" if fault.line else "", fault.path) if part)
        print(f"  {place}: {fault.message}" if place else f"  {fault.message}", file=sys.stderr)
