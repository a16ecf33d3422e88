"""Reasons name lending limits and fair shares where they stop work, and a setting once."""

from __future__ import annotations

from dataclasses import replace

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, NodeFacts
from scheduling.domain.engine.outcome import waiting_reasons
from tests.unit.engine.sample_clusters import GPU, cohort, facts, gang, queue


def reason_of(given, name):
    return waiting_reasons(run_cycle(given).world)[name]


def lending(limit):
    """`production` has 4 idle GPUs and lends `limit` of them; `research` uses its 8 and waits for 2 more."""
    queues = (
        queue("production", 4, "company", lending_limit=limit),
        queue("research", 8, "company"),
    )
    work = (gang("runs", "research", gpus=8, on="n"), gang("waits", "research", gpus=2))
    return ClusterFacts(queues, (cohort("company"),), work, (NodeFacts("n", {GPU: 16}),))


def test_a_lending_limit_that_stops_work_is_named_with_the_amount():
    reason = reason_of(lending(0), "waits")
    assert reason.code == "not_lent"
    assert "more is idle, but its owners do not lend it" in reason.message
    (line,) = reason.unblock
    assert "or raise the lending limit of production (keeps 4 GPUs idle)" in line
    assert "waits" not in waiting_reasons(run_cycle(lending(2)).world), "the lever works"


def test_a_reader_who_may_not_know_the_pool_gets_a_number():
    (remedy,) = reason_of(lending(0), "waits").remedies
    assert "raise the lending limit of 1 other owner" in remedy.message(str, lambda _queue: None)
    assert "production" not in remedy.message(str, lambda _queue: None)


def test_a_lender_in_use_is_not_named():
    given = lending(0)
    busy = replace(given, gangs=(*given.gangs, gang("theirs", "production", gpus=4, on="n")))
    assert reason_of(busy, "waits").code == "nothing_to_borrow"


def test_a_limit_that_bounds_the_borrowing_is_told_once():
    def given(*, derived):
        top = queue("pool", 2, "company", limit=4, borrowing_limit=2)
        queues = (replace(top, borrows_by_limit=derived), queue("other", 8, "company"))
        work = (gang("runs", "pool", gpus=4, on="n"), gang("waits", "pool", gpus=2))
        return ClusterFacts(queues, (cohort("company"),), work, (NodeFacts("n", {GPU: 16}),))

    assert len(reason_of(given(derived=False), "waits").unblock) == 2
    (line,) = reason_of(given(derived=True), "waits").unblock
    assert line.startswith("Raise the limit of pool by 2 GPUs")


def test_the_fair_share_is_named_where_it_forbids_a_reclaim():
    running = [gang("r1", "a", gpus=4, on="n"), gang("r2", "a", gpus=4, on="n")]
    waiting = [gang("mine", "b", gpus=4), gang("large", "c", gpus=8)]
    queues = [queue("a"), queue("b"), queue("c")]
    reason = reason_of(facts(queues, [*running, *waiting], {"n": 8}), "mine")
    assert reason.code == "no_room"
    assert reason.message.endswith("It may not reclaim LOW work: 4 GPUs would be over the fair share of b, 3 GPUs.")
    inside = run_cycle(facts(queues, [*running, waiting[0]], {"n": 8}))
    assert ("reclaim", "r2") in [(step.action, step.gang) for step in inside.steps], "inside its share it does"
