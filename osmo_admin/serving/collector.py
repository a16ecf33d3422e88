"""The garbage collector's settings in a process that answers requests."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 20_000
"""The objects that a process makes before it searches the young ones. An answer of 1,000 rows makes about as many, and
nearly all are freed by their reference counts."""


def set_collector_for_requests() -> None:
    """Search seldom, and never among the objects that are loaded now: they stay as long as the process."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
