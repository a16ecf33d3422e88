"""Sampled futures that are read for work that comes later, and alternatives that share a future."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import uuid4

import pytest

from scheduling.domain.engine.facts import (
    HIGH,
    LOW,
    NORMAL,
    ClusterFacts,
    GangFacts,
    NodeFacts,
    QueueFacts,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.moved_nodes import moved_nodes, nodes_with_work
from scheduling.history.forecast.arrivals import RecentArrivals
from scheduling.history.forecast.futures import NEVER, GangInfo, Present, sample_waits
from scheduling.history.forecast.lines import KeptWaits, is_like, is_within, is_young, read_waits
from scheduling.history.forecast.runtimes import RunTimes, WorkKind
from scheduling.history.starts.forecast_facts import ForecastFacts
from tests.unit.engine.sample_clusters import facts, gang, queue

KEPT = [KeptWaits(20, [300.0, None]), KeptWaits(0, [100.0, 50.0])]


def test_work_waits_like_that_with_as_many_gpus_before_it():
    assert read_waits(KEPT, 0, 4) == [100.0, 50.0]
    assert read_waits(KEPT, 20, 4)[0] == 300.0
    assert read_waits(KEPT, 10, 4)[0] == 200.0


def test_work_behind_all_others_waits_longer_in_proportion():
    assert read_waits(KEPT, 30, 10)[0] == pytest.approx(400.0)


def test_work_behind_a_gang_that_does_not_start_does_not_start():
    assert read_waits(KEPT, 10, 4)[1] == NEVER
    assert read_waits([KeptWaits(8, [None])], 0, 1) == [NEVER]


def test_futures_are_read_while_they_are_young_or_the_wait_is_long():
    assert is_young(400.0, 0.0)
    assert not is_young(401.0, 2000.0)
    assert is_young(401.0, 2006.0)
    assert is_within(132, 100)
    assert not is_within(133, 100)


class TestLikeness:
    WAITING = gang("w", "q", NORMAL, gpus=4, count=2)

    def test_the_same_form_or_a_smaller_one_of_the_size_class(self):
        assert is_like(gang("a", "q", NORMAL, gpus=4, count=2, at=9), self.WAITING)
        assert is_like(gang("a", "q", NORMAL, gpus=3, count=2), self.WAITING)

    @pytest.mark.parametrize(
        "new",
        [
            gang("other queue", "p", NORMAL, gpus=4, count=2),
            gang("may be preempted", "q", LOW, gpus=4, count=2),
            gang("comes before it", "q", HIGH, gpus=4, count=2),
            gang("more GPUs a task", "q", NORMAL, gpus=8),
            gang("a smaller class", "q", NORMAL, gpus=4),
            gang("a larger class", "q", NORMAL, gpus=4, count=3),
        ],
        ids=lambda new: new.name,
    )
    def test_other_work_does_not_wait_like_it(self, new):
        assert not is_like(new, self.WAITING)

    def test_work_that_needs_more_of_another_resource_or_other_nodes_does_not(self):
        new = gang("a", "q", NORMAL, gpus=4, count=2)
        more = tuple(replace(task, request={**task.request, "memory": 1}) for task in new.tasks)
        there = tuple(replace(task, allowed_nodes=frozenset({"n1"})) for task in new.tasks)
        assert not is_like(replace(new, tasks=more), self.WAITING)
        assert not is_like(replace(new, tasks=there), self.WAITING)
        assert is_like(new, replace(self.WAITING, tasks=more))

    def test_work_that_may_use_other_flavors_does_not(self):
        h100, a100 = (
            tuple(replace(task, request={f"{flavor}/gpu": 4}) for task in self.WAITING.tasks)
            for flavor in ("h100", "a100")
        )
        one, other = replace(self.WAITING, tasks=h100), replace(self.WAITING, tasks=a100)
        either = replace(one, alternatives=(a100,))
        assert is_like(either, replace(either, name="b"))
        for new, waiting in ((one, other), (one, either), (either, one)):
            assert not is_like(new, waiting)


def present(*new):
    """One node of 8 GPUs, held by work that has run for 10 s and ends at 60 s by its limit."""
    held = gang("held", "q", NORMAL, gpus=8, on="n1")
    kind = WorkKind("t", 8, limit=60.0)
    infos = {"held": GangInfo(kind, 0.0), **{each.name: GangInfo(kind) for each in new}}
    return Present(10.0, facts([queue("q", 8)], [held, *new], {"n1": 8}), infos, RunTimes(), RecentArrivals())


def test_alternatives_do_not_wait_for_each_other():
    new = [gang(f"a{n}", "q", NORMAL, gpus=8, at=n + 1) for n in range(3)]
    names = {each.name for each in new}
    (apart,) = sample_waits(present(new[0]), {"a0"}, [5])
    (together,) = sample_waits(present(*new), names, [5], leave=True)
    assert together == dict.fromkeys(names, apart["a0"])
    (queued,) = sample_waits(present(*new), names, [5])
    assert queued["a0"] < queued["a1"] < queued["a2"]


def test_work_and_nodes_without_gpus_are_of_no_flavor():
    """A future failed for a node without GPUs, and took cores for GPUs of another flavor."""
    known = present(gang("new", "q", NORMAL, gpus=8, at=1))
    cores = {"default/cpu": 4}
    of_cores = GangFacts("cores", "q", (TaskFacts("t", cores, state=TaskState.RUNNING, node="n1"),), NORMAL)
    nodes = (*known.facts.nodes, NodeFacts("n2", cores))
    found = replace(known, facts=replace(known.facts, nodes=nodes, gangs=(*known.facts.gangs, of_cores)))
    assert moved_nodes(nodes, of_cores.tasks) == {}
    (waits,) = sample_waits(found, {"new"}, [5])
    assert waits["new"] < 60


def test_an_alternative_that_cannot_start_says_so():
    new = [gang("small", "q", NORMAL, gpus=8, at=1), gang("large", "q", NORMAL, gpus=9, at=2)]
    (waits,) = sample_waits(present(*new), {"small", "large"}, [5], leave=True)
    assert waits["small"] < 60 < NEVER == waits["large"]


@pytest.mark.parametrize("is_used", [False, True], ids=["another is free", "another is used"])
def test_work_that_is_held_in_one_flavor_starts_in_another_or_when_the_gang_before_it_has_started(is_used):
    """`first` needs all 8 H100, of which 4 are free, and comes first there; 4 H100 or 8 A100 are enough for `held`."""

    def work(name, gpus, *flavors, on=None, at=0):
        state = TaskState.PENDING if on is None else TaskState.RUNNING
        first, *others = (
            (TaskFacts(name, {f"{flavor}/gpu": gpus}, state=state, node=on),) for flavor in flavors
        )  # fmt: skip
        return GangFacts(name, "q", first, NORMAL, submitted=at, alternatives=tuple(others))

    gangs = [
        work("runs", 4, "h100", on="h"), *([work("stays", 8, "a100", on="a")] if is_used else []),
        work("first", 8, "h100", at=1), work("held", 4, "h100", "a100", at=2),
    ]  # fmt: skip
    infos = {
        "runs": GangInfo(WorkKind("t", 4, limit=60.0), 0.0), "first": GangInfo(WorkKind("t", 8, limit=600.0)),
        "held": GangInfo(WorkKind("t", 4, limit=60.0)),
    }  # fmt: skip
    nodes = tuple(NodeFacts(name, {f"{flavor}/gpu": 8}) for name, flavor in (("h", "h100"), ("a", "a100")))
    cluster = ClusterFacts((QueueFacts("q", quota={"h100/gpu": 16, "a100/gpu": 16}),), gangs=tuple(gangs), nodes=nodes)
    before = Present(
        10.0, cluster, infos, RunTimes(), RecentArrivals(), {"held": {"h100": ("first",)}}
    )  # fmt: skip
    for future in range(5):
        (waits,) = sample_waits(before, {"first", "held"}, [future])
        if is_used:
            assert waits["first"] < waits["held"] < NEVER
        else:
            assert waits["held"] == waits["first"] < 60


@pytest.mark.parametrize(
    ("later", "flavors", "gpus", "grows"),
    [
        ({"a100": 8}, ["a100"], 8, True),
        ({"a100": 8}, ["a100"], 9, False),
        ({"a100": 8}, ["h100"], 8, False),
        ({"a100": 8}, ["h100", "a100"], 8, True),
        ({"a100": 8, "h100": 8}, ["a100"], 16, False),
        ({"a100": 8, "h100": 8}, ["a100", "h100"], 16, False),
        ({"default": 8}, ["default"], 8, True),
        ({}, ["default"], 1, False),
    ],
)
def test_work_has_room_later_in_one_of_its_own_flavors(later, flavors, gpus, grows):
    first, *others = ((TaskFacts("t", {f"{flavor}/gpu": gpus}),) for flavor in flavors)
    new = GangFacts("new", "q", first, NORMAL, alternatives=tuple(others))
    queue = QueueFacts("q", quota={}, later_quota={f"{flavor}/gpu": amount for flavor, amount in later.items()})
    known = Present(0.0, ClusterFacts((queue,), gangs=(new,)), {}, RunTimes(), RecentArrivals())
    seen = ForecastFacts(known, {"new": uuid4()}, datetime.now(UTC), SimpleNamespace(leaves={}), None)
    assert seen.places()["new"].grows is seen.place_of_new([new]).grows is grows
    assert not seen.place_of_new([new, replace(new, name="other")]).grows


@pytest.mark.parametrize("is_taken", [False, True], ids=["it ends", "it is preempted"])
def test_the_gpus_of_a_relabelled_node_have_its_flavor_once_the_work_of_the_flavor_before_is_gone(is_taken):
    """`old` runs on an A100 node and on one that is an H100 node since. `takes` gets quota for the first when `short`
    has ended."""

    def work(name, flavor, priority, *on, at=0, nodes=None):
        state = TaskState.RUNNING if on else TaskState.PENDING
        request = {f"{flavor}/gpu": 8}
        tasks = tuple(TaskFacts(f"{n}", request, state=state, node=node) for n, node in enumerate(on or [None]))
        return GangFacts(name, "q", tuple(replace(t, allowed_nodes=nodes) for t in tasks), priority, priority < 100, at)

    old = work("old", "a100", LOW, "a", "b", nodes=frozenset("a"))
    nodes = nodes_with_work([NodeFacts("a", {"a100/gpu": 8}), NodeFacts("b", {"h100/gpu": 8})], old.tasks)
    nodes += (NodeFacts("c", {"a100/gpu": 8}),)
    takes = [work("short", "a100", HIGH, "c"), work("takes", "a100", HIGH, at=1, nodes=frozenset("a"))]
    new = work("new", "h100", NORMAL, at=2)
    never = work("never", "a100", NORMAL, at=3, nodes=frozenset() if is_taken else frozenset("b"))
    queues = (QueueFacts("q", quota={"a100/gpu": 8 if is_taken else 0, "h100/gpu": 8}),)
    known = ClusterFacts(queues, gangs=(old, *takes, new, never), nodes=nodes)
    infos = {each.name: GangInfo(WorkKind("t", 8, limit=3600.0)) for each in known.gangs}
    infos["old"] = GangInfo(WorkKind("t", 16, limit=3600.0), 0.0)
    infos["short"] = GangInfo(WorkKind("t", 8, limit=60.0), 0.0)
    (waits,) = sample_waits(Present(10.0, known, infos, RunTimes(), RecentArrivals()), {"new", "never"}, [5])
    assert (0 < waits["new"] < 120) if is_taken else (120 < waits["new"] < 3600)
    assert waits["never"] == NEVER


def test_a_gang_without_some_flavors_has_its_other_choices():
    one = gang("one", "q", NORMAL, gpus=8, at=1)
    assert one.without(()) is one
    assert one.without({"default"}) is None
    h100, a100 = ((TaskFacts("t", {f"{flavor}/gpu": 8}),) for flavor in ("h100", "a100"))
    both = replace(one, tasks=a100, alternatives=(h100,), choice=1)
    for gone, left in (("h100", a100), ("a100", h100)):
        found = both.without({gone})
        assert found is not None
        assert (found.tasks, found.alternatives, found.choice) == (left, (), 0)
    assert both.without({"h100", "a100"}) is None
