"""Scheduler events as lanes over a range of time: places, lanes, columns, and round times on the axis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.timelines.event_lanes import (
    MAX_COLUMNS,
    MAX_LANES,
    MAX_TICKS,
    LaneCount,
    column_length,
    draw_lanes,
    slot_length,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def _count(minutes: float, pool: str = "team", action: str = "start", count: int = 1) -> LaneCount:
    return LaneCount(pool, action, NOON + timedelta(minutes=minutes), count)


def test_lanes_span_the_range_also_without_events() -> None:
    chart = draw_lanes([], NOON, NOON + HOUR)
    assert chart.lanes == []
    assert (chart.columns[0].since, chart.columns[-1].until) == (NOON, NOON + HOUR)
    assert sum(column.width for column in chart.columns) == pytest.approx(100, abs=0.1)


def test_each_pool_has_a_lane_and_places_are_relative_to_the_range() -> None:
    chart = draw_lanes([_count(30, "b"), _count(15, "a", count=5), _count(30, "b", "reclaim")], NOON, NOON + HOUR)
    middle = slot_length(NOON, NOON + HOUR) / 2 / HOUR * 100
    assert [
        (lane.pool, lane.total, [(mark.left, mark.action, mark.size) for mark in lane.marks]) for lane in chart.lanes
    ] == [
        ("a", 5, [(round(25 + middle, 2), "start", 3)]),
        ("b", 2, [(round(50 + middle, 2), "reclaim", 1), (round(50 + middle, 2), "start", 1)]),
    ]
    assert [(tick.time.minute, tick.left) for tick in chart.ticks][:3] == [(0, 0.0), (15, 25.0), (30, 50.0)]
    assert not chart.has_days
    (column,) = [column for column in chart.columns if column.since == NOON + 30 * timedelta(minutes=1)]
    assert (column.counts, column.total) == ([("b", {"reclaim": 1, "start": 1})], 2)


def test_the_lanes_with_the_fewest_events_are_one() -> None:
    counts = [_count(number, f"pool{number:02}", count=number + 1) for number in range(MAX_LANES + 3)]
    chart = draw_lanes(counts, NOON, NOON + HOUR)
    assert len(chart.lanes) == MAX_LANES
    assert (chart.lanes[-1].pool, chart.lanes[-1].total) == ("4 others", 1 + 2 + 3 + 4)
    assert len(draw_lanes(counts[:MAX_LANES], NOON, NOON + HOUR).lanes) == MAX_LANES


@pytest.mark.parametrize(
    ("length", "minutes"),
    [(HOUR, 5), (6 * HOUR, 30), (24 * HOUR, 120), (168 * HOUR, 720), (timedelta(minutes=1), 1 / 6)],
)
def test_columns_have_round_lengths(length: timedelta, minutes: float) -> None:
    assert column_length(NOON, NOON + length) == timedelta(minutes=minutes)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from("abc"), st.sampled_from(["start", "reclaim"]))),
    st.integers(60, 10**8),
    st.integers(0, 10**6),
)
def test_every_event_is_in_one_mark_and_one_column(
    drawn: list[tuple[int, str, str]], seconds: int, offset: int
) -> None:
    start = NOON + timedelta(seconds=offset)
    end = start + timedelta(seconds=seconds)
    slot = slot_length(start, end)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    counts = [
        LaneCount(pool, action, epoch + (start + (end - start) * (share / 1000) - epoch) // slot * slot, 1)
        for share, pool, action in drawn
    ]
    chart = draw_lanes(counts, start, end)
    assert sum(mark.count for lane in chart.lanes for mark in lane.marks) == len(drawn)
    assert sum(column.total for column in chart.columns) == len(drawn)
    assert all(0 <= mark.left <= 100 for lane in chart.lanes for mark in lane.marks)
    assert len(chart.columns) <= MAX_COLUMNS + 1
    assert len(chart.ticks) <= MAX_TICKS
    assert all(0 <= tick.left <= 100 for tick in chart.ticks)
