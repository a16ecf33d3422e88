"""Nobody waits forever: start reservations, backfill and ageing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import (
    HIGH,
    LOW,
    NORMAL,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    StartReservationFacts,
)
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.gang import GangTree
from tests.support.nightly_parts import samples
from tests.unit.engine.sample_clusters import CPU, GPU, cohort, facts, gang, queue, step_pairs
from tests.unit.engine.streams import Job, after, no_facts, run_stream

HOUR = 3600
TWO_NODES = [NodeFacts("n1", {GPU: 8}), NodeFacts("n2", {GPU: 8})]


def job(name, where, priority, at, *, gpus=1, count=1, runs, limit=None):
    fact = gang(name, where, priority, gpus=gpus, count=count, at=at)
    return Job(replace(fact, time_limit=limit), runs)


def stream(big, small, *, where="q", hours=30):
    """Two nodes of 8 GPUs kept full by 2-GPU jobs of an hour, one each 450 seconds, and one gang of 8+8 GPUs."""
    jobs = [job(f"s{n}", where, small, n * 450 - 1, gpus=2, runs=HOUR) for n in range(hours * 8)]
    return [*jobs, job("big", "q", big, 2 * HOUR, gpus=8, count=2, runs=HOUR)]


@pytest.mark.parametrize(("big", "small"), [(LOW, LOW), (NORMAL, NORMAL), (HIGH, NORMAL)])
class TestTheStreamOfSmallJobs:
    START = no_facts([queue("q", 16)], TWO_NODES)

    def test_starves_a_large_gang_without_a_policy(self, big, small):
        started = run_stream(self.START, stream(big, small), until=28 * HOUR)
        assert "big" not in started
        assert len([name for name, at in started.items() if at > 2 * HOUR]) > 48

    def test_lets_it_start_within_its_reservation(self, big, small):
        started = run_stream(self.START, stream(big, small, hours=8), policy=after(HOUR), compare=True)
        assert started["big"] <= 2 * HOUR + HOUR + HOUR

    def test_ends_for_it_when_the_expected_times_are_wrong(self, big, small):
        """The bound does not depend on what is known about run times."""
        for expected in (None, 60, 50 * HOUR):
            known = stream(big, small, hours=8)
            jobs = [Job(replace(each.fact, expected_time=expected), each.duration) for each in known]
            assert run_stream(self.START, jobs, policy=after(HOUR))["big"] <= 4 * HOUR


def full_cluster(*waiting, now=10 * HOUR, reserve_after=HOUR, queues=None, on=("n1", "n1", "n2", "n2"), ageing=None):
    """Two nodes held by four gangs of 4 GPUs, whose limits end at hours 11, 12, 13 and 14; `on`: their nodes."""
    held = [
        replace(gang(f"r{n}", "q", NORMAL, gpus=4, on=node), started=0, time_limit=(11 + n) * HOUR)
        for n, node in enumerate(on)
        if node
    ]
    policy = PolicyFacts(now=now, reserve_after=reserve_after, ageing=ageing)
    return facts(queues or [queue("q", 99)], [*held, *waiting], {"n1": 8, "n2": 8}, policy=policy)


class TestTheReservation:
    def test_names_the_nodes_that_become_free_first_and_the_latest_start(self):
        settled = run_cycle(full_cluster(gang("big", "q", NORMAL, gpus=8, at=0)))
        (reserved,) = facts_after(settled).policy.reservations
        assert reserved.nodes == {"n1": {GPU: 8}}
        assert reserved.since == 10 * HOUR
        latest = settled.world.policy.latest_start("big")
        assert (latest.time, latest.is_certain) == (12 * HOUR, True)

    def test_is_made_after_the_settable_wait_only(self):
        waiting = gang("big", "q", NORMAL, gpus=8, at=9 * HOUR + 1)
        assert not facts_after(run_cycle(full_cluster(waiting))).policy.reservations
        assert facts_after(run_cycle(full_cluster(waiting, now=10 * HOUR + 1))).policy.reservations
        assert not facts_after(run_cycle(full_cluster(waiting, reserve_after=None))).policy.reservations

    def test_keeps_its_nodes_when_others_become_free_earlier(self):
        settled = run_cycle(full_cluster(gang("big", "q", NORMAL, gpus=8, at=0)))
        kept = facts_after(settled)
        later = replace(kept, gangs=tuple(g for g in kept.gangs if g.name != "r3"))
        (reserved,) = facts_after(run_cycle(later)).policy.reservations
        assert reserved.nodes == {"n1": {GPU: 8}}

    def test_of_a_gang_that_could_never_start_is_not_made(self):
        settled = run_cycle(
            full_cluster(gang("never", "q", NORMAL, gpus=9, at=0), gang("big", "q", NORMAL, gpus=8, at=1))
        )
        assert [each.gang for each in facts_after(settled).policy.reservations] == ["big"]

    def test_ends_when_its_gang_has_started_or_is_gone(self):
        settled = run_cycle(full_cluster(gang("big", "q", NORMAL, gpus=8, at=0)))
        kept = facts_after(settled)
        free = replace(kept, gangs=tuple(g for g in kept.gangs if g.name not in {"r0", "r1"}))
        started = facts_after(run_cycle(free))
        assert not started.policy.reservations
        gone = replace(kept, gangs=tuple(g for g in kept.gangs if g.name != "big"))
        assert not facts_after(run_cycle(gone)).policy.reservations

    def test_holds_quota_and_not_nodes_while_quota_is_missing(self):
        """NORMAL work uses the quota of the leaf; the nodes stay open to work of others."""
        held = replace(gang("r", "q", NORMAL, gpus=4, on="n1"), started=0, time_limit=20 * HOUR)
        waiting = [gang("big", "q", NORMAL, gpus=8, at=0), gang("later", "q", NORMAL, gpus=1, at=1)]
        other = gang("other", "p", LOW, gpus=8, at=1)
        start = facts(
            [queue("q", 8), queue("p", 0)], [held, *waiting, other], {"n1": 8, "n2": 8},
            policy=PolicyFacts(now=10 * HOUR, reserve_after=HOUR),
        )  # fmt: skip
        settled = run_cycle(start)
        assert started_in(settled) == {"other"}
        assert settled.world.policy.latest_start("big").time == 20 * HOUR

    def test_keeps_the_nodes_while_work_of_the_leaf_backfills_the_quota(self):
        """Otherwise others take the nodes meanwhile, and the quota of the leaf is backfilled again until those end."""
        held = [
            replace(gang(f"r{n}", "p", NORMAL, gpus=gpus, on=on), started=0, time_limit=until * HOUR)
            for n, (gpus, on, until) in enumerate([(4, "n1", 12), (8, "n2", 14)])
        ]
        early = replace(gang("early", "q", NORMAL, gpus=1, at=1), time_limit=HOUR)
        waiting = [gang("big", "q", NORMAL, gpus=8, at=0), early, gang("other", "p", NORMAL, gpus=1, at=1)]
        start = facts(
            [queue("q", 8), queue("p", 16)], [*held, *waiting], {"n1": 8, "n2": 8},
            policy=PolicyFacts(now=10 * HOUR, reserve_after=HOUR),
        )  # fmt: skip
        assert started_in(run_cycle(start)) == {"early"}


def test_a_preview_of_attempts_leaves_no_trace():
    """What the first attempt after it reads about ends of work is what it would read without the preview."""
    small = replace(gang("small", "q", NORMAL, gpus=1, at=1), time_limit=HOUR)
    world = run_cycle(full_cluster(gang("big", "q", NORMAL, gpus=8, at=0), small, on=("n1", "n1", "n2", None))).world
    policy = world.policy
    policy.refresh()
    with policy.preview():
        assert policy.begin_attempt(world.gang_of["small"])
        policy.end_attempt()
    assert policy._ends is None
    assert policy._latest == {}


def started_in(settled):
    return {step.gang for step in settled.steps if step.action == "start"}


class TestBackfill:
    """One node has 4 GPUs free; the reserved gang of 8 waits until hour 12 for its other half."""

    def start(self, *small, big=NORMAL):
        return full_cluster(gang("big", "q", big, gpus=8, at=0), *small, on=("n1", None, "n2", "n2"))

    def test_ends_before_the_reservation_by_its_limit(self):
        fits = replace(gang("fits", "q", NORMAL, gpus=1, at=1), time_limit=HOUR)
        late = replace(gang("late", "q", NORMAL, gpus=1, at=1), time_limit=HOUR + 1)
        endless = gang("endless", "q", NORMAL, gpus=1, at=1)
        assert started_in(run_cycle(self.start(fits, late, endless))) == {"fits"}

    def test_can_be_taken_back(self):
        assert started_in(run_cycle(self.start(gang("low", "q", LOW, gpus=1, at=1)))) == {"low"}

    def test_never_holds_a_guarantee_behind_low_work(self):
        assert started_in(run_cycle(self.start(gang("sure", "q", NORMAL, gpus=1, at=1), big=LOW))) == {"sure"}

    def test_uses_what_the_reservation_leaves_free(self):
        small = full_cluster(
            gang("big", "q", NORMAL, gpus=6, at=0), gang("two", "q", NORMAL, gpus=2, at=1), on=("n1", None, "n2", "n2")
        )
        assert started_in(run_cycle(small)) == set()
        free = full_cluster(
            gang("big", "q", NORMAL, gpus=6, at=0), gang("two", "q", NORMAL, gpus=2, at=1), on=(None, None, "n2", "n2")
        )
        assert started_in(run_cycle(free)) == {"big", "two"}

    def test_lets_work_go_first_that_comes_before_it(self):
        assert started_in(run_cycle(self.start(gang("high", "q", HIGH, gpus=1, at=1)))) == {"high"}


class TestAgeing:
    def test_lets_normal_work_that_is_old_come_before_new_high_work(self):
        old, new = gang("old", "q", NORMAL, gpus=8, at=0), gang("new", "q", HIGH, gpus=8, at=HOUR)
        for ageing, first in ((None, "new"), (2 * HOUR, "new"), (HOUR - 1, "old")):
            start = facts([queue("q", 8)], [old, new], {"n1": 8}, policy=PolicyFacts(now=2 * HOUR, ageing=ageing))
            assert started_in(run_cycle(start)) == {first}

    def test_leaves_the_order_of_work_that_may_be_preempted(self):
        old, new = gang("old", "q", LOW, gpus=8, at=0), gang("new", "q", NORMAL, gpus=8, at=10 * HOUR)
        start = facts([queue("q", 8)], [old, new], {"n1": 8}, policy=PolicyFacts(now=11 * HOUR, ageing=1))
        assert started_in(run_cycle(start)) == {"new"}

    def test_ends_a_stream_of_high_work(self):
        jobs = stream(NORMAL, HIGH)
        start = no_facts([queue("q", 16)], TWO_NODES)
        assert run_stream(start, jobs, policy=after(HOUR, ageing=4 * HOUR))["big"] <= (2 + 4 + 2) * HOUR


def random_stream(seed):
    """One or two leaves with work inside their quotas, which cover the nodes exactly. Small jobs keep the nodes nearly
    full for 100 hours, and a few large gangs come in the first third."""
    pick = random.Random(seed)
    nodes = [NodeFacts(f"n{i}", {GPU: 8}) for i in range(pick.choice([2, 3, 4]))]
    whole = 8 * len(nodes)
    leaves = [("a", whole)] if pick.random() < 0.5 else [("a", whole // 2), ("b", whole - whole // 2)]
    queues = [QueueFacts(name, None, {GPU: quota}, created=n) for n, (name, quota) in enumerate(leaves)]
    small, big = pick.choice([(LOW, LOW), (NORMAL, NORMAL), (NORMAL, HIGH), (HIGH, NORMAL)])
    if small == LOW:
        leaves = leaves[:1]
    load, at, jobs, large = pick.uniform(0.9, 1.0), 0.0, [], set()

    def add(name, where, priority, gpus, count, runs):
        limit = pick.choice([None, runs, LONGEST])
        expected = pick.choice([None, None, pick.randint(60, LONGEST)])
        fact = gang(name, where, priority, gpus=gpus, count=count, at=int(at))
        jobs.append(Job(replace(fact, time_limit=limit, expected_time=expected), runs))

    while at < 100 * HOUR:
        runs, gpus = pick.randint(600, LONGEST), pick.choice([1, 2, 2, 4])
        add(f"s{len(jobs)}", pick.choice(leaves)[0], small, gpus, 1, runs)
        at += pick.expovariate(1) * runs * gpus / whole / load
    for n in range(pick.choice([1, 1, 2, 3])):
        name, quota = pick.choice(leaves)
        at, gpus = pick.uniform(2, 30) * HOUR, 8
        large.add(f"big{n}")
        add(f"big{n}", name, big, gpus, quota // gpus, pick.randint(600, LONGEST))
    return no_facts(queues, nodes), jobs, large


LONGEST, RESERVE_AFTER, AGEING = 2 * HOUR, HOUR, 3 * HOUR


def longest_wait_of_large(seed, *, policy=True):
    """The longest wait of a large gang since it headed its leaf and was due a reservation, and the bound: the work that
    it waits for ends within the longest run, first for its quota and then for its nodes; each other large gang and the
    head of the other leaf may do the same before."""
    start, jobs, large = random_stream(seed)
    given = after(RESERVE_AFTER, ageing=AGEING) if policy else None
    first = run_stream(start, jobs, policy=given, until=END)
    worst = 0
    for fact in (each.fact for each in jobs if each.fact.name in large):
        before = [
            first.get(other.fact.name, END)
            for other in jobs
            if other.fact.queue == fact.queue and order_in_leaf(other.fact) < order_in_leaf(fact)
        ]
        due = max([fact.submitted + RESERVE_AFTER, *(at for at in before if at >= fact.submitted)])
        worst = max(worst, first.get(fact.name, END) - due)
    return worst, 2 * LONGEST * (len(large) + 1)


END = 200 * HOUR


def order_in_leaf(fact):
    if fact.priority < NORMAL:
        return (1, fact.submitted, fact.name)
    return (0, fact.submitted - (AGEING if fact.priority > NORMAL else 0), fact.name)


@pytest.mark.parametrize("seed", samples([14], [2, 1379, 1382, 1430]))
def test_no_gang_of_a_random_stream_waits_longer_than_the_bound(seed):
    """Without the policy it would."""
    worst, bound = longest_wait_of_large(seed)
    assert worst <= bound < longest_wait_of_large(seed, policy=False)[0]


@pytest.mark.nightly
@pytest.mark.parametrize("hundred", range(10))
def test_no_gang_of_a_thousand_random_streams_waits_longer_than_the_bound(hundred):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        worst, bound = longest_wait_of_large(seed)
        assert worst <= bound, f"seed {seed}"


class TestSeveralLeaves:
    """Reservations of different leaves have one order, and stand only together."""

    def pair(self, *, now, waits):
        """A node of 8 GPUs under a cohort of 7: each of two leaves runs LOW work, and HIGH or NORMAL work waits there
        for its place."""
        running = [gang("l0", "q0", LOW, gpus=2, on="n1", at=1), gang("l1", "q1", LOW, gpus=4, on="n1", at=2)]
        waiting = [gang("h", "q0", HIGH, gpus=3, at=waits[0]), gang("n", "q1", NORMAL, gpus=4, at=waits[1])]
        queues = [queue("q0", 3, "c0"), queue("q1", 4, "c0")]
        policy = PolicyFacts(now=now, reserve_after=HOUR)
        return facts(queues, [*running, *waiting], {"n1": 8}, cohorts=(cohort("c0"),), policy=policy)

    @pytest.mark.parametrize("now", [7200, 10**6])
    @pytest.mark.parametrize("waits", [(6, 7), (7, 6), (6, 6)])
    def test_two_reservations_do_not_hold_each_other(self, now, waits):
        settled = run_cycle(self.pair(now=now, waits=waits))
        assert started_in(settled) == {"h", "n"}
        assert {(step.gang, step.beneficiary) for step in settled.steps if step.beneficiary} == {
            ("l0", "h"),
            ("l1", "n"),
        }

    @pytest.mark.parametrize("above", ["limit", "cohort"])
    def test_two_gangs_of_all_nodes_run_one_after_the_other(self, above):
        """Each takes everything that its pool or its cohort may use."""
        if above == "limit":
            queues, cohorts = [queue("t", 16, limit=16), queue("a", 8, "t"), queue("b", 8, "t")], ()
        else:
            queues, cohorts = [queue("a", 8, "o"), queue("b", 8, "o")], (cohort("o"),)
        start = replace(no_facts(queues, TWO_NODES), cohorts=cohorts)
        jobs = [
            job("j1", "a", LOW, 0, gpus=2, runs=10_000),
            job("j2", "b", LOW, 10, gpus=8, count=2, runs=600),
            job("j3", "a", LOW, 20, gpus=8, count=2, runs=600),
            job("j4", "a", LOW, 5000, runs=60),
        ]
        started = run_stream(start, jobs, policy=after(HOUR), compare=True)
        assert started["j2"] == 10_000
        assert max(started["j3"], started["j4"]) <= 11_200

    def test_a_later_one_that_does_not_fit_beside_an_older_one_gives_way(self):
        """Whether it lacks nodes or quota: its gang could not start before that of the older one."""
        held = replace(gang("held", "b", NORMAL, gpus=8, on="n1"), started=0)
        first, second = gang("first", "a", LOW, gpus=8, count=2, at=1), gang("second", "b", LOW, gpus=8, count=2, at=2)
        for limit in ({}, {"limit": 16}):
            queues = [queue("t", 16, **limit), queue("a", 8, "t"), queue("b", 8, "t")]
            policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
            state = facts(queues, [held, first, second], {"n1": 8, "n2": 8}, policy=policy)
            assert [each.gang for each in facts_after(run_cycle(state)).policy.reservations] == ["first"]

    def test_quota_that_is_held_on_another_cluster_is_not_waited_for(self):
        """No end here would release it, so nothing is held back for it."""
        outside = replace(queue("x", 0, "c"), is_external=True)
        held = gang("elsewhere", "x", NORMAL, gpus=6, on="*")
        waiting = [gang("large", "a", LOW, gpus=4, at=0), gang("small", "b", LOW, gpus=2, at=1)]
        queues = [queue("a", 4, "c"), queue("b", 4, "c"), outside]
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        state = facts(queues, [held, *waiting], {"n1": 8}, cohorts=(cohort("c"),), policy=policy)
        settled = run_cycle(state)
        assert started_in(settled) == {"small"}
        assert not facts_after(settled).policy.reservations

    def test_the_share_of_a_sibling_is_not_held_for_a_queue_that_has_used_up_its_own(self):
        """`big` waits for work of its own queue; whatever its sibling starts inside its quota, the pool has room."""
        held = replace(gang("held", "a", NORMAL, gpus=4, on="n1"), started=0)
        waiting = [gang("big", "a", NORMAL, gpus=8, at=0), gang("mine", "b", NORMAL, gpus=8, at=1)]
        queues = [queue("t", 16, limit=16), queue("a", 8, "t"), queue("b", 8, "t")]
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        settled = run_cycle(facts(queues, [held, *waiting], {"n1": 8, "n2": 8}, policy=policy))
        assert started_in(settled) == {"mine"}


@pytest.mark.parametrize("seed", [4, 5, 8, 11])
def test_the_next_gangs_of_other_leaves_get_no_reservations_in_turn_before_an_older_one(seed):
    """Other leaves always have a gang that has waited long enough for a reservation: one more comes with each that
    ends. A gang of one more leaf needs all nodes."""
    pick, runs, ends = random.Random(seed), {"all": HOUR}, {}
    nodes = [NodeFacts(f"n{i}", {GPU: 8}) for i in range(pick.randint(2, 4))]
    whole, leaves, priority = 8 * len(nodes), "bcd"[: pick.randint(2, 3)], pick.choice([NORMAL, LOW])
    start = replace(no_facts([queue(name, whole) for name in f"a{leaves}"], nodes), policy=after(600))
    state = KeptState(start)

    def arrive(leaf, at):
        name = f"{leaf}{len(runs):05}"
        runs[name] = pick.randint(1800, 7200)
        fact = gang(name, leaf, priority, gpus=pick.choice([2, 4, 8, 8]), at=at)
        state.arrived(replace(fact, time_limit=runs[name]))

    for leaf in leaves * 5:
        arrive(leaf, 0)
    now = 0
    while "all" not in ends and now < 24 * HOUR:
        for step in state.run(now).steps:
            if step.action in {"start", "move"}:
                ends[step.gang] = now + runs[step.gang]
            else:
                ends.pop(step.gang, None)
        if now == 0:
            state.arrived(replace(gang("all", "a", priority, gpus=8, count=len(nodes), at=1), time_limit=HOUR))
        now = min(ends.values())
        for name in sorted(name for name, end in ends.items() if end == now and name != "all"):
            del ends[name]
            state.ended(name)
            arrive(name[0], now)
    assert "all" in ends


@pytest.mark.parametrize("priority", [NORMAL, LOW])
def test_a_reservation_leaves_nodes_that_endless_work_has_taken(priority):
    """`service`, an older gang or one that comes first, runs without a limit on the nodes of `large`. The other node
    becomes free at 500, and small gangs of another leaf would use each piece of it."""
    queues = [queue(name, 16) for name in "abxy"]
    firm = [
        replace(gang("f1", "x", NORMAL, gpus=8, on="n1"), started=0, time_limit=500),
        replace(gang("f2", "x", NORMAL, gpus=8, on="n2"), started=0, time_limit=600),
    ]
    waiting = [gang("service", "a", NORMAL, gpus=8, at=0), gang("large", "b", priority, gpus=8, at=1)]
    policy = PolicyFacts(reserve_after=10)
    state = KeptState(facts(queues, [*firm, *waiting], {"n1": 8, "n2": 8}, policy=policy))
    state.run(20)
    state.ended("f2")
    assert {step.gang for step in state.run(400).steps} >= {"service"}
    now, ends = 500, {}
    state.ended("f1")
    for n in range(60):
        state.arrived(gang(f"s{n:03}", "y", priority, gpus=2, at=400 + n))
    while not state.is_running("large") and now < 5000:
        for step in state.run(now).steps:
            if step.action == "start":
                ends[step.gang] = now + 100
        now += 25
        for name in sorted(name for name, end in ends.items() if end <= now and name.startswith("s0")):
            del ends[name]
            state.ended(name)
    assert state.is_running("large")
    assert now < 1000


class TestGuests:
    """LOW work of other leaves on nodes that HIGH or NORMAL work has reserved: the reserved gang takes them back."""

    def held(self, *others, now=10 * HOUR, until=20):
        """`big` has reserved the node, on which firm work of its leaf holds 4 of 8 GPUs."""
        firm = replace(gang("firm", "q", NORMAL, gpus=4, on="n1"), started=0, time_limit=until * HOUR)
        big = gang("big", "q", NORMAL, gpus=8, at=0)
        policy = PolicyFacts(now=now, reserve_after=HOUR)
        # Its limit lets `p` use the whole node, and its quota none of it, so that nothing is reclaimed for it.
        return facts([queue("q", 12), queue("p", 8)], [firm, big, *others], {"n1": 8}, policy=policy)

    def test_come_to_reserved_nodes(self):
        guest, later = gang("guest", "p", LOW, gpus=4, at=1), gang("firm2", "p", NORMAL, gpus=4, at=0)
        assert started_in(run_cycle(self.held(guest))) == {"guest"}
        assert started_in(run_cycle(self.held(later))) == set(), "no work that stays"

    def test_leave_when_nothing_else_is_in_the_way(self):
        state = facts_after(run_cycle(self.held(gang("guest", "p", LOW, gpus=4, at=1))))
        without = replace(state, gangs=tuple(g for g in state.gangs if g.name != "firm"))
        settled = run_cycle(replace(without, policy=replace(without.policy, now=15 * HOUR)))
        assert [(s.action.value, s.gang, s.beneficiary) for s in settled.steps] == [
            ("preempt", "guest", "big"),
            ("start", "big", None),
        ]

    def test_do_not_move_the_certain_latest_start(self):
        before = run_cycle(self.held())
        after_guest = run_cycle(self.held(gang("guest", "p", LOW, gpus=4, at=1)))
        for settled in (before, after_guest):
            latest = settled.world.policy.latest_start("big")
            assert (latest.time, latest.is_certain) == (20 * HOUR, True)

    def test_do_not_come_where_the_reserved_gang_could_start_now(self):
        """Otherwise they would start and be preempted at once."""
        firm = replace(gang("firm", "q", NORMAL, gpus=8, on="n1"), started=0, time_limit=20 * HOUR)
        other = replace(gang("other", "p", NORMAL, gpus=2, on="n2"), started=0)
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        queues = [queue("o", 8), queue("p", 16), queue("q", 8)]
        state = facts(queues, [firm, other, gang("big", "p", NORMAL, gpus=8, at=0)], {"n1": 8, "n2": 2}, policy=policy)
        held = facts_after(run_cycle(state))
        free = (other, *(gang(f"low{n}", "o", LOW, at=1) for n in range(2)), held.gangs[2])
        settled = run_cycle(replace(held, gangs=free, policy=replace(held.policy, now=20 * HOUR)))
        assert [(step.action.value, step.gang) for step in settled.steps] == [("start", "big")]

    def test_are_not_the_new_pods_of_work_that_was_there_before(self):
        """The reserved gang could not take them back alone."""
        tree = GangTree(1)
        low = replace(gang("low", "p", LOW, count=3, on=["n2", None, None], tree=tree), started=0)
        fill = replace(gang("fill", "x", NORMAL, gpus=3, on="n2"), started=0)
        firm = [
            replace(gang(f"firm{n}", "x", NORMAL, gpus=4, on="n1"), started=0, time_limit=until * HOUR)
            for n, until in enumerate([15, 20])
        ]
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        waiting = gang("big", "q", NORMAL, gpus=8, at=0)
        queues = [queue("p", 4), queue("q", 8), queue("x", 20)]
        state = facts(queues, [low, fill, *firm, waiting], {"n1": 8, "n2": 4}, policy=policy)
        held = facts_after(run_cycle(state))
        for name, now in (("firm0", 15), ("firm1", 20)):
            left = tuple(each for each in held.gangs if each.name != name)
            settled = run_cycle(replace(held, gangs=left, policy=replace(held.policy, now=now * HOUR)))
            held = facts_after(settled)
        assert settled.world.gang_of["big"].is_running

    def test_are_no_work_that_was_there_before(self):
        low = replace(gang("low", "p", LOW, gpus=4, on="n1", at=1), started=HOUR)
        state = facts_after(run_cycle(self.held(low)))
        without = replace(state, gangs=tuple(g for g in state.gangs if g.name != "firm"))
        assert run_cycle(without).steps == ()

    def test_are_not_taken_for_work_that_lacks_quota(self):
        """Its quota is in use until `firm` ends, and so are its nodes."""
        settled = run_cycle(self.held(gang("guest", "p", LOW, gpus=4, at=1)))
        assert run_cycle(facts_after(settled)).steps == ()


class TestMoves:
    """`whole` needs all 8 GPUs of n2, where `moves` has 4; 4 of 12 on n1 are free, and reserved for `big`."""

    def run(self, *, big, for_whom=LOW, **moving):
        held = StartReservationFacts("big", 9 * HOUR, {"n1": {GPU: 12}}, 9 * HOUR)
        moving = {"where": "q", "priority": LOW, **moving}
        limit = moving.pop("time_limit", None)
        running = [
            replace(gang("first", "q", NORMAL, gpus=8, on="n1"), started=0, time_limit=12 * HOUR),
            replace(gang("moves", **moving, gpus=4, on="n2", at=HOUR), started=HOUR, time_limit=limit),
        ]
        waiting = [gang("big", "q", big, gpus=12, at=0.5 * HOUR), gang("whole", "p", for_whom, gpus=8, at=10 * HOUR)]
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR, reservations=(held,))
        queues = [queue("q", 20), queue("p", 8)]
        settled = run_cycle(facts(queues, [*running, *waiting], {"n1": 12, "n2": 8}, policy=policy))
        assert settled.world.policy.latest_start("big").time == 12 * HOUR
        return step_pairs(settled)

    @pytest.mark.parametrize("limit", [None, HOUR])
    @pytest.mark.parametrize("big", [LOW, NORMAL, HIGH])
    def test_leave_reserved_nodes_to_the_gang_that_waits_for_them(self, big, limit):
        """Work that moves begins again. It would be no guest there, because it ran before."""
        assert ("move", "moves") not in self.run(big=big, where="p", time_limit=limit)
        if big == LOW:
            assert ("move", "moves") not in self.run(big=big, time_limit=limit)

    def test_go_there_where_the_reserved_gang_takes_the_place_of_the_work(self):
        """LOW work of the leaf of the reserved gang."""
        assert self.run(big=NORMAL)[:1] == [("move", "moves")]


class TestInPlace:
    """HIGH and NORMAL work takes the place of LOW work of its own leaf, on nodes that another leaf has reserved too."""

    def state(self, *, low_since, gpus=4):
        held = StartReservationFacts("big", 2 * HOUR, {"n1": {GPU: 8}}, 2 * HOUR)
        firm = replace(gang("firm", "q", NORMAL, gpus=4, on="n1"), started=0)
        low = replace(gang("low", "p", LOW, gpus=4, on="n1"), started=low_since)
        waiting = [gang("big", "q", NORMAL, gpus=8, at=0), gang("new", "p", NORMAL, gpus=gpus, at=3 * HOUR)]
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR, reservations=(held,))
        return facts([queue("q", 12), queue("p", 4)], [firm, low, *waiting], {"n1": 8}, policy=policy)

    def test_where_the_low_work_stood_before(self):
        settled = run_cycle(self.state(low_since=HOUR))
        assert [(s.action.value, s.gang) for s in settled.steps] == [("preempt", "low"), ("start", "new")]

    def test_not_where_the_low_work_is_a_guest(self):
        """Otherwise each guest would end as work that stays, and the reservation would never get its nodes."""
        assert run_cycle(self.state(low_since=3 * HOUR)).steps == ()

    @pytest.mark.parametrize(("gpus", "starts"), [(4, True), (5, False)])
    def test_in_the_places_of_low_work_of_which_one_pod_is_a_guest(self, gpus, starts):
        """Its other pod, on a node that nobody has reserved, has a place of the leaf."""
        state = self.state(low_since=3 * HOUR, gpus=gpus)
        low = replace(gang("low", "p", LOW, gpus=4, count=2, on=["n1", "n2"]), started=3 * HOUR)
        nodes = facts([queue("q", 12), queue("p", 8)], [], {"n1": 8, "n2": 4})
        gangs = (state.gangs[0], low, *state.gangs[2:])
        settled = run_cycle(replace(state, gangs=gangs, nodes=nodes.nodes, queues=nodes.queues))
        expected = [("preempt", "low"), ("start", "new")] if starts else []
        assert [(s.action.value, s.gang) for s in settled.steps] == expected
        assert all("n1" not in s.nodes for s in settled.steps if s.gang == "new")

    def test_not_on_what_is_free(self):
        """The reservation keeps the GPU that is free next to the LOW work."""
        state = self.state(low_since=HOUR)
        smaller = replace(state.gangs[1], tasks=(replace(state.gangs[1].tasks[0], request={GPU: 3}),))
        gangs = (state.gangs[0], smaller, *state.gangs[2:])
        assert run_cycle(replace(state, gangs=gangs)).steps == ()


class TestCertainTimes:
    def test_are_kept_where_work_without_gpus_waits_in_the_leaf(self):
        """It needs no quota, and would use the CPUs of each node."""
        firm = replace(gang("firm", "q", NORMAL, gpus=4, on="n1"), started=0, time_limit=20 * HOUR)
        big, small = gang("big", "q", NORMAL, gpus=4, at=0), gang("small", "q", NORMAL, gpus=4, at=9.5 * HOUR)
        big = replace(big, tasks=(replace(big.tasks[0], request={GPU: 4, CPU: 4}),))
        small = replace(small, tasks=(replace(small.tasks[0], request={CPU: 1}),))
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        quotas = QueueFacts("q", None, {GPU: 4, CPU: 99})
        state = facts([quotas], [firm, big, small], policy=policy)
        state = replace(state, nodes=(NodeFacts("n1", {GPU: 8, CPU: 4}),))
        settled = run_cycle(state)
        latest = settled.world.policy.latest_start("big")
        assert (latest.time, latest.is_certain) == (20 * HOUR, True)
        assert started_in(settled) == set()

    @pytest.mark.parametrize(("priority", "certain"), [(NORMAL, False), (LOW, True)])
    def test_of_low_work_need_that_no_other_work_waits(self, priority, certain):
        """HIGH and NORMAL work may take what LOW work has reserved."""
        firm = replace(gang("firm", "x", NORMAL, gpus=8, on="n1"), started=0, time_limit=20 * HOUR)
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        waiting = [gang("low", "q", LOW, gpus=8, at=0), gang("other", "p", priority, gpus=8, at=9 * HOUR + 1)]
        queues = [queue("q", 8), queue("p", 8), queue("x", 8)]
        settled = run_cycle(facts(queues, [firm, *waiting], {"n1": 8}, policy=policy))
        latest = settled.world.policy.latest_start("low")
        assert (latest.time, latest.is_certain) == (20 * HOUR, certain)


def test_an_overfull_node_takes_nothing_from_the_others():
    """A node that has shrunk below its use: a reclaim finds the whole of the other one."""
    held = [gang("a", "p", NORMAL, gpus=8, on="n1"), gang("low", "p", LOW, gpus=8, on="n2", at=1)]
    state = facts([queue("p", 8), queue("q", 8)], [*held, gang("new", "q", LOW, gpus=8, at=2)], {"n1": 4, "n2": 8})
    assert [(s.action.value, s.gang) for s in run_cycle(state).steps] == [("reclaim", "low"), ("start", "new")]


class TestBorrowedQuota:
    """LOW work of a third queue uses quota of the reserved gang, which takes it back as soon as its node is free."""

    def state(self, queues, *waiting):
        """`big` is inside its quota and waits for n1: `firm` holds 4 of its 8 GPUs, and LOW work the others."""
        held = [
            replace(gang("firm", "x", NORMAL, gpus=4, on="n1"), started=0, time_limit=20 * HOUR),
            replace(gang("low", "p", LOW, gpus=4, count=2, on=["n1", "n2"]), started=0),
        ]
        big = gang("big", "q", NORMAL, gpus=8, at=0)
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR)
        nodes = {"n1": 8, "n2": 4, "n3": 4}
        return facts(queues, [*held, big, *waiting], nodes, policy=policy, cohorts=(cohort("c"),))

    QUOTAS = {"q": 8, "o": 4, "x": 4, "p": 0}
    SHAPES = {
        "cohort": [queue(name, quota, parent="c") for name, quota in QUOTAS.items()],
        "limit": [queue("top", 16, limit=16), *(queue(name, quota, parent="top") for name, quota in QUOTAS.items())],
    }

    @pytest.mark.parametrize("shape", SHAPES)
    def test_holds_back_no_work_inside_its_own_quota(self, shape):
        settled = run_cycle(self.state(self.SHAPES[shape], gang("new", "o", NORMAL, gpus=4, at=9.5 * HOUR)))
        assert started_in(settled) == {"new"}

    @pytest.mark.parametrize("shape", SHAPES)
    def test_holds_the_node_that_becomes_free(self, shape):
        state = self.state(self.SHAPES[shape], gang("new", "o", NORMAL, gpus=4, at=9.5 * HOUR))
        state = facts_after(run_cycle(state))
        assert [each.nodes for each in state.policy.reservations] == [{"n1": {GPU: 8}}]
        left = tuple(each for each in state.gangs if each.name not in {"firm", "new"})
        again = replace(state, gangs=(*left, gang("next", "x", NORMAL, gpus=4, at=2 * HOUR)))
        settled = run_cycle(replace(again, policy=replace(state.policy, now=20 * HOUR)))
        assert started_in(settled) == {"big", "next"}
        assert settled.world.gang_of["big"].is_running

    def test_is_taken_back_with_the_node_from_a_guest(self):
        """Neither alone is enough: the guest is inside its own quota, and the borrowed quota is in use elsewhere."""
        held = StartReservationFacts("big", 2 * HOUR, {"n1": {GPU: 8}}, 2 * HOUR)
        running = [
            replace(gang("guest", "p", LOW, gpus=4, on="n1"), started=3 * HOUR),
            replace(gang("firm", "x", NORMAL, gpus=4, on="n2"), started=0),
            *(replace(gang(f"low{n}", "o", LOW, gpus=4, on=f"n{3 + n}"), started=0) for n in range(3)),
        ]
        queues = [queue(name, quota, parent="c") for name, quota in [("q", 8), ("p", 4), ("x", 4), ("o", 4)]]
        policy = PolicyFacts(now=10 * HOUR, reserve_after=HOUR, reservations=(held,))
        nodes, waiting = {"n1": 8, "n2": 4, "n3": 4, "n4": 4, "n5": 4}, gang("big", "q", NORMAL, gpus=8, at=0)
        state = facts(queues, [*running, waiting], nodes, policy=policy, cohorts=(cohort("c"),))
        settled = run_cycle(state)
        first, again = step_pairs(settled)[:3], step_pairs(settled)[3:]
        assert first == [("preempt", "guest"), ("preempt", "low2"), ("start", "big")]
        assert again == [("reclaim", "low1"), ("start", "guest")], "by its own quota, on another node"
        assert run_cycle(facts_after(settled)).steps == ()
