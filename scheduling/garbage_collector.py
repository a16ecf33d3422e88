"""The switch of this process's garbage collector, for callers that build many records at once.

The engine is pure and does not use the switch. Its callers pause the collector around a run: a run creates some hundred
thousand records that all stay in use, and the search for garbage among them would take most of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Collector(Protocol):
    """The interface of :mod:`gc`; tests pass a collector of their own."""

    def isenabled(self) -> bool:
        """Whether the search for cycles of garbage runs automatically."""

    def disable(self) -> None:
        """Stop the search."""

    def enable(self) -> None:
        """Start the search again."""


class CollectorSwitch:
    """Turns the collector of a process off and on. Reference counts free objects as before.

    The pause that turned the collector off turns it on. Pauses may be nested, and several threads may pause at the same
    time: then the collector is on again after the end of the first pause, perhaps early for the others, and never
    remains off.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the search for cycles of garbage during the block."""
        was_enabled = self._collector.isenabled()
        self._collector.disable()
        try:
            yield
        finally:
            if was_enabled:
                self._collector.enable()


garbage_collector = CollectorSwitch(gc)
"""The switch of this process."""
