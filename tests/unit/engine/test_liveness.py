"""Nothing is stuck: what the rules of liveness find, and that no stream of work breaks them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice

import pytest

from pools.domain.configuration.backend_config import VictimRule
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import HIGH, LOW, NORMAL, PolicyFacts, StartReservationFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.reasons.liveness import StuckGang, StuckKind, find_stuck
from scheduling.domain.engine.rules.phases import Phases
from scheduling.domain.engine.rules.reservation import StartPolicy
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.steps import StepAction
from tests.support.nightly_parts import samples
from tests.unit.engine.mixed_streams import LONGEST, mixed_stream, rich_stream
from tests.unit.engine.sample_clusters import GPU, cohort, facts, gang, queue
from tests.unit.engine.streams import run_stream


class TestTheRules:
    """On states that no cycle has settled, which stand for the result of a policy with a fault."""

    def test_find_work_that_fits_on_an_idle_cluster(self):
        idle = facts([queue("q", 8)], [gang("late", "q", at=2), gang("first", "q", at=1)], {"n": 8})
        assert find_stuck(World(idle)) == (StuckGang("first", "q", StuckKind.IDLE_CLUSTER),)
        assert find_stuck(run_cycle(idle).world) == ()

    @pytest.mark.parametrize(
        "stopped",
        [
            facts([queue("q", 8)], [gang("large", "q", gpus=9)], {"n": 8}),
            facts([queue("q", 0)], [gang("firm", "q", NORMAL)], {"n": 8}),
            facts([queue("q", 8, limit=4)], [gang("limited", "q", gpus=5)], {"n": 8}),
            facts([queue("q", 8, "c")], [gang("borrows", "q", gpus=9)], {"n": 9}, cohorts=(cohort("c"),)),
        ],
    )
    def test_leave_out_work_that_could_not_start(self, stopped):
        assert find_stuck(World(stopped)) == ()

    @pytest.mark.parametrize(("priority", "expected"), [(HIGH, True), (NORMAL, True), (LOW, False)])
    def test_find_work_behind_low_work_of_its_queue(self, priority, expected):
        running = [gang("l1", "q", gpus=2, on="n"), gang("l2", "q", gpus=6, on="n")]
        state = facts([queue("q", 4)], [*running, gang("waits", "q", priority, gpus=4)], {"n": 8})
        stuck = (StuckGang("waits", "q", StuckKind.BEHIND_LOW_WORK),)
        assert find_stuck(World(state)) == (stuck if expected else ())
        assert find_stuck(run_cycle(state).world) == ()

    @pytest.mark.parametrize(
        ("where", "gpus", "quota"),
        [("other", 8, 8), ("q", 2, 8), ("q", 8, 2)],
        ids=["another queue", "places too small", "over the quota"],
    )
    def test_leave_out_work_that_the_places_would_not_help(self, where, gpus, quota):
        running = [gang("low", where, gpus=gpus, on="n"), gang("rest", "other", NORMAL, gpus=8 - gpus, on="n")]
        queues = [queue("q", quota), queue("other", 16)]
        assert find_stuck(World(facts(queues, [*running, gang("waits", "q", NORMAL, gpus=4)], {"n": 8}))) == ()

    def test_leave_out_guests_on_nodes_that_another_queue_has_reserved(self):
        held = StartReservationFacts("large", 100, {"n": {GPU: 8}}, 100)
        guest = replace(gang("guest", "q", gpus=4, on="n"), started=200)
        firm = replace(gang("firm", "other", NORMAL, gpus=4, on="n"), started=0)
        waiting = [gang("waits", "q", NORMAL, gpus=4, at=300), gang("large", "other", NORMAL, gpus=8)]
        policy = PolicyFacts(now=400, reserve_after=50, reservations=(held,))
        state = facts([queue("q", 8), queue("other", 12)], [guest, firm, *waiting], {"n": 8}, policy=policy)
        assert find_stuck(World(state)) == ()
        both = replace(gang("guest", "q", gpus=4, count=2, on=["n", "m"]), started=200)
        two_nodes = facts([queue("q", 8), queue("other", 12)], [], {"n": 8, "m": 4}).nodes
        stuck = StuckGang("waits", "q", StuckKind.BEHIND_LOW_WORK)
        assert find_stuck(World(replace(state, gangs=(both, firm, *waiting), nodes=two_nodes))) == (stuck,)
        before = replace(guest, started=50)
        stuck = StuckGang("waits", "q", StuckKind.BEHIND_LOW_WORK)
        assert find_stuck(World(replace(state, gangs=(before, firm, *waiting)))) == (stuck,)

    @pytest.mark.parametrize(
        ("what", "change"),
        [
            ("stuck", {}),
            ("came before the nodes were reserved", {"guest_since": 50}),
            ("guaranteed work has come to the nodes", {"guest": NORMAL}),
            ("its quota is in use", {"quota": 8}),
            ("it is LOW work itself", {"large": LOW}),
            ("an older reservation has a part", {"older": True}),
        ],
    )
    def test_find_work_whose_reserved_nodes_later_low_work_has(self, what, change):
        held = [StartReservationFacts("large", 100, {"n": {GPU: 8}}, 100)]
        waiting = [gang("large", "other", change.get("large", NORMAL), gpus=8)]
        guest = gang("guest", "q", change.get("guest", LOW), gpus=4, on="n", at=60)
        firm = replace(gang("firm", "other", NORMAL, on="m"), started=0)
        if change.get("older"):
            held.append(StartReservationFacts("older", 90, {"n": {GPU: 1}, "m": {GPU: 1}}, 90))
            waiting.append(gang("older", "third", NORMAL, count=2))
        state = facts(
            [queue("q", 8), queue("other", change.get("quota", 9)), queue("third", 2)],
            [replace(guest, started=change.get("guest_since", 200)), firm, *waiting],
            {"n": 8, "m": 1},
            policy=PolicyFacts(now=400, reserve_after=50, reservations=tuple(held)),
        )
        stuck = (StuckGang("large", "other", StuckKind.BEHIND_LATER_WORK),)
        assert find_stuck(World(state)) == (stuck if what == "stuck" else ())
        assert find_stuck(run_cycle(state).world) == ()


def live_through_jobs(start, jobs):
    """Every state of a stream after a cycle: its time and the kept state. Nothing waits on the cluster at its end but
    work that could never start."""
    kept, ends = KeptState(start), {}
    runs = {job.fact.name: job.duration for job in jobs}
    arrivals = sorted(jobs, key=lambda job: (job.fact.submitted, job.fact.name))
    while arrivals or ends:
        now = min([job.fact.submitted for job in arrivals[:1]] + list(ends.values()))
        for name in sorted(name for name, end in ends.items() if end == now):
            del ends[name]
            kept.ended(name)
        while arrivals and arrivals[0].fact.submitted == now:
            kept.arrived(arrivals.pop(0).fact)
        settled = kept.run(now)
        assert settled.has_converged
        for step in settled.steps:
            if step.action in {StepAction.START, StepAction.MOVE}:
                ends[step.gang] = now + runs[step.gang]
            elif not kept.is_running(step.gang):
                ends.pop(step.gang, None)
        yield now, kept


def assert_never_stuck(seed, stream=mixed_stream):
    """Work starts in place of LOW work, too, as it would without a policy."""
    for now, kept in live_through_jobs(*stream(seed)):
        assert find_stuck(kept.world) == (), f"seed {seed} at {now}"
        assert_no_swap_is_left(kept, now)
        assert not kept.run(now).steps, f"seed {seed} at {now}: another run at the same time does something"


@pytest.mark.parametrize("ten", samples(range(2), range(2, 8)))
def test_no_mixed_stream_is_ever_stuck(ten):
    for seed in range(10 * ten, 10 * ten + 10):
        assert_never_stuck(seed)


@pytest.mark.parametrize("seed", samples(range(4), range(4, 12)))
def test_no_rich_stream_is_ever_stuck(seed):
    assert_never_stuck(seed, rich_stream)


def least_lost(stream, seed, **more):
    """The stream under a policy that takes the smallest sufficient victims."""
    start, jobs = stream(seed, **more)
    return replace(start, policy=replace(start.policy, victims=VictimRule.LEAST_LOST)), jobs


@pytest.mark.parametrize(("stream", "seeds"), [(mixed_stream, range(6)), (rich_stream, range(2))])
def test_no_stream_is_stuck_where_the_least_is_lost(stream, seeds):
    for seed in seeds:
        assert_never_stuck(seed, partial(least_lost, stream))


@pytest.mark.nightly
@pytest.mark.parametrize("hundred", range(10))
@pytest.mark.parametrize("stream", [mixed_stream, rich_stream])
def test_none_of_a_thousand_streams_is_ever_stuck(hundred, stream):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        assert_never_stuck(seed, stream)


def test_the_streams_find_reservations_without_an_order(monkeypatch):
    """With reservations that hold each other, as they did, some of the same streams are stuck."""
    monkeypatch.setattr(StartPolicy, "_note_ranks", lambda self: None)
    monkeypatch.setattr(StartPolicy, "_could_start_together", lambda self, held, older: True)
    stuck = (
        seed
        for seed in range(40)
        if any(find_stuck(kept.world) for _now, kept in live_through_jobs(*mixed_stream(seed)))
    )
    assert len(list(islice(stuck, 2))) == 2


def test_the_streams_find_guests_that_stay(monkeypatch):
    """LOW work that nobody preempts on reserved nodes passes the reserved gang there."""
    monkeypatch.setattr(Phases, "take_back", lambda self: False)
    states = (find_stuck(kept.world) for _now, kept in live_through_jobs(*rich_stream(4)))
    assert {each.kind for stuck in states for each in stuck} == {StuckKind.BEHIND_LATER_WORK}


@pytest.mark.parametrize("seed", [5, 27, 131, 156, 247])
def test_a_kept_state_gives_the_steps_of_a_fresh_run_in_a_mixed_stream(seed):
    """So reservations, their nodes and their guests survive as facts."""
    start, jobs = mixed_stream(seed, hours=8)
    run_stream(replace(start, policy=None), jobs, policy=start.policy, compare=True)


def assert_no_swap_is_left(kept, now):
    """An oracle that knows no reservation: alone with the running work, the first HIGH or NORMAL gang of a queue would
    take the place of LOW work of its own queue that no reservation is younger than."""
    state = kept.facts()
    placed = [each.placed for each in state.policy.reservations if each.placed is not None]
    since = min(placed, default=now)
    running = tuple(g for g in state.gangs if any(task.node for task in g.tasks))
    old = {g.name for g in running if g.preemptible and g.started is not None and g.started < since}
    for first in first_firm_gangs(state):
        alone = replace(state, gangs=(*running, first), policy=None)
        steps = run_cycle(alone).steps
        taken = [step for step in steps if step.beneficiary == first.name and step.action is StepAction.PREEMPT]
        in_place = taken and all(step.gang in old for step in taken)
        assert not (in_place and is_swap(state, first, taken)), f"{first.name} at {now}"


def first_firm_gangs(state):
    """The first HIGH or NORMAL gang that waits in each queue."""
    found = {}
    for each in sorted(state.gangs, key=lambda g: (-g.priority, g.submitted, g.name)):
        if not each.preemptible and not any(task.node for task in each.tasks):
            found.setdefault(each.queue, each)
    return found.values() if state.policy.ageing is None else ()


def is_swap(state, first, taken):
    """Whether the gang needs one node, and the work that is taken had as much on one."""
    by_name = {g.name: g for g in state.gangs}
    if len(first.tasks) != 1:
        return False
    needed, on = first.tasks[0].request[GPU], {}
    for step in taken:
        for task in by_name[step.gang].tasks:
            on[task.node] = on.get(task.node, 0) + task.request[GPU]
    return max(on.values()) >= needed


@pytest.mark.parametrize("seed", [*range(20), 98, 118, 131, 133])
def test_a_certain_latest_start_is_kept_where_all_work_has_one_priority(seed):
    """There no event can move it: it is only ever earlier and stays certain, and the gang starts by then."""
    assert_keeps_promises(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_streams_keep_their_certain_latest_starts(hundred):
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        assert_keeps_promises(seed)


def assert_keeps_promises(seed):
    start, jobs = mixed_stream(seed)
    level = [
        replace(job, fact=replace(job.fact, priority=NORMAL, preemptible=False, time_limit=LONGEST)) for job in jobs
    ]
    promised = {}
    for now, kept in live_through_jobs(start, level):
        policy, world = kept.world.policy, kept.world
        for name, latest in list(promised.items()):
            waits = world.gang_of.get(name)
            if waits is None or waits.is_running:
                assert now <= latest, f"seed {seed}: {name} was promised {latest}, started by {now}"
                del promised[name]
        bounds = {each.gang: policy.latest_start(each.gang) for each in policy.reservations()}
        for name in promised:
            assert bounds[name].is_certain, f"seed {seed}: {name} lost its promise at {now}"
        for name, bound in bounds.items():
            if bound.is_certain:
                assert now <= bound.time <= promised.get(name, bound.time), f"seed {seed}: {name} at {now}"
                promised[name] = bound.time
