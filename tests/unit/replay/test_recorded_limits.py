"""An unchanged replay ends work by its time limits where the record did: a reconciliation may come late, and find that
the work has ended otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.domain.engine.facts import NodeFacts, QueueFacts, TaskFacts
from scheduling.domain.priorities import Priority
from scheduling.history.replay.history import (
    Configuration,
    Ending,
    RecordedHistory,
    RecordedJob,
    RecordedStep,
    RecordedTask,
)
from scheduling.history.replay.history_clock import HistoryClock, first_difference
from scheduling.history.replay.jobs import SECOND
from tests.unit.engine.sample_clusters import GPU

NODES = (NodeFacts("n1", {GPU: 1}), NodeFacts("n2", {GPU: 1}))
CLUSTER = Configuration(
    0, (QueueFacts("team", None, {GPU: 2}),), NODES, {"default": frozenset({"n1", "n2"})}
)  # fmt: skip


def job(name, submitted, **more):
    """One task of one GPU."""
    at = submitted * SECOND
    task = RecordedTask(TaskFacts(name, {GPU: 1}), "default")
    given = {key: value * SECOND if isinstance(value, int) else value for key, value in more.items()}
    return RecordedJob(name, name, "ada", "team", Priority.NORMAL, at, at, at, (task,), 1, **given)


def started(name, at, node):
    return RecordedStep(at * SECOND, "start", name, (name,), (node,))


def replayed(jobs, steps):
    """The past of a replay that repeats these steps."""
    history = RecordedHistory(0, 1000 * SECOND, (CLUSTER,), jobs, steps)
    past = HistoryClock(history).run()
    assert first_difference(steps, past.steps) is None
    return past


@pytest.mark.parametrize("ending", [Ending.WORKED, Ending.STOPPED])
def test_work_that_ended_otherwise_after_its_time_limit_keeps_its_place_until_then(ending):
    """`limited` may run for 60 s, and ends at 65: until then `waits` has no place, also at 62, when `other` ended."""
    limited = job("limited", 0, exec_timeout=60, ended=65, ending=ending, run_time=65, last_start=1)
    other = job("other", 0, ended=61, ending=Ending.STOPPED, last_start=1)
    third = job("third", 2, ended=500, ending=Ending.STOPPED, last_start=62)
    steps = [started("limited", 1, "n1"), started("other", 1, "n2"), started("third", 62, "n2")]
    steps.append(started("waits", 66, "n1"))
    past = replayed([limited, other, third, job("waits", 3)], steps)
    assert past.jobs["limited"].ended == 65 * SECOND


def test_a_wait_that_ended_with_a_start_after_its_time_limit_was_not_too_long():
    limited = job("limited", 5, queue_timeout=60)
    first = [job(name, 0, ended=66, ending=Ending.STOPPED, last_start=1) for name in ("a", "b")]
    steps = [started("a", 1, "n1"), started("b", 1, "n2"), started("limited", 67, "n1")]
    past = replayed([*first, limited], steps)
    assert past.jobs["limited"].ended is None


def test_a_wait_and_a_run_that_the_record_ended_late_end_then():
    """A minute after their limits."""
    runs = job("runs", 0, exec_timeout=60, ended=121, ending=Ending.EXEC_TIMEOUT, last_start=1)
    other = job("other", 1)
    waits = job("waits", 1, queue_timeout=60, ended=120, ending=Ending.QUEUE_TIMEOUT, last_ready=1)
    steps = [started("runs", 1, "n1"), started("other", 1, "n2"), started("next", 122, "n1")]
    past = replayed([runs, other, waits, job("next", 2)], steps)
    assert [past.jobs[name].ended for name in ("runs", "waits")] == [121 * SECOND, 120 * SECOND]


@pytest.mark.parametrize("change", [None, lambda recorded: recorded])
def test_a_wait_begins_anew_where_work_starts_and_is_taken_back_in_one_cycle(change):
    """`short` may wait for 60 s. The cycle that gives it the free GPU takes it back for `whole`."""
    cluster = Configuration(
        0, (QueueFacts("borrows", None, {GPU: 0}), QueueFacts("team", None, {GPU: 2})), (NodeFacts("big", {GPU: 2}),),
        {"default": frozenset({"big"})},
    )  # fmt: skip
    first = replace(job("first", 0), queue="borrows", priority=Priority.LOW)
    short = job("short", 2, queue_timeout=60, ended=63, ending=Ending.QUEUE_TIMEOUT, last_ready=3)
    short = replace(short, queue="borrows", priority=Priority.LOW)
    whole = job("whole", 2, ended=100, ending=Ending.WORKED, run_time=97, last_start=3)
    whole = replace(whole, tasks=(RecordedTask(TaskFacts("whole", {GPU: 2}), "default"),), gpus=2)
    steps = [started("first", 1, "big"), started("short", 3, "big")]
    steps += [RecordedStep(3 * SECOND, "reclaim", name, (name,)) for name in ("first", "short")]
    steps += [started("whole", 3, "big"), started("first", 101, "big")]
    past = HistoryClock(RecordedHistory(0, 1000 * SECOND, (cluster,), [first, short, whole], steps), change).run()
    assert first_difference(steps, past.steps) is None
    assert past.jobs["short"].ended == 63 * SECOND


def test_with_a_change_the_limits_hold():
    """Nobody knows then when a reconciliation would have come."""
    limited = job("limited", 0, exec_timeout=60, ended=65, ending=Ending.STOPPED, last_start=1)
    history = RecordedHistory(0, 1000 * SECOND, (CLUSTER,), [limited], [started("limited", 1, "n1")])
    past = HistoryClock(history, replace).run()
    assert past.jobs["limited"].ended == 61 * SECOND
