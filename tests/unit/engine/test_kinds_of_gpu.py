"""Work that may use several kinds of GPU: which one it gets, by the two switches; each kind counts alone; why it
waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.domain.engine.cycle import new_world, run_cycle
from scheduling.domain.engine.facts import (
    HIGH,
    LOW,
    NORMAL,
    ClusterFacts,
    CohortFacts,
    GangFacts,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    StartReservationFacts,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.outcome import GangResult, facts_after, gang_result, queue_positions, waiting_reasons
from scheduling.domain.engine.reasons.liveness import find_stuck
from scheduling.domain.engine.rules.gates import may_start

H, A = "h100/gpu", "a100/gpu"
NODE_OF = {H: "h", A: "a"}


def gang(name, queue, priority=NORMAL, *, on=None, gpus=4, count=1, kinds=(H, A), at=9):
    """A gang that may use these kinds, or runs on `on` and may use it alone."""
    if on is not None:
        kinds = (on,)
    state, node = (TaskState.PENDING, None) if on is None else (TaskState.RUNNING, NODE_OF[on])
    first, *others = [
        tuple(TaskFacts(f"{name}-{i}", {kind: gpus}, state=state, node=node) for i in range(count)) for kind in kinds
    ]
    return GangFacts(name, queue, first, priority, priority < NORMAL, at, alternatives=tuple(others))


def nodes(h=8, a=8):
    return (NodeFacts("h", {H: h}), NodeFacts("a", {A: a}))


def queue(name, h=0, a=0, parent=None, **more):
    return QueueFacts(name, parent, {H: h, A: a}, **more)


def steps_of(facts, **more):
    return [(step.action.value, step.gang, step.choice) for step in run_cycle(facts, **more).steps]


# -- Kueue's flavor fungibility ---------------------------------------------------------------------------------------

QUOTA, BORROW, PREEMPT, FULL = "quota", "borrow", "preempt", "full"
"""What work of 4 GPUs finds on the node of one kind: room inside the quota, room beyond it only, lower work of its
own queue inside the quota, or work that stays."""


def found_there(kind, what):
    """The quota of the queue, and the work on the node."""
    if what == PREEMPT:
        return 4, [gang(f"low-{NODE_OF[kind]}", "q", LOW, on=kind, at=1)]
    if what == FULL:
        return 0, [gang(f"full-{NODE_OF[kind]}", "other", HIGH, on=kind, at=1)]
    return (4 if what == QUOTA else 0), []


@pytest.mark.parametrize(
    ("switches", "first", "second", "expected"),
    [
        # The defaults: borrow where it can, make room only where no kind has some.
        (("borrow", "next"), QUOTA, QUOTA, [("start", 0)]),
        (("borrow", "next"), BORROW, QUOTA, [("start", 0)]),
        (("borrow", "next"), BORROW, BORROW, [("start", 0)]),
        (("borrow", "next"), PREEMPT, QUOTA, [("start", 1)]),
        (("borrow", "next"), PREEMPT, BORROW, [("start", 1)]),
        (("borrow", "next"), PREEMPT, PREEMPT, [("preempt", "low-h"), ("start", 0)]),
        (("borrow", "next"), PREEMPT, FULL, [("preempt", "low-h"), ("start", 0)]),
        (("borrow", "next"), FULL, PREEMPT, [("preempt", "low-a"), ("start", 1)]),
        (("borrow", "next"), FULL, QUOTA, [("start", 1)]),
        (("borrow", "next"), FULL, BORROW, [("start", 1)]),
        (("borrow", "next"), FULL, FULL, []),
        # A later kind inside the quota comes before an earlier one beyond it.
        (("next", "next"), QUOTA, QUOTA, [("start", 0)]),
        (("next", "next"), BORROW, QUOTA, [("start", 1)]),
        (("next", "next"), BORROW, BORROW, [("start", 0)]),
        (("next", "next"), BORROW, PREEMPT, [("start", 0)]),
        (("next", "next"), BORROW, FULL, [("start", 0)]),
        (("next", "next"), PREEMPT, BORROW, [("start", 1)]),
        (("next", "next"), FULL, BORROW, [("start", 1)]),
        # Room that an earlier kind makes comes before a later kind.
        (("borrow", "preempt"), QUOTA, QUOTA, [("start", 0)]),
        (("borrow", "preempt"), BORROW, QUOTA, [("start", 0)]),
        (("borrow", "preempt"), PREEMPT, QUOTA, [("preempt", "low-h"), ("start", 0)]),
        (("borrow", "preempt"), PREEMPT, BORROW, [("preempt", "low-h"), ("start", 0)]),
        (("borrow", "preempt"), FULL, QUOTA, [("start", 1)]),
        (("borrow", "preempt"), FULL, PREEMPT, [("preempt", "low-a"), ("start", 1)]),
        (("borrow", "preempt"), FULL, FULL, []),
        (("next", "preempt"), BORROW, QUOTA, [("start", 1)]),
        (("next", "preempt"), BORROW, PREEMPT, [("start", 0)]),
        (("next", "preempt"), PREEMPT, QUOTA, [("preempt", "low-h"), ("start", 0)]),
    ],
)
def test_the_choice_follows_the_two_switches(switches, first, second, expected):
    (h, on_h), (a, on_a) = found_there(H, first), found_there(A, second)
    q = queue("q", h, a, when_can_borrow=switches[0], when_can_preempt=switches[1])
    work = gang("w", "q", 60)
    facts = ClusterFacts((q, queue("other", 8, 8)), gangs=(*on_h, *on_a, work), nodes=nodes(4, 4))
    for fast in (True, False):
        after = run_cycle(facts, fast=fast)
        got = [(action, choice if name == "w" else name) for action, name, choice in steps_of(facts, fast=fast)]
        # A victim may start again in the other kind.
        assert got[: len(expected)] == expected
        assert after.has_converged
        if not expected:
            assert gang_result(after.world.gang_of["w"]) is GangResult.PENDING


def test_room_inside_the_quota_behind_room_that_would_have_to_be_made():
    """As Kueue: the search for room inside the quota ends where a kind would make some."""
    third = "l40/gpu"
    first, second = gang("w", "q", 60).choices
    tasks = (tuple(replace(task, request={third: 4}) for task in first),)
    work = replace(gang("w", "q", 60), alternatives=(second, *tasks))
    low = gang("low", "q", LOW, on=A, at=1)
    for switch, expected in (("preempt", ("start", "w", 0)), ("next", ("start", "w", 2))):
        q = QueueFacts("q", None, {A: 4, third: 4}, when_can_borrow="next", when_can_preempt=switch)
        here = (*nodes(4, 4), NodeFacts("l", {third: 4}))
        assert steps_of(ClusterFacts((q,), gangs=(low, work), nodes=here)) == [expected]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("free", "free", [("start", "w", 0)]),
        ("reclaim", "free", [("start", "w", 1)]),
        ("reclaim", "reclaim", [("reclaim", "guest-h", 0), ("start", "w", 0)]),
        ("no quota", "free", [("start", "w", 1)]),
        ("no quota", "reclaim", [("reclaim", "guest-a", 0), ("start", "w", 1)]),
        ("no quota", "no quota", []),
    ],
)
def test_high_work_never_borrows_and_reclaims_what_is_its_own(first, second, expected):
    quotas, running = [], []
    for kind, what in ((H, first), (A, second)):
        quotas.append(0 if what == "no quota" else 4)
        if what == "reclaim":
            running.append(gang(f"guest-{NODE_OF[kind]}", "other", LOW, on=kind, at=1))
    facts = ClusterFacts(
        (queue("q", *quotas), queue("other")), gangs=(*running, gang("w", "q", HIGH)), nodes=nodes(4, 4)
    )
    assert steps_of(facts)[: len(expected)] == expected
    assert bool(expected) == run_cycle(facts).world.gang_of["w"].is_running


def test_with_preempt_a_reclaim_in_the_first_kind_comes_before_free_room_in_the_second():
    q = queue("q", 4, 4, when_can_preempt="preempt")
    guest = gang("guest", "other", LOW, on=H, at=1)
    facts = ClusterFacts((q, queue("other")), gangs=(guest, gang("w", "q", HIGH)), nodes=nodes(4, 4))
    assert steps_of(facts) == [("reclaim", "guest", 0), ("start", "w", 0)]


def test_the_switches_of_the_top_queue_hold_below_it():
    top = queue("team", 4, 4, when_can_borrow="next")
    leaf = queue("team-a", 0, 4, "team")
    facts = ClusterFacts((top, leaf), gangs=(gang("w", "team-a", LOW),), nodes=nodes(4, 4))
    assert steps_of(facts) == [("start", "w", 1)]


def test_low_work_borrows_kind_by_kind():
    works = tuple(gang(f"w{i}", "q", LOW, at=i) for i in range(4))
    owner, borrower = queue("owner", 8, 4, "org"), queue("q", 0, 0, "org")
    facts = ClusterFacts((owner, borrower), (CohortFacts("org"),), works, nodes())
    assert steps_of(facts) == [("start", "w0", 0), ("start", "w1", 0), ("start", "w2", 1)]


@pytest.mark.parametrize(
    ("borrower", "lender", "held", "expected"),
    [
        # What the lender lends, and what the borrower may borrow, is counted by kind.
        ({}, {}, {}, 0),
        ({}, {"lending_limit": {H: 0}}, {}, 1),
        ({}, {"lending_limit": {H: 2}}, {}, 1),
        ({}, {"lending_limit": {H: 4}}, {}, 0),
        ({"borrowing_limit": {H: 0}}, {}, {}, 1),
        ({"borrowing_limit": {H: 3}}, {}, {}, 1),
        ({"borrowing_limit": {A: 0}}, {}, {}, 0),
        ({"borrowing_limit": {H: 0, A: 0}}, {}, {}, None),
        ({"limit": {H: 3, A: 3}}, {}, {}, None),
        ({"limit": {H: 2}}, {}, {}, 1),
        # What the lender uses of one kind is not there, of the other it is.
        ({}, {}, {H: 8}, 1),
        ({}, {}, {H: 5}, 1),
        ({}, {}, {A: 8}, 0),
        ({}, {}, {H: 8, A: 8}, None),
    ],
)
def test_a_cohort_lends_each_kind_alone(borrower, lender, held, expected):
    queues = (queue("owner", 8, 8, "org", **lender), queue("q", 0, 0, "org", **borrower))
    use = {"owner": held} if held else {}
    facts = ClusterFacts(queues, (CohortFacts("org"),), (gang("w", "q", LOW),), nodes(16, 16), usage=use)
    for fast in (True, False):
        assert steps_of(facts, fast=fast) == ([] if expected is None else [("start", "w", expected)])


def test_a_debt_in_one_kind_stops_no_work_of_another():
    """The owner holds more H100s than there are in the tree."""
    queues = (queue("owner", 2, 4, "org"), queue("q", 2, 4, "org"))
    use = {"owner": {H: 8}}
    facts = ClusterFacts(queues, (CohortFacts("org"),), (gang("w", "q", gpus=2),), nodes(16, 16), usage=use)
    assert steps_of(facts) == [("start", "w", 1)]
    assert (
        waiting_reasons(run_cycle(replace(facts, gangs=(gang("w", "q", gpus=2, kinds=(H,)),))).world)["w"].queue
        == "org"
    )


@pytest.mark.parametrize(
    ("priority", "kinds", "victims", "expected"),
    [
        # Of a lower priority in the same queue, of the kind that is needed, the youngest first.
        (HIGH, (H,), ["h-old", "h-young", "a-old"], ["h-young"]),
        (HIGH, (A,), ["h-old", "h-young", "a-old"], ["a-old"]),
        (HIGH, (A, H), ["h-old", "h-young", "a-old"], ["a-old"]),
        (60, (H, A), ["h-old", "h-young", "a-old"], ["h-young"]),
        (LOW, (H, A), ["h-old", "h-young", "a-old"], []),
    ],
)
def test_a_preemption_takes_work_of_its_kind(priority, kinds, victims, expected):
    low = [
        gang(name, "q", LOW, on=H if name[0] == "h" else A, gpus=4, at=1 if name.endswith("old") else 5)
        for name in victims
    ]
    work = gang("w", "q", priority, kinds=kinds)
    facts = ClusterFacts((queue("q", 8, 4),), gangs=(*low, work), nodes=nodes(8, 4))
    for fast in (True, False):
        steps = run_cycle(facts, fast=fast).steps
        assert [step.gang for step in steps if step.action == "preempt"] == expected


@pytest.mark.parametrize(
    ("quota", "kinds", "expected"),
    [
        ((8, 8), (H, A), ["guest-h"]),
        ((0, 8), (H, A), ["guest-a"]),
        ((8, 0), (A, H), ["guest-h"]),
        ((0, 0), (H, A), []),
    ],
)
def test_a_reclaim_takes_back_the_kind_that_the_queue_owns(quota, kinds, expected):
    guests = [gang(f"guest-{NODE_OF[kind]}", "other", LOW, on=kind, gpus=8, at=1) for kind in (H, A)]
    facts = ClusterFacts(
        (queue("q", *quota), queue("other")), gangs=(*guests, gang("w", "q", HIGH, gpus=8, kinds=kinds)), nodes=nodes()
    )
    for fast in (True, False):
        steps = run_cycle(facts, fast=fast).steps
        assert [step.gang for step in steps if step.action == "reclaim"] == expected


# -- a gang is one ----------------------------------------------------------------------------------------------------


def test_a_gang_is_never_split_over_two_kinds():
    facts = ClusterFacts((queue("q", 8, 8),), gangs=(gang("w", "q", count=2),), nodes=nodes(4, 4))
    assert steps_of(facts) == []
    after = run_cycle(replace(facts, nodes=nodes(4, 8)))
    assert [(step.choice, step.nodes) for step in after.steps] == [(1, ("a", "a"))]


def test_the_facts_after_a_start_have_the_kind_that_the_gang_got():
    facts = ClusterFacts((queue("q", 8, 8),), gangs=(gang("w", "q"),), nodes=nodes(0, 8))
    after = facts_after(run_cycle(facts))
    (w,) = after.gangs
    assert (w.choice, w.tasks[0].request, w.tasks[0].node) == (1, {A: 4}, "a")
    assert [tasks[0].request for tasks in w.choices] == [{H: 4}, {A: 4}]
    assert steps_of(after) == []


def test_an_evicted_gang_chooses_again_in_its_order():
    w = gang("w", "q", LOW)
    running = tuple(replace(task, request={A: 4}, state=TaskState.RUNNING, node="a") for task in w.tasks)
    w = replace(w, tasks=running, alternatives=(w.tasks,), choice=1)
    high = gang("high", "q", HIGH, kinds=(A,))
    facts = ClusterFacts((queue("q", 8, 8),), gangs=(w, high), nodes=nodes(4, 4))
    expected = [("preempt", "w", 1), ("start", "high", 0), ("start", "w", 0)]
    assert steps_of(facts) == expected
    kept = KeptState(facts)
    assert [(step.action.value, step.gang, step.choice) for step in kept.run().steps] == expected
    assert next(each for each in kept.facts().gangs if each.name == "w").choice == 0
    full = replace(facts, nodes=nodes(0, 4))
    after = run_cycle(full)
    assert gang_result(after.world.gang_of["w"]) is GangResult.PREEMPTED
    assert list(queue_positions(after.world)) == ["w"]


def test_names_and_positions_are_those_of_the_gang():
    facts = ClusterFacts((queue("q", 4, 4),), gangs=(gang("w0", "q", at=1), gang("w1", "q", at=2)), nodes=nodes(0, 0))
    world = run_cycle(facts).world
    assert {name: place.in_queue for name, place in queue_positions(world).items()} == {"w0": 1, "w1": 2}
    assert set(waiting_reasons(world)) == {"w0", "w1"}
    assert [each.fact.name for each in world.gangs] == ["w0", "w1"]


# -- each kind counts alone -------------------------------------------------------------------------------------------


def test_what_a_queue_borrows_of_one_kind_takes_no_right_to_another():
    """`q` borrows all H100s, and takes back its A100s all the same."""
    borrowed = gang("borrowed", "q", LOW, on=H, gpus=8, at=1)
    guest = gang("guest", "other", LOW, on=A, gpus=8, at=1)
    work = gang("w", "q", HIGH, gpus=8, kinds=(A,))
    facts = ClusterFacts((queue("q", 0, 8), queue("other", 8, 0)), gangs=(borrowed, guest, work), nodes=nodes())
    for fast in (True, False):
        assert steps_of(facts, fast=fast)[:2] == [("reclaim", "guest", 0), ("start", "w", 0)]


def test_a_waiting_gang_is_demand_of_each_kind_until_it_has_one():
    facts = ClusterFacts((queue("q", 8, 8),), gangs=(gang("w", "q"),), nodes=nodes(0, 8))
    world = new_world(facts)
    assert dict(zip(world.keys, world.queue_of["q"].request, strict=True)) == {A: 4, H: 4}
    state = KeptState(facts)
    state.run()
    state.run()
    fresh = new_world(state.facts())
    for each in (state.world, fresh):
        assert dict(zip(each.keys, each.queue_of["q"].request, strict=True)) == {A: 4, H: 0}


# -- why it waits -----------------------------------------------------------------------------------------------------


def test_the_reason_has_a_line_for_each_kind_the_nearest_first():
    full = [gang("fh", "q", on=H, gpus=8, at=1), gang("fa", "q", on=A, gpus=6, at=1)]
    reason = waiting_reasons(
        run_cycle(ClusterFacts((queue("q", 8, 8),), gangs=(*full, gang("w", "q")), nodes=nodes())).world
    )
    reason = reason["w"]
    assert reason.message == (
        "a100: it asks for 4 a100 GPUs; the quota of q (8) leaves 2 a100 GPUs: 2 a100 GPUs missing; "
        "h100: it asks for 4 h100 GPUs; the quota of q (8) leaves 0 h100 GPUs: 4 h100 GPUs missing."
    )
    assert (reason.code, reason.missing, reason.needs_all_remedies) == ("over_quota", {A: 2}, False)
    assert [line.partition(":")[0] for line in reason.unblock] == ["a100, both of these", "h100, both of these"]
    assert "(fa)" in reason.unblock[0]
    assert "fh" not in reason.unblock[0]


def test_a_closed_queue_is_one_reason_for_all_kinds():
    facts = ClusterFacts((queue("q", 8, 8), queue("q-a", 8, 8, "q")), gangs=(gang("w", "q"),), nodes=nodes())
    reason = waiting_reasons(run_cycle(facts).world)["w"]
    assert reason.code == "queue_has_children"
    assert ";" not in reason.message


def test_a_kind_that_never_fits_is_told_and_has_no_remedy_beside_one_that_may():
    full = gang("fh", "q", on=H, gpus=8, at=1)
    facts = ClusterFacts((queue("q", 8, 2),), gangs=(full, gang("w", "q")), nodes=nodes())
    reason = waiting_reasons(run_cycle(facts).world)["w"]
    assert not reason.is_permanent
    assert "a100: it asks for 4 a100 GPUs, more than the quota of q (2) could ever give" in reason.message
    assert all(line.startswith("h100") for line in reason.unblock)
    never = waiting_reasons(run_cycle(replace(facts, nodes=nodes(2, 2))).world)["w"]
    assert never.is_permanent
    assert {line[:4] for line in never.unblock} == {"h100", "a100"}


# -- reservations -----------------------------------------------------------------------------------------------------


def test_a_gang_has_one_reservation_and_starts_in_another_kind_if_that_is_free_first():
    policy = PolicyFacts(now=7200, reserve_after=3600)
    full = [gang("fh", "q", on=H, gpus=8, at=1), gang("fa", "q", on=A, gpus=8, at=1)]
    facts = ClusterFacts((queue("q", 16, 16),), gangs=(*full, gang("w", "q", at=10)), nodes=nodes(), policy=policy)
    after = run_cycle(facts)
    assert after.world.policy is not None
    (held,) = after.world.policy.reservations()
    assert (held.gang, held.choice, held.nodes) == ("w", 0, {"h": {H: 4}})
    later = replace(facts_after(after), gangs=(full[0], gang("w", "q", at=10)))
    done = run_cycle(later)
    assert [(step.gang, step.choice) for step in done.steps] == [("w", 1)]
    assert done.world.policy is not None
    assert list(done.world.policy.reservations()) == []


@pytest.mark.parametrize(("limits", "choice"), [((None, 9000), 1), ((9000, None), 0), ((9000, 8000), 1), ((9, 9), 0)])
def test_the_reservation_is_of_the_kind_that_is_free_first(limits, choice):
    """As far as time limits say; else of the first kind."""
    policy = PolicyFacts(now=7200, reserve_after=3600)
    full = [
        replace(gang(f"f{NODE_OF[kind]}", "q", on=kind, gpus=8, at=1), started=7000, time_limit=limit)
        for kind, limit in zip((H, A), limits, strict=True)
    ]
    facts = ClusterFacts((queue("q", 16, 16),), gangs=(*full, gang("w", "q", at=10)), nodes=nodes(), policy=policy)
    after = run_cycle(facts)
    assert after.world.policy is not None
    assert [each.choice for each in after.world.policy.reservations()] == [choice]
    again = replace(facts_after(after), policy=replace(after.world.policy.facts(), now=7300))
    later = run_cycle(again).world
    assert later.policy is not None
    assert [each.choice for each in later.policy.reservations()] == [choice]


def test_a_reservation_of_the_facts_is_of_the_kind_that_it_names():
    held = StartReservationFacts("w", 3600, {"a": {A: 4}}, 3600, 1)
    policy = PolicyFacts(now=7200, reserve_after=3600, reservations=(held,))
    full = [gang("fh", "q", on=H, gpus=8, at=1), gang("fa", "q", on=A, gpus=8, at=1)]
    later = gang("later", "q", gpus=2, kinds=(A,), at=20)
    facts = ClusterFacts(
        (queue("q", 16, 16),), gangs=(*full, gang("w", "q", at=10), later), nodes=nodes(8, 11), policy=policy
    )
    after = run_cycle(facts)
    assert after.world.policy is not None
    assert [(each.choice, each.nodes) for each in after.world.policy.reservations()] == [(1, {"a": {A: 4}})]
    assert after.steps == ()
    assert waiting_reasons(after.world)["later"].code == "held_back"


def test_a_gang_behind_low_work_of_one_of_its_kinds_is_stuck():
    """No cycle ends in such a state; the check for liveness finds it in each kind."""
    low = gang("low", "q", LOW, on=A, at=1)
    full = gang("full", "other", HIGH, on=H, at=1)
    queues = (queue("q", 4, 4), queue("other", 4, 0))
    facts = ClusterFacts(queues, gangs=(low, full, gang("w", "q")), nodes=nodes(4, 4))
    assert [stuck.gang for stuck in find_stuck(new_world(facts))] == ["w"]
    settled = run_cycle(facts)
    assert find_stuck(settled.world) == ()
    world = settled.world
    assert not may_start(world, world.queue_of["q"], world.gang_of["low"].next_request, preemptible=False)
