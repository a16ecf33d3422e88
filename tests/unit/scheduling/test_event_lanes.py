"""Scheduler events as lanes: positions, merged marks, and round times on the axis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.timelines.event_lanes import MAX_TICKS, MERGED_PERCENT, draw_lanes

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass(frozen=True)
class ShownEvent:
    pk: int
    time: datetime
    action: str
    pool: str
    workflow: str


def _event(pk: int, minutes: float, pool: str = "team", action: str = "start") -> ShownEvent:
    return ShownEvent(pk, NOON + timedelta(minutes=minutes), action, pool, f"w-{pk}")


def test_no_events_give_no_chart() -> None:
    assert draw_lanes([]) is None


def test_each_pool_has_a_lane_and_positions_are_relative_to_the_ends() -> None:
    chart = draw_lanes([_event(3, 60, "b"), _event(2, 30, "a"), _event(1, 0, "b")])
    assert chart is not None
    assert [(lane.pool, [(mark.pk, mark.left) for mark in lane.marks]) for lane in chart.lanes] == [
        ("a", [(2, 50.0)]),
        ("b", [(1, 0.0), (3, 100.0)]),
    ]
    assert [(tick.time.minute, tick.left) for tick in chart.ticks][:3] == [(0, 0.0), (15, 25.0), (30, 50.0)]
    assert not chart.has_days
    assert not chart.has_seconds


def test_close_events_of_one_action_are_one_mark() -> None:
    rows = [_event(1, 0), _event(2, 0.5), _event(3, 0.6, action="reclaim"), _event(4, 5), _event(5, 100)]
    chart = draw_lanes(rows)
    assert chart is not None
    marks = chart.lanes[0].marks
    assert [(mark.pk, mark.action, list(mark.workflows)) for mark in marks] == [
        (1, "start", ["w-1", "w-2"]),
        (3, "reclaim", ["w-3"]),
        (4, "start", ["w-4"]),
        (5, "start", ["w-5"]),
    ]


def test_one_event_is_at_the_right_end() -> None:
    chart = draw_lanes([_event(1, 0)])
    assert chart is not None
    assert chart.lanes[0].marks[0].left == 100
    assert chart.end - chart.start == timedelta(minutes=1)
    assert chart.has_seconds


@given(
    st.lists(
        st.tuples(st.integers(0, 10**8), st.sampled_from("abc"), st.sampled_from(["start", "reclaim"])), min_size=1
    )
)
def test_every_event_is_in_one_mark_inside_the_axis(drawn: list[tuple[int, str, str]]) -> None:
    rows = [
        ShownEvent(pk, NOON + timedelta(seconds=seconds), action, pool, f"w-{pk}")
        for pk, (seconds, pool, action) in enumerate(drawn)
    ]
    chart = draw_lanes(rows)
    assert chart is not None
    found = sorted(name for lane in chart.lanes for mark in lane.marks for name in mark.workflows)
    assert found == sorted(row.workflow for row in rows)
    for lane in chart.lanes:
        assert all(0 <= mark.left <= 100 for mark in lane.marks)
        starts = [mark.left for mark in lane.marks if mark.action == "start"]
        assert all(later - earlier > MERGED_PERCENT for earlier, later in pairwise(starts))
    assert len(chart.ticks) <= MAX_TICKS
    assert all(0 <= tick.left <= 100 for tick in chart.ticks)
