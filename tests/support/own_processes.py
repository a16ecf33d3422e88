"""What a pytest worker keeps for several tests stops when the next test does not need it, and starts again for one that
does: idle processes take time from the other tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(slots=True)
class _Kept:
    """What the fixture of a session keeps."""

    stop: Callable[[], None]
    start: Callable[[], None]
    is_running: bool = True


_kept: dict[str, _Kept] = {}


@contextmanager
def kept(fixture: str, *, stop: Callable[[], None], start: Callable[[], None]) -> Iterator[None]:
    """Inside, what this fixture of a session has started runs only for tests that use the fixture."""
    _kept[fixture] = _Kept(stop, start)
    try:
        yield
    finally:
        del _kept[fixture]


def start_needed(item: pytest.Item) -> None:
    """Start again what this test uses."""
    for fixture, each in _kept.items():
        if not each.is_running and fixture in _fixtures(item):
            each.start()
            each.is_running = True


def stop_unneeded(following: pytest.Item | None) -> None:
    """Stop what the following test does not use; None is the end, where all of it stops anyway."""
    for fixture, each in _kept.items():
        if following is not None and each.is_running and fixture not in _fixtures(following):
            each.stop()
            each.is_running = False


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))
