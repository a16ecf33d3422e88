"""Making many objects at once without the garbage collector looking through all of them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for circles of garbage meanwhile; what nothing refers to any more goes all the same.

    Where some hundred thousand records are made and all of them are kept, most of the time would go into that search.
    Threads may be here side by side: whoever found the collector on turns it on again, at worst early.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
