"""What a pytest worker keeps for the tests of a lane stops after them, and starts again for another test that uses it:
idle processes take time from the other tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support import lanes


@dataclass(slots=True)
class _Kept:
    """What the fixture of a session keeps."""

    stop: Callable[[], None]
    start: Callable[[], None]
    is_running: bool = True


_kept: dict[str, _Kept] = {}


@contextmanager
def kept(fixture: str, *, stop: Callable[[], None], start: Callable[[], None]) -> Iterator[None]:
    """Inside, what this fixture of a session has started runs only in lanes that use the fixture."""
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


def stop_unneeded(item: pytest.Item, following: pytest.Item | None) -> None:
    """Between two lanes, stop what the following test does not use; None is the end, where all of it stops anyway."""
    if following is None or lanes.find_lane(item.nodeid) == lanes.find_lane(following.nodeid):
        return
    for fixture, each in _kept.items():
        if each.is_running and fixture not in _fixtures(following):
            each.stop()
            each.is_running = False


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))
