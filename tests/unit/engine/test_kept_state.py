"""A kept state gives the steps of a fresh run, instant after instant."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools.domain.configuration.backend_config import VictimRule
from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import (
    ClusterFacts,
    CohortFacts,
    GangFacts,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    StartHold,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.outcome import facts_after, gang_result, queue_positions, waiting_reasons
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.gang import GangTree
from tests.support.nightly_parts import samples
from tests.unit.engine.sample_clusters import CPU, GPU, cluster_facts, facts, gang, queue

SAMPLE = settings(max_examples=30, derandomize=True)


class BothWays:
    """The same changes given to a kept state and written into facts for a fresh run."""

    def __init__(self, start):
        self.facts = start
        self.kept = KeptState(start)

    def end(self, name):
        self.kept.ended(name)
        self.facts = replace(self.facts, gangs=tuple(g for g in self.facts.gangs if g.name != name))

    def arrive(self, fact):
        self.kept.arrived(fact)
        self.facts = replace(self.facts, gangs=(*self.facts.gangs, fact))

    def change(self, **parts):
        self.facts = replace(self.facts, **parts)
        self.kept.rebuild(replace(self.kept.facts(), **parts))

    def begin_again(self):
        """As a replay begins: the gangs arrive on an empty cluster, those that run too. Then it reads the start
        reservations, if there are any."""
        reserved = self.facts.policy.reservations
        self.kept = KeptState(replace(self.facts, gangs=(), policy=replace(self.facts.policy, now=0, reservations=())))
        for fact in self.facts.gangs:
            self.kept.arrived(fact)
        if reserved:
            policy = replace(self.facts.policy, reservations=reserved)
            self.kept.rebuild(replace(self.kept.facts(), policy=policy))

    def note_start(self, name, at, expected, moved=None):
        self.kept.started(name, at, expected, moved)
        self._note(name, started=at, expected_time=expected, moved=moved)

    def note_wait(self, name, at, expected):
        self.kept.waits(name, at, expected)
        self._note(name, waiting_since=at, expected_time=expected, moved=None)

    def _note(self, name, **known):
        self.facts = replace(
            self.facts, gangs=tuple(replace(g, **known) if g.name == name else g for g in self.facts.gangs)
        )

    def run(self, now=None):
        """Both runs give the same steps, and the same facts afterwards."""
        if now is not None:
            self.facts = replace(self.facts, policy=replace(self.facts.policy, now=now))
        fresh, kept = run_cycle(self.facts), self.kept.run(now)
        assert kept.steps == fresh.steps
        assert kept.has_converged == fresh.has_converged
        self.facts = facts_after(fresh)
        assert by_name(self.kept.facts()) == by_name(self.facts)
        assert self.kept.facts().policy == self.facts.policy
        self.fresh = fresh
        return kept.steps

    def compare_answers(self):
        """Both worlds answer questions in the same way."""
        ours, theirs = self.kept.world, self.fresh.world
        assert waiting_reasons(ours) == waiting_reasons(theirs)
        assert queue_positions(ours) == queue_positions(theirs)
        assert {g.fact.name: gang_result(g) for g in ours.gangs} == {g.fact.name: gang_result(g) for g in theirs.gangs}


def by_name(some_facts):
    return {each.name: each for each in some_facts.gangs}


@given(cluster_facts(), st.data())
@SAMPLE
def test_any_ends_and_arrivals_give_the_steps_of_a_fresh_run(drawn, data):
    """Gangs of any shape: elastic ones, sub-groups, sets of allowed nodes, unlike tasks."""
    waiting = list(data.draw(st.permutations(drawn.gangs)))
    first = [waiting.pop() for _ in range(data.draw(st.integers(0, len(waiting))))]
    both = BothWays(replace(drawn, gangs=tuple(first)))
    both.run()
    for _ in range(6):
        there = sorted(by_name(both.facts))
        if there:
            for name in data.draw(st.sets(st.sampled_from(there), max_size=2)):
                both.end(name)
        for _ in range(data.draw(st.integers(0, 2))):
            if waiting:
                both.arrive(waiting.pop())
        both.run()
    both.compare_answers()


def random_cluster(pick):
    """Two pools with leaves under a cohort, one outside of it, single leaves, and a queue of another cluster."""
    quotas = [0, 2, 4, 8, 12]
    limits = [{}, {}, {GPU: 10}, {GPU: 20}]
    queues = [QueueFacts("ext", None, {GPU: 2}, is_external=True)]
    for top in ("a", "b", "c"):
        parent = "cohort" if top != "c" and pick.random() < 0.7 else None
        lending = {GPU: pick.choice([0, 4, UNLIMITED])} if parent else {}
        borrowing = {GPU: pick.choice([4, 16, UNLIMITED])} if parent else {}
        limit = pick.choice(limits)
        queues.append(QueueFacts(top, parent, None, limit, borrowing, lending, created=len(queues)))
        for leaf in range(3):
            weight = pick.choice([0, 1, 1, 2])
            hold = StartHold("closed", "The pool is closed.") if pick.random() < 0.1 else None
            queues.append(
                QueueFacts(
                    f"{top}{leaf}", top, {GPU: pick.choice(quotas)}, pick.choice(limits),
                    weight=weight, created=len(queues), hold=hold,
                )
            )  # fmt: skip
    queues.append(QueueFacts("d", "cohort", {GPU: 6}, created=9))
    cohorts = (CohortFacts("cohort", None, {GPU: pick.choice([0, 4])}),)
    nodes = tuple(NodeFacts(f"n{i}", {GPU: pick.choice([4, 8, 8])}) for i in range(8))
    return ClusterFacts(tuple(queues), cohorts, (), nodes)


def random_gang(pick, name, leaves, at):
    count, gpus = pick.choice([(1, 1), (1, 1), (1, 2), (2, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 1)])
    tree = GangTree(pick.randint(0, count)) if pick.random() < 0.2 else None
    priority = pick.choice([50, 50, 50, 60, 100, 125])
    requests = [{GPU: gpus}] * count
    if pick.random() < 0.1:
        requests[0] = {GPU: 1, CPU: 2}
    tasks = tuple(TaskFacts(f"{name}-{i}", request) for i, request in enumerate(requests))
    return GangFacts(name, pick.choice(leaves), tasks, priority, priority < 100, at, tree)


@pytest.mark.parametrize("seeds", samples([range(3)], [range(3, 8)]))
def test_long_histories_give_the_steps_of_fresh_runs(seeds):
    """Of every kind of step there is one."""
    actions = set()
    for seed in seeds:
        actions |= live_through(random.Random(seed))
    assert actions == set(StepAction) - {StepAction.GIVE_UP}


@pytest.mark.parametrize("seed", samples(range(3), range(3, 8)))
def test_long_histories_under_a_policy_give_the_steps_of_fresh_runs(seed):
    """Starts are noted a little later than they were planned, and so are the waits of what was taken back."""
    pick = random.Random(seed)
    policy = PolicyFacts(
        reserve_after=pick.choice([None, 2, 6]),
        ageing=pick.choice([None, 5]),
        victims=pick.choice(list(VictimRule)),
    )
    live_through(pick, policy)


def live_through(pick, policy=None):
    """Many instants of a random cluster. Returns the kinds of steps."""
    both = BothWays(replace(random_cluster(pick), policy=policy))
    parents = {q.parent for q in both.facts.queues}
    leaves = [q.name for q in both.facts.queues if q.name not in parents] + ["nowhere"]
    actions = set()
    for instant in range(60):
        there = sorted(by_name(both.facts))
        while there and pick.random() < 0.5:
            both.end(there.pop(pick.randrange(len(there))))
        while len(there) < 45 and pick.random() < 0.7:
            came = random_gang(pick, f"g{pick.randrange(1000):03}-{instant}-{len(there)}", leaves, instant)
            both.arrive(came if policy is None else with_times(pick, came, instant))
            there = sorted(by_name(both.facts))
        if pick.random() < 0.03:
            nodes = tuple(NodeFacts(n.name, {GPU: max(8, *n.resources.values())}) for n in both.facts.nodes)
            both.change(nodes=nodes)
        if policy is not None and pick.random() < 0.1:
            both.begin_again()
        if policy is None:
            steps = both.run()
        else:
            steps = both.run(instant)
            note_times(pick, both, steps, instant)
        actions.update(step.action for step in steps)
    both.compare_answers()
    return actions


def with_times(pick, fact, instant):
    """The times that a policy reads."""
    return replace(
        fact,
        waiting_since=instant,
        time_limit=pick.choice([None, 3, 8, 20]),
        expected_time=pick.choice([None, None, 4]),
        checkpoint_every=pick.choice([None, None, 2]),
    )


def note_times(pick, both, steps, instant):
    """Tell when what has started or was taken back did so: at the instant, or a second later."""
    for name in sorted({step.gang for step in steps}):
        at, expected = instant + pick.randrange(2), pick.choice([None, 4])
        if both.kept.is_running(name):
            both.note_start(name, at, expected, pick.choice([None, at + 1]))
        else:
            both.note_wait(name, at, expected)


def test_a_gang_with_running_tasks_may_arrive_and_a_releasing_one_may_end():
    both = BothWays(facts([queue("q", 4)], [gang("waits", "q", gpus=2)], {"n": 4}))
    both.arrive(gang("runs", "q", gpus=2, on="n"))
    both.arrive(gang("below", "q", gpus=1, count=2, on=["n", None], at=-1, tree=GangTree(2)))
    both.run()
    leaving = gang("leaving", "q", gpus=4, on="m")
    both.change(nodes=(NodeFacts("m", {GPU: 4}), NodeFacts("n", {GPU: 4})))
    both.arrive(replace(leaving, tasks=(replace(leaving.tasks[0], state=TaskState.RELEASING),)))
    both.run()
    both.end("leaving")
    assert both.run()


RESERVE_AFTER = PolicyFacts(reserve_after=10)


def reserved_behind(runs):
    """A queue in which `large` has waited for 40 seconds behind the gang `runs`, and `small` of 45 seconds comes."""
    waits = replace(gang("large", "q", gpus=4), waiting_since=10, time_limit=1000)
    both = BothWays(facts([queue("q", 4)], [waits], {"n": 4}, policy=RESERVE_AFTER))
    both.arrive(runs)
    both.arrive(replace(gang("small", "q", gpus=1, at=9), waiting_since=49, time_limit=45))
    return both


def test_what_has_run_for_a_while_when_it_arrives_ends_in_time():
    """Between 90, when `runs` ends, and 140, as if it had started now, `small` would end."""
    runs = replace(gang("runs", "q", gpus=2, on="n"), started=0, time_limit=90)
    both = reserved_behind(runs)
    assert not both.run(50)


def test_what_has_run_longest_is_lost_last_when_it_arrives():
    policy = PolicyFacts(victims=VictimRule.LEAST_LOST)
    old, young = (
        replace(gang(name, "b", gpus=2, on="n"), started=started) for name, started in (("old", 0), ("young", 40))
    )
    both = BothWays(facts([queue("a", 4), queue("b", 0)], [young], {"n": 4}, policy=policy))
    both.arrive(old)
    both.arrive(gang("claims", "a", 100, gpus=2, at=10))
    assert [step.gang for step in both.run(50) if step.action is StepAction.RECLAIM] == ["young"]


def test_a_start_that_is_noted_later_stays_when_the_state_is_built_anew():
    """What is noted of a gang that the last run did not change."""
    both = BothWays(facts([queue("q", 4)], [], {"n": 4}, policy=RESERVE_AFTER))
    both.arrive(replace(gang("runs", "q", gpus=2, on="n"), started=0, time_limit=90))
    both.run(10)
    both.note_start("runs", 1, 60)
    assert by_name(both.kept.facts()) == by_name(both.facts)
    both.change()
    both.run(20)
    assert both.kept.facts().gangs[0].started == 1


def test_a_name_arrives_once():
    kept = KeptState(facts([queue("q", 4)], [gang("one", "q")], {"n": 4}))
    with pytest.raises(ValueError, match="'one' is in the cluster already"):
        kept.arrived(gang("one", "q"))


def test_signatures_do_not_pile_up(monkeypatch):
    monkeypatch.setattr("scheduling.domain.engine.kept_state.MAX_NEW_SIGNATURES", 4)
    both = BothWays(facts([queue("q", 4)], [], {"n": 4}))
    for n in range(20):
        both.arrive(gang(f"g{n}", "q", gpus=1 + n % 4, count=1 + n % 5))
        both.run()
        both.end(f"g{n}")
    assert both.kept.world.signatures <= 6
