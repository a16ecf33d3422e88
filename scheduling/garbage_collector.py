"""The switch of this process's garbage collector, for callers that build many records at once.

The engine is pure and leaves the switch alone. Its callers pause the collector around a run: where some hundred
thousand records are made and all of them are kept, most of the time would go into the search for garbage among them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Collector(Protocol):
    """What :mod:`gc` offers; tests bring a collector of their own."""

    def isenabled(self) -> bool:
        """Whether the search for cycles of garbage runs by itself."""

    def disable(self) -> None:
        """Stop the search."""

    def enable(self) -> None:
        """Start the search again."""


class CollectorSwitch:
    """Turns the collector of a process off and on. Reference counts free objects as before.

    The pause that turned the collector off turns it on. Pauses may be nested, and threads may pause side by side: then
    the collector comes back with the end of the first pause, at worst early for the others, and never stays off.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No search for cycles of garbage inside."""
        was_enabled = self._collector.isenabled()
        self._collector.disable()
        try:
            yield
        finally:
            if was_enabled:
                self._collector.enable()


garbage_collector = CollectorSwitch(gc)
"""The switch of this process."""
