"""Reasons name lending limits and fair shares where they stop work, and a setting once."""

from __future__ import annotations

from dataclasses import replace

from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import NORMAL, ClusterFacts, NodeFacts, PolicyFacts
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
    assert "or raise the lending limit of production by 2 GPUs (keeps 4 GPUs idle)" in line
    assert "waits" in waiting_reasons(run_cycle(lending(1)).world), "less is not enough"
    assert "waits" not in waiting_reasons(run_cycle(lending(2)).world), "the lever works"


def test_a_lending_limit_that_would_not_suffice_is_no_remedy():
    """`idle` keeps 1 of the 2 GPUs that are missing."""

    def given(limit):
        queues = (queue("busy", 3, "org"), queue("idle", 2, "org", lending_limit=limit))
        work = (gang("runs", "busy", gpus=4, on="n"), gang("waits", "busy", gpus=2))
        return ClusterFacts(queues, (cohort("org"),), work, (NodeFacts("n", {GPU: 8}),))

    (line,) = reason_of(given(1), "waits").unblock
    assert line == (
        "Raise the quota of org by 2 GPUs, or end work under org that uses as much shared quota. "
        "To raise the lending limit of idle by 1 GPU (keeps 1 GPU idle) gives only 1 of 2 GPUs."
    )
    assert "waits" in waiting_reasons(run_cycle(given(UNLIMITED)).world)


def test_the_limits_of_several_nodes_rise_together_as_far_as_needed():
    """What `two` would lend more, `part` would keep by its own limit."""

    def given(one, two, part):
        queues = (
            queue("busy", 2, "org"),
            queue("one", 1, "org", lending_limit=one),
            queue("two", 2, "part", lending_limit=two),
        )
        cohorts = (cohort("org"), cohort("part", 0, "org", lending_limit=part))
        work = (gang("runs", "busy", gpus=2, on="n"), gang("waits", "busy", gpus=2))
        return ClusterFacts(queues, cohorts, work, (NodeFacts("n", {GPU: 8}),))

    (line,) = reason_of(given(0, 0, 0), "waits").unblock
    assert line.endswith(", or raise the lending limits of two by 2 GPUs (keeps 2 GPUs idle) and part by 2 GPUs.")
    assert "waits" not in waiting_reasons(run_cycle(given(0, 2, 2)).world)
    for less in ((0, 1, 2), (0, 2, 1)):
        assert "waits" in waiting_reasons(run_cycle(given(*less)).world), less


def test_a_reader_who_may_not_know_the_pool_gets_a_number():
    (remedy,) = reason_of(lending(0), "waits").remedies
    assert "raise the lending limit of 1 other owner" in remedy.message(str, lambda _queue: None)
    assert "production" not in remedy.message(str, lambda _queue: None)


def test_a_lender_in_use_is_not_named():
    given = lending(0)
    busy = replace(given, gangs=(*given.gangs, gang("theirs", "production", gpus=4, on="n")))
    assert reason_of(busy, "waits").code == "nothing_to_borrow"


def test_a_limit_that_bounds_the_borrowing_is_reported_once():
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


class TestReservations:
    """Ends that nobody knows: what is reserved is held back from all later work."""

    def test_a_preemption_that_a_reservation_forbids_names_the_reservation(self):
        """`new` could take the place of `low`; `big` needs the quota, because it has waited longer."""
        work = [
            gang("sure", "q", NORMAL, gpus=4, on="n"),
            gang("low", "q", gpus=4, on="n"),
            gang("big", "q", NORMAL, gpus=8, at=0),
            gang("new", "q", NORMAL, gpus=2, at=5000),
        ]
        given = facts([queue("q", 8)], work, {"n": 8}, policy=PolicyFacts(now=7200, reserve_after=3600))
        reason = reason_of(given, "new")
        assert reason.code == "held_back"
        assert reason.message == (
            "It could start now in the place of other work, but this capacity is reserved for a gang that has waited "
            "longer."
        )
        assert reason.unblock == ("The gang with the reservation starts, or is cancelled (big).",)
        gone = replace(given, gangs=tuple(each for each in given.gangs if each.name != "big"))
        assert ("preempt", "low") in [(step.action, step.gang) for step in run_cycle(gone).steps]

    def test_all_gangs_are_named_that_hold_it_back(self):
        """`pair` would use what is free on both nodes; each is reserved for the gang of another leaf."""
        work = [
            gang("r1", "x", NORMAL, gpus=2, on="n1"),
            gang("r2", "x", NORMAL, gpus=2, on="n2"),
            gang("first", "a", NORMAL, gpus=4, at=0),
            gang("second", "b", NORMAL, gpus=4, at=1),
            gang("pair", "c", NORMAL, gpus=2, count=2, at=5000),
        ]
        queues = [queue(name, 4) for name in "abcx"]
        given = facts(queues, work, {"n1": 4, "n2": 4}, policy=PolicyFacts(now=7200, reserve_after=3600))
        reason = reason_of(given, "pair")
        assert reason.message == "It would fit now, but this capacity is reserved for 2 gangs that have waited longer."
        (line,) = reason.unblock
        assert line.startswith("The gangs with the reservations or with the next ones, both of them, start or are ")
        assert line.endswith("cancelled (first, second).")
        assert not reason.needs_all_remedies
        for gone, is_enough in ((("first",), False), (("second",), False), (("first", "second"), True)):
            left = replace(given, gangs=tuple(each for each in given.gangs if each.name not in gone))
            assert run_cycle(left).world.gang_of["pair"].is_running is is_enough, gone

    def test_a_time_limit_is_offered_that_suffices(self):
        """The quota of `big` is free when `sure` ends; its node is free later, and no work may wait for that."""
        work = [
            replace(gang("sure", "q", NORMAL, gpus=5, on="n1"), started=7100, time_limit=1000),
            replace(gang("other", "x", NORMAL, gpus=3, count=2, on=["n1", "n2"]), started=7100, time_limit=9000),
            gang("big", "q", NORMAL, gpus=8, at=0),
            gang("new", "q", NORMAL, gpus=2, at=5000),
        ]
        given = facts([queue("q", 8), queue("x", 6)], work, {"n1": 8, "n2": 8}, policy=PolicyFacts(7200, 3600))
        offered = [line for line in reason_of(given, "new").unblock if "time limit" in line]
        assert offered == ["With a time limit of at most 900 s it would end before that gang starts."]
        short = replace(given, gangs=tuple(replace(g, time_limit=900) if g.name == "new" else g for g in given.gangs))
        assert run_cycle(short).world.gang_of["new"].is_running
