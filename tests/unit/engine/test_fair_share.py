"""Fair share as KAI divides it (design, K1), each rule with its own case."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import GangFacts, TaskFacts
from scheduling.domain.engine.rules.fair_share import FairShareInput, divide_fair_shares
from tests.unit.engine.sample_clusters import GPU, facts, gang, queue, run_cycle_of


def claim(name, quota=0, request=0, limit=UNLIMITED, *, weight=1, priority=100, created=0):
    return FairShareInput(name, quota, limit, request, weight, priority, created)


@pytest.mark.parametrize(
    ("total", "claims", "shares"),
    [
        (10, [claim("a", 4, 2), claim("b", 4, 4)], [2, 4]),
        (10, [claim("a", 8, 8), claim("b", 8, 8)], [8, 8]),
        (10, [claim("a", UNLIMITED, 30), claim("b", 4, 4)], [10, 4]),
        (10, [claim("a", 2, 20, limit=3), claim("b", 2, 20)], [3, 7]),
        (12, [claim("a", 0, 20, weight=2), claim("b", 0, 20, weight=1)], [8, 4]),
        (10, [claim("a", 0, 20, weight=0), claim("b", 0, 4)], [0, 4]),
        (10, [claim("a", 0, 3), claim("b", 0, 20), claim("c", 0, 20)], [3, 4, 3]),
        (10, [claim("a", 0, 20, priority=200), claim("b", 0, 20)], [10, 0]),
        (10, [claim("a", 0, 6, priority=200), claim("b", 0, 20)], [6, 4]),
        (10, [claim("a", 0, 20, weight=3), claim("b", 0, 20, weight=4)], [4, 6]),
        (5, [claim("a", 0, 9, created=2), claim("b", 0, 9, created=1)], [2, 3]),
        (5, [claim("b", 0, 9), claim("a", 0, 9)], [2, 3]),
        (Fraction(5, 2), [claim("a", 0, 9), claim("b", 0, 9)], [Fraction(3, 2), 1]),
        (UNLIMITED, [claim("a", 0, 9), claim("b", 3, 2)], [9, 2]),
        (None, [claim("a", 3, 9), claim("b", UNLIMITED, 2)], [3, 2]),
        (0, [claim("a", 3, 9)], [3]),
        (10, [claim("a", UNLIMITED, 4), claim("b", 2, 9)], [4, 6]),
        (10, [claim("a", UNLIMITED, 30), claim("b", UNLIMITED, 30)], [10, 10]),
        (10, [claim("a", 8, 8, priority=1), claim("b", 8, 8, priority=200)], [8, 8]),
        (10, [claim("a", 8, 9, limit=2), claim("b", 1, 9)], [2, 8]),
        (10, [claim("a", 0, 1, created=1), claim("b", 0, 9, created=2), claim("c", 0, 9, created=3)], [1, 5, 4]),
        (7, [claim("a", 0, 9), claim("b", 0, 9), claim("c", 0, 9, priority=200, limit=4)], [2, 1, 4]),
        (4, [claim("a", 0, 9, weight=3), claim("b", 0, 9, weight=2)], [2, 2]),
        (5, [claim("a", 0, 9, weight=1), claim("b", 0, 9, weight=1), claim("c", 0, 9, weight=0)], [3, 2, 0]),
        (5, [claim("a", 0, Fraction(13, 5)), claim("b", 0, 9)], [3, 2]),
        (10, [claim("a", 0, 20, weight=Fraction(1, 2)), claim("b", 0, 20, weight=2)], [2, 8]),
        (Fraction(7, 2), [claim("a", 2, 2), claim("b", 0, 9)], [2, Fraction(3, 2)]),
        (10, [claim("a", 0, 20, priority=200, weight=0), claim("b", 0, 20)], [0, 10]),
        (5, [claim("a", 0, 2, weight=4), claim("b", 0, 9, weight=5), claim("c", 0, 9, created=-1)], [2, 2, 1]),
        (3, [claim("a", 0, 1, weight=3), claim("b", 0, 1)], [1, 1]),
        (3, [claim(n, 0, 2, priority=200) for n in "cd"] + [claim(n, 0, 1) for n in "ab"], [2, 1, 0, 0]),
        (9, [], []),
    ],
    ids=[
        "min of quota and request", "over-subscribed quotas are not cut", "unlimited is the total", "limit bounds",
        "by weight", "weight 0 gets no surplus", "what one does not need goes round again, remainder to the first name",
        "priority first", "lower priority gets the rest", "largest fraction first", "oldest on equal fractions",
        "name on equal age", "at most what remains", "unlimited machines", "nothing known: quotas only", "no machines",
        "an unlimited quota is not more than the request", "two unlimited quotas over-subscribe",
        "priority plays no part in the quota step", "limit below quota",
        "another round when somebody took less", "the rest by priority",
        "largest fraction before oldest", "no remainder for weight 0", "the remainder is not checked against requests",
        "fractional weights", "fractional surplus", "priority without weight",
        "no other round when all took what was offered", "what another round gave whole has no fraction left",
        "the remainder by priority before name", "nobody",
    ],
)  # fmt: skip
def test_division(total, claims, shares):
    assert divide_fair_shares(total, claims) == shares


@given(
    st.integers(0, 60),
    st.lists(
        st.builds(
            FairShareInput, st.sampled_from("abcdefgh"), st.integers(0, 10), st.integers(0, 20) | st.just(UNLIMITED),
            st.integers(0, 30), st.integers(0, 3), st.sampled_from([100, 200]), st.integers(0, 3),
        ),
        max_size=6,
        unique_by=lambda one: one.name,
    ),
)  # fmt: skip
def test_shares_are_integers_and_never_above_the_request_or_the_total(total, claims):
    shares = divide_fair_shares(total, claims)
    promised = sum(min(one.quota, one.requestable) for one in claims)
    assert sum(shares) <= max(total, promised)
    for one, share in zip(claims, shares, strict=True):
        assert share >= min(one.quota, one.requestable)
        assert share == int(share)
        assert share <= one.requestable


def test_a_level_divides_the_share_of_the_queue_above():
    after = run_cycle_of(
        [queue("big", None, created=1), queue("x", 2, "big"), queue("y", 2, "big"), queue("small", 4, created=2)],
        [gang("x1", "x", gpus=8), gang("s1", "small", gpus=8)],
        {"n": 8},
    )
    fair = {name: q.fair[0] for name, q in after.world.queue_of.items()}
    assert fair == {"big": 4, "small": 4, "x": 4, "y": 0}


def test_unneeded_share_of_a_child_goes_to_its_siblings_first():
    after = run_cycle_of(
        [queue("big", None, created=1), queue("x", 6, "big"), queue("y", 2, "big"), queue("small", 2, created=2)],
        [gang("x1", "x", gpus=1), gang("y1", "y", gpus=9), gang("s1", "small", gpus=9)],
        {"n": 10},
    )
    fair = {name: q.fair[0] for name, q in after.world.queue_of.items()}
    assert fair == {"big": 8, "x": 1, "y": 7, "small": 2}


def test_a_parent_without_quota_gives_its_children_no_claim():
    """8 GPUs: the queues below `outer` have quotas, but `outer` may claim nothing; only the surplus is divided."""
    after = run_cycle_of(
        [queue("outer", 0), queue("inside", 6, "outer"), queue("other", 6)],
        [gang("i1", "inside", gpus=6), gang("o1", "other", gpus=6)],
        {"n": 8},
    )
    fair = {name: q.fair[0] for name, q in after.world.queue_of.items()}
    assert fair == {"outer": 2, "other": 6, "inside": 6}


def test_releasing_work_counts_as_a_request_and_ended_work_does_not():
    def one(name, state):
        return GangFacts(
            name, name, (TaskFacts("t", {GPU: 4}, state=state, node="n" if state == "releasing" else None),)
        )

    queues = [queue("leaving", 8), queue("ended", 8)]
    after = run_cycle(facts(queues, [one("leaving", "releasing"), one("ended", "finished")], {"n": 8}))
    assert {q.fact.name: q.fair[0] for q in after.world.queues} == {"leaving": 4, "ended": 0}


@pytest.mark.parametrize(
    ("quota", "limit", "gpus", "share"),
    [(UNLIMITED, 5, 8, 5), (2, 3, 8, 3), (6, 8, 1, 6), (6, 4, 8, 4), (0, UNLIMITED, 8, 8)],
    ids=["unlimited quota: the limit", "limit bounds the fair share", "quota above the fair share",
         "limit below the quota", "fair share above the quota"],
)  # fmt: skip
def test_allocatable_share(quota, limit, gpus, share):
    after = run_cycle_of([queue("q", quota, limit=limit)], [gang("g", "q", gpus=gpus)], {"n": 8})
    assert after.world.queues[0].allocatable == [share]


def test_usage_and_demand_count_as_requests():
    after = run_cycle_of([queue("a", 2), queue("b", 2)], [], {"n": 8}, usage={"a": {GPU: 5}}, demand={"b": {GPU: 9}})
    assert [q.fair[0] for q in after.world.queues] == [4, 4]


def test_demand_and_usage_are_requests_of_every_queue_above():
    """`outer` has no quota and no work of its own; requests and usage below it are its claim on the surplus."""
    queues = [queue("outer", 0), queue("inside", 0, "outer"), queue("other", 0)]
    for below in ({"demand": {"inside": {GPU: 9}}}, {"usage": {"inside": {GPU: 9}}}):
        after = run_cycle_of(queues, [gang("o", "other", gpus=9)], {"n": 8}, **below)
        fair = {name: q.fair[0] for name, q in after.world.queue_of.items()}
        assert fair == {"outer": 4, "inside": 4, "other": 4}


def test_each_resource_is_divided_on_its_own():
    after = run_cycle_of(
        [queue("a", 1), queue("b", 1)], [gang("g", "a", gpus=4)], {"n": 4}, capacity={GPU: 2, "default/cpu": 6}
    )
    assert after.world.keys == [GPU, "default/cpu"]
    assert after.world.queue_of["a"].fair == [2, 0]
