"""In a sampled future drains and temporary quotas end, and the remainder of the pool has the room then."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.facts import HIGH, LOW, NORMAL
from scheduling.domain.engine.pool_quotas import QuotaReturns
from scheduling.history.forecast.arrivals import RecentArrivals
from scheduling.history.forecast.futures import NEVER, GangInfo, Present, sample_waits
from scheduling.history.forecast.runtimes import RunTimes, WorkKind
from tests.unit.engine.sample_clusters import GPU, facts, gang, queue

DRAIN = QuotaReturns("pool", "rest", {GPU: 16}, draining=("part",))


def wait_of_new(returns, *others, part=12, rest=4, guarantee=16, new=8):
    """The seconds that work in the remainder waits: `others` are gangs with the seconds that they run at the most; None
    for those of which no forecast knows anything."""
    gangs = [each for each, _ in others] + [gang("new", "rest", NORMAL, gpus=new, at=9)]
    infos = {
        each.name: GangInfo(WorkKind("t", 4, limit=limit), 0.0 if each.tasks[0].node else None)
        for each, limit in others
        if limit is not None
    }
    infos["new"] = GangInfo(WorkKind("t", new, limit=60.0))
    queues = [queue("pool", guarantee), queue("part", part, "pool"), queue("rest", rest, "pool")]
    known = facts(queues, gangs, {"n1": 16, "n2": 16})
    present = Present(1.0, known, infos, RunTimes(), RecentArrivals(), returns=returns)
    (waits,) = sample_waits(present, {"new"}, [3])
    return waits["new"]


def held(name, gpus, priority=HIGH):
    return gang(name, "part", priority, gpus=gpus, on="n1")


def test_a_drain_returns_what_its_work_no_longer_needs():
    first, second = (held("first", 4), 100.0), (held("second", 8), 90_000.0)
    assert wait_of_new([], first, second) == NEVER
    assert 0 < wait_of_new([DRAIN], first, second) < 200
    assert 200 < wait_of_new([DRAIN], first, second, new=12) < NEVER


def test_low_work_does_not_keep_quota_that_drains():
    assert 0 < wait_of_new([DRAIN], (held("first", 4), 100.0), (held("low", 12, LOW), 90_000.0)) < 200


def test_a_drain_whose_work_waits_for_ever_never_returns_its_quota():
    waits = gang("waits", "part", HIGH, gpus=20)
    assert wait_of_new([DRAIN], (held("first", 4), 100.0), (waits, 100.0), new=16) == NEVER


def test_work_of_which_nothing_is_known_keeps_nothing_after_the_others():
    assert 0 < wait_of_new([DRAIN], (held("first", 4), 100.0), (held("unknown", 8), None)) < 200


def test_a_pool_that_promised_more_than_it_has_first_fulfils_its_promises():
    """Its guarantee was reduced to 10 while the subpool drains: the remainder has 10, not 16."""
    reduced = QuotaReturns("pool", "rest", {GPU: 10}, draining=("part",))
    work = (held("first", 12), 100.0)
    assert 0 < wait_of_new([reduced], work, rest=0, guarantee=12, new=10) < 200
    assert wait_of_new([reduced], work, rest=0, guarantee=12, new=11) == NEVER


@pytest.mark.parametrize(("after", "wait"), [(4, 5000), (9, NEVER)])
def test_a_temporary_quota_ends_at_its_time(after, wait):
    until = QuotaReturns("pool", "rest", {GPU: 16}, temporary={"part": (5001.0, {GPU: after})})
    assert wait <= wait_of_new([until]) <= wait * 1.2


def test_a_quota_that_is_larger_later_takes_the_room_from_the_remainder():
    until = QuotaReturns("pool", "rest", {GPU: 16}, temporary={"part": (3.0, {GPU: 12})})
    blocks = (gang("blocks", "rest", HIGH, gpus=8, on="n1"), 9000.0)
    assert wait_of_new([until], blocks, part=4, rest=12) == NEVER
    assert wait_of_new([], blocks, part=4, rest=12) < NEVER
