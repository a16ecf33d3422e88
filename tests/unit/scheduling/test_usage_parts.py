"""In which hours a flavor counted parts of shared GPUs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from pools.domain.configuration.flavors import SHARED_GPUS, SHARED_GPUS_WHOLE
from scheduling.selectors.usage.parts import PartTime, hours_of_changed_days, part_times

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
PARTS = {SHARED_GPUS: SHARED_GPUS_WHOLE}
WHOLE = {"gpu": "t4"}


def _times(*changes: tuple[float, dict[str, dict[str, str]]]) -> list[PartTime]:
    """`changes` are hours since Monday, and the labels of each flavor from then on."""
    history = [
        (1, (MONDAY + timedelta(hours=hour)).isoformat(), [{"name": k, "node_labels": v} for k, v in flavors.items()])
        for hour, flavors in changes
    ]
    return part_times(json.dumps(history))


def _hours(times: list[PartTime], flavor: str = "t4") -> list[int]:
    """The hours since Monday of two days in which the flavor counted parts."""
    every = [MONDAY + timedelta(hours=hour) for hour in range(-1, 48)]
    return [
        (at - MONDAY) // timedelta(hours=1)
        for at in every
        if any(each.flavor == flavor and each.since <= at < each.until for each in times)
    ]


def test_a_flavor_counts_in_an_hour_what_it_counted_last_in_it():
    assert _hours(part_times(None)) == []
    assert _hours(_times((3, {"t4": WHOLE}))) == []
    assert _hours(_times((3, {"t4": PARTS}))) == list(range(-1, 48)), "also before it was named"
    times = _times((3, {"t4": PARTS}), (10.5, {"t4": WHOLE}), (20.1, {"t4": PARTS}), (20.9, {"t4": WHOLE}))
    assert _hours(times) == list(range(-1, 10))


def test_a_flavor_that_is_gone_counts_what_it_counted_last():
    times = _times((3, {"t4": PARTS, "a": WHOLE}), (5, {"a": WHOLE}), (9, {"a": PARTS}), (12, {"t4": WHOLE}))
    assert _hours(times) == list(range(-1, 12))
    assert _hours(times, "a") == list(range(9, 48))


def test_a_change_at_midnight_splits_no_day():
    times = _times((3, {"t4": PARTS}), (24, {"t4": WHOLE}))
    assert list(hours_of_changed_days(times, MONDAY, MONDAY + timedelta(days=2))) == []
    times = _times((3, {"t4": PARTS}), (25, {"t4": WHOLE}), (70, {"t4": PARTS}))
    found = list(hours_of_changed_days(times, MONDAY, MONDAY + timedelta(days=2)))
    assert found == [MONDAY + timedelta(hours=hour) for hour in range(24, 48)]
