"""Attempts over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.statuses import TaskStatus
from scheduling.domain.timelines.attempt_bars import MAX_LANES, AttemptFact, draw_attempts

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else ZERO + timedelta(seconds=seconds)


def fact(
    status: TaskStatus,
    since: float | None,
    start: float | None,
    end: float | None,
    *,
    task: str = "train",
    number: int = 1,
) -> AttemptFact:
    return AttemptFact("g", task, number, status, "n1", at(since), at(start), at(end))


def test_a_preempted_attempt_waits_again_and_runs() -> None:
    chart = draw_attempts(
        [
            fact(TaskStatus.FAILED_PREEMPTED, 0, 100, 400),
            fact(TaskStatus.RUNNING, 400, 500, None, number=2),
        ],
        ZERO + timedelta(seconds=1000),
    )
    assert chart is not None
    (lane,) = chart.lanes
    assert [(bar.kind, bar.number, bar.left, bar.width) for bar in lane.bars] == [
        ("waiting", 1, 0.0, 10.0),
        ("off", 1, 10.0, 30.0),
        ("waiting", 2, 40.0, 10.0),
        ("running", 2, 50.0, 50.0),
    ]
    assert lane.bars[-1].end is None


def test_ended_work_ends_the_axis_and_no_attempt_has_no_chart() -> None:
    later = ZERO + timedelta(days=9)
    chart = draw_attempts(
        [fact(TaskStatus.COMPLETED, 0, 60, 600), fact(TaskStatus.FAILED, 0, 60, 300, task="b")], later
    )
    assert chart is not None
    assert chart.end == ZERO + timedelta(seconds=600)
    assert [[bar.kind for bar in lane.bars] for lane in chart.lanes] == [["waiting", "good"], ["waiting", "bad"]]
    assert draw_attempts([], later) is None
    assert draw_attempts([fact(TaskStatus.SUBMITTING, None, None, None)], later) is None


def test_many_tasks_are_counted() -> None:
    many = [fact(TaskStatus.RUNNING, 0, 1, None, task=f"t{number}") for number in range(MAX_LANES + 3)]
    chart = draw_attempts(many, ZERO + timedelta(hours=1))
    assert chart is not None
    assert (len(chart.lanes), chart.hidden) == (MAX_LANES, 3)


TIMES = st.none() | st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(st.sampled_from(TaskStatus), TIMES, TIMES, TIMES), max_size=5), st.floats(-1e6, 1e6))
def test_every_bar_is_inside_the_axis_whatever_the_clocks_say(
    rows: list[tuple[TaskStatus, float | None, float | None, float | None]], now: float
) -> None:
    chart = draw_attempts([fact(*row) for row in rows], ZERO + timedelta(seconds=now))
    for lane in chart.lanes if chart else ():
        for bar in lane.bars:
            assert 0 <= bar.left <= bar.left + bar.width <= 100.01
