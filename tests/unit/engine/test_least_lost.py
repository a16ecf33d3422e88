"""The smallest sufficient victims: `victims: least_lost` of a policy."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from pools.domain.configuration.backend_config import VictimRule
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import NORMAL, PolicyFacts, StartReservationFacts
from scheduling.domain.engine.steps import LEAST_LOST_TEXT, StepAction
from scheduling.domain.gang import GangTree
from tests.unit.engine.sample_clusters import GPU, cohort, facts, gang, queue, running_gangs, step_pairs

LEAST_LOST = PolicyFacts(now=1000, victims=VictimRule.LEAST_LOST)


def lost_of(start, policy=LEAST_LOST):
    """The gangs that lose work in one cycle, in the order of the steps."""
    after = run_cycle(replace(start, policy=policy))
    return [name for action, name in step_pairs(after) if action in {"preempt", "reclaim"}]


@pytest.mark.parametrize(
    ("policy", "younger", "lost"),
    [
        (LEAST_LOST, "a2", "a1"),
        (LEAST_LOST, "a1", "a1"),
        (PolicyFacts(now=1000), "a2", "a2"),
        (PolicyFacts(now=1000), "a1", "a1"),
        (None, "a2", "a2"),
    ],
)
def test_a_request_of_one_gpu_takes_no_victim_of_two_while_one_would_do(policy, younger, lost):
    """Two nodes of two GPUs. The queue `a` has one GPU more than its quota, and `b` asks for one."""
    work = [
        gang("a1", "a", gpus=1, on="n1", at=1 + (younger == "a1")),
        gang("a2", "a", gpus=2, on="n2", at=1 + (younger == "a2")),
        gang("b1", "b", gpus=1, on="n1"),
        gang("b2", "b", gpus=1, at=9),
    ]
    start = facts([queue("a", 2), queue("b", 2)], work, {"n1": 2, "n2": 2})
    assert lost_of(start, policy) == [lost]


NOW = 1000


def small_cluster(seed):
    """A full cluster with one gang that waits, and the work that may be evicted for it. `a` is its queue or one that
    has borrowed, by the seed; `free`: the nodes have room, and only quota is missing."""
    pick = random.Random(seed)
    is_reclaim, is_free = seed % 3 > 0, seed % 3 == 2
    free = {f"n{i}": pick.choice([2, 4, 8]) for i in range(pick.randint(1, 3))}
    nodes, work = dict(free), []
    for i in range(pick.randint(2, 6)):
        gpus, count = pick.choice([(1, 1), (2, 1), (1, 2), (4, 1), (1, 3)])
        on = [pick.choice(places) for _ in range(count) if (places := [n for n, have in free.items() if have >= gpus])]
        for n in on:
            free[n] -= gpus
        if len(on) == count and min(free.values()) >= 0:
            tree = GangTree(pick.randint(1, count)) if pick.random() < 0.4 else None
            at = i + pick.choice([0, 10]) * gpus * count
            fact = gang(f"v{i}", "a", pick.choice([40, 50, 50]), gpus=gpus, count=count, on=on, at=at, tree=tree)
            work.append(replace(fact, started=pick.choice([None, 100, 400, 400, 900])))
        else:
            for n in on:
                free[n] += gpus
    held = sum(len(each.tasks) * each.tasks[0].request[GPU] for each in work)
    gpus, count = pick.choice([(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2)])
    new = gang("new", "b" if is_reclaim else "a", NORMAL, gpus=gpus, count=count, at=99)
    if pick.random() < 0.3:
        tasks = tuple(replace(task, request={GPU: n + 1}) for n, task in enumerate(new.tasks))
        new = replace(new, tasks=tasks)
    quota = pick.randint(0, held) if is_reclaim else 99
    if is_free:
        nodes["more"] = 8
        queues = [queue("a", quota, "c"), queue("b", held - quota, "c")]
        return facts(queues, [*work, new], nodes, cohorts=(cohort("c"),)), work, new, quota
    filler = gang("filler", "f", NORMAL, gpus=1, count=sum(free.values()), on=[n for n in free for _ in range(free[n])])
    queues = [queue("a", quota), queue("b", 99), queue("f", 99)]
    if pick.random() < 0.5:
        queues = [queue("p", None), queue("a", quota, "p"), queue("b", 99, "p"), queue("f", 99)]
    return facts(queues, [*work, *([filler] if filler.tasks else []), new], nodes), work, new, quota


def units_of(fact, count):
    """The number of running tasks, of this number, that the gang gives up first."""
    minimum = fact.tree.thresholds[0] if fact.tree is not None else len(fact.tasks)
    return 1 if count > minimum else count


def served_last(fact, count):
    """The sort key of the victims, the last one first."""
    minimum = fact.tree.thresholds[0] if fact.tree is not None else len(fact.tasks)
    return -fact.priority, (count > minimum) + (count >= minimum), fact.submitted, fact.name


class Choice:
    """The sets of victims of one small cluster: for each gang, how many tasks it keeps."""

    def __init__(self, seed):
        self.start, self.work, self.new, self.quota = small_cluster(seed)
        self.by_name = {fact.name: fact for fact in self.work}
        order = sorted(self.work, key=lambda fact: served_last(fact, len(fact.tasks)), reverse=True)
        self.positions = {fact.name: n for n, fact in enumerate(order)}
        self.is_reclaim = self.new.queue == "b"

    def gpus(self, name, count):
        return self.by_name[name].tasks[0].request[GPU] * count

    def is_enough(self, kept):
        gangs = [
            replace(fact, tasks=tasks, tree=None)
            for fact in self.start.gangs
            if (tasks := fact.tasks[: kept.get(fact.name, len(fact.tasks))])
        ]
        steps = step_pairs(run_cycle(replace(self.start, gangs=tuple(gangs))))
        return steps[:1] == [("start", "new")]

    def may_take(self, kept):
        return not self.is_reclaim or sum(self.gpus(name, count) for name, count in kept.items()) > self.quota

    def loss(self, kept):
        """As the module defines it."""
        lost = [(self.by_name[n], self.gpus(n, len(self.by_name[n].tasks) - count)) for n, count in kept.items()]
        lost = [(fact, gpus) for fact, gpus in lost if gpus]
        seconds = sum(gpus * (0 if fact.started is None else NOW - fact.started) for fact, gpus in lost)
        high = sum(gpus for fact, gpus in lost if fact.priority == 50)
        return sum(g for _f, g in lost), high, seconds, len(lost), sorted(self.positions[f.name] for f, _g in lost)

    def whole(self):
        return {fact.name: len(fact.tasks) for fact in self.work}

    def in_order(self):
        """The victims in order that are needed; None if nothing is enough."""
        kept, units = self.whole(), []
        while not self.is_enough(kept):
            left = [self.by_name[name] for name, count in kept.items() if count]
            if not left or not self.may_take(kept):
                return None
            fact = max(left, key=lambda fact: served_last(fact, kept[fact.name]))
            units.append((fact.name, units_of(fact, kept[fact.name])))
            kept[fact.name] -= units[-1][1]
        needed = set(units[-1:])
        for name, count in reversed(units[:-1]):
            is_last = name not in {other for other, _count in needed}
            if is_last and self.is_enough({**kept, name: kept[name] + count}):
                kept[name] += count
                continue
            needed.add((name, count))
        return kept

    def best(self):
        """The least loss of all allowed sets, tried one by one."""
        bound = self.in_order()
        if bound is None:
            return None
        most, high = self.loss(bound)[:2]
        highest = max(
            self.by_name[name].priority for name, count in bound.items() if count < len(self.by_name[name].tasks)
        )
        choices = []
        for fact in self.work:
            counts = [len(fact.tasks)]
            while counts[-1] and fact.priority <= highest:
                counts.append(counts[-1] - units_of(fact, counts[-1]))
            choices.append([(fact.name, count) for count in counts])
        for kept in sorted((dict(each) for each in product(*choices)), key=self.loss):
            total, above = self.loss(kept)[:2]
            if total <= most and above <= high and self.is_allowed(kept) and self.is_enough(kept):
                return self.loss(kept)
        raise AssertionError("the victims in order are a set")

    def is_allowed(self, kept):
        """Whether its units may be taken one after the other in the usual order."""
        now = self.whole()
        for name in sorted(kept, key=self.positions.get):
            while now[name] > kept[name]:
                if not self.may_take(now):
                    return False
                now[name] -= units_of(self.by_name[name], now[name])
        return True

    def found(self, policy):
        """The loss of the engine, whether it moves gangs, and whether the gang starts."""
        cycle = run_cycle(replace(self.start, policy=policy))
        kept = self.whole()
        steps = [step for step in cycle.steps if step.beneficiary == "new"]
        for step in steps:
            if step.action in {StepAction.PREEMPT, StepAction.RECLAIM}:
                kept[step.gang] -= len(step.tasks)
        moves = any(step.action is StepAction.MOVE for step in steps)
        return self.loss(kept), moves, "new" in running_gangs(cycle)


def test_the_set_is_the_best_of_all_and_the_gang_starts_as_before():
    """The set of the rule *youngest* counts too: it may have one gang in place of several in order."""
    compared = smaller = 0
    for seed in range(120):
        choice = Choice(seed)
        before, _moves, started = choice.found(PolicyFacts(now=NOW))
        loss, moves, starts = choice.found(LEAST_LOST)
        assert (starts, choice.found(None)[0]) == (started, before), seed
        assert loss <= before, seed
        best = choice.best() if started and before[0] else None
        if best is not None and not moves:
            assert loss == min(best, before), seed
            compared += 1
            smaller += loss[0] < before[0]
    assert compared > 50
    assert smaller > 10


def started(fact, at):
    return replace(fact, started=at)


def test_the_work_that_has_run_shortest_goes_where_the_gpus_are_equal():
    work = [
        started(gang(name, "q", on="n", at=n), at) for n, (name, at) in enumerate([("a", 500), ("b", 900), ("c", 1)])
    ]
    start = facts([queue("q", 9)], [*work, gang("new", "q", NORMAL)], {"n": 3})
    assert (lost_of(start), lost_of(start, PolicyFacts(now=NOW))) == (["b"], ["c"])
    unknown = replace(start, gangs=(*start.gangs[:2], started(work[2], None), start.gangs[3]))
    assert lost_of(unknown) == ["c"], "of a start that is not known nothing is lost"


def test_no_work_of_a_higher_priority_goes_in_place_of_lower_work():
    work = [gang("low", "q", 40, gpus=2, on="n"), gang("middle", "q", 50, on="n", at=5)]
    assert lost_of(facts([queue("q", 9)], [*work, gang("new", "q", NORMAL)], {"n": 3})) == ["low"]


def test_no_queue_loses_more_than_in_order():
    """Work of `y` alone would lose three GPUs in place of five, but `x` comes first."""
    x1 = gang("x1", "x", count=3, on=["n", "m1", "m2"])
    ys = [gang(name, "y", gpus=gpus, on="n", at=at) for name, gpus, at in [("y1", 2, 9), ("y2", 1, 2), ("y3", 2, 1)]]
    start = facts(
        [queue("x"), queue("y", 3), queue("b", 8)], [x1, *ys, gang("new", "b", gpus=3)], {"n": 6, "m1": 1, "m2": 1}
    )
    assert lost_of(start) == lost_of(start, None) == ["x1", "y1"]


def test_a_queue_at_its_quota_loses_nothing_more():
    """`a` has borrowed one GPU: after one gang of one GPU it keeps the rest."""
    small = [started(gang(name, "a", on="n"), 900) for name in ("a1", "a2")]
    large = started(gang("a3", "a", gpus=2, on="n", at=9), 100)
    work = [*small, large, gang("new", "b", gpus=2)]
    assert lost_of(facts([queue("a", 3), queue("b", 4)], work, {"n": 4})) == ["a3"]
    assert lost_of(facts([queue("a", 2), queue("b", 4)], work, {"n": 4})) == ["a2", "a1"]


@pytest.mark.parametrize(("every", "lost"), [(None, "late"), (70, "early"), (1000, "late")])
def test_only_the_time_since_the_last_checkpoint_counts(every, lost):
    """`early` has run for 700 s, and with `every` 70 it saved its state just now; `late` has run for 100 s."""
    early = replace(started(gang("early", "q", on="n", at=1), 300), checkpoint_every=every)
    late = started(gang("late", "q", on="n", at=2), 900)
    start = facts([queue("q", 2)], [early, late, gang("new", "q", NORMAL, at=9)], {"n": 2})
    assert lost_of(start) == [lost]


@pytest.mark.parametrize(("moved", "lost"), [(None, "late"), (950, "early"), (200, "late")])
def test_only_the_time_since_the_last_move_counts(moved, lost):
    """`early` has run for 700 s, and for 50 s since it moved at 950; `late` has run for 100 s. A move before the start
    was one of an earlier attempt."""
    early = replace(started(gang("early", "q", on="n", at=1), 300), moved=moved)
    late = started(gang("late", "q", on="n", at=2), 900)
    start = facts([queue("q", 2)], [early, late, gang("new", "q", NORMAL, at=9)], {"n": 2})
    assert lost_of(start) == [lost]


def test_in_a_large_queue_the_one_small_gang_goes():
    work = [gang(f"l{i:03}", "q", gpus=2, on=f"n{i:03}", at=i + 1) for i in range(400)]
    small = gang("small", "q", on="n400")
    nodes = {f"n{i:03}": 2 for i in range(400)} | {"n400": 1}
    start = facts([queue("q", 900)], [*work, small, gang("new", "q", NORMAL)], nodes)
    assert (lost_of(start), lost_of(start, None)) == (["small"], ["l399"])


def test_an_elastic_gang_gives_up_its_surplus():
    elastic = gang("elastic", "q", count=3, on="n", tree=GangTree(1))
    start = facts(
        [queue("q", 9)], [gang("two", "q", gpus=2, on="n", at=9), elastic, gang("new", "q", NORMAL)], {"n": 5}
    )
    after = run_cycle(replace(start, policy=LEAST_LOST))
    (lost,) = [step for step in after.steps if step.action is StepAction.PREEMPT]
    assert (lost.gang, lost.tasks) == ("elastic", ("elastic-2",))
    assert lost.message.endswith(f" {LEAST_LOST_TEXT}")


@pytest.mark.parametrize(("rule", "lost"), [(VictimRule.YOUNGEST, "g2"), (VictimRule.LEAST_LOST, "g1")])
def test_of_guests_on_reserved_nodes_the_smallest_goes(rule, lost):
    held = StartReservationFacts("large", 100, {"n": {GPU: 1}}, 100)
    guests = [started(gang(f"g{gpus}", "other", gpus=gpus, on="n", at=300 + gpus), 200) for gpus in (1, 2)]
    policy = replace(LEAST_LOST, victims=rule, reserve_after=50, reservations=(held,))
    start = facts([queue("q", 8), queue("other", 8)], [*guests, gang("large", "q", NORMAL, at=50)], {"n": 3})
    assert lost_of(start, policy) == [lost]
