"""The part of an answer about nodes that are gone or smaller: what is lost at once, whose quota no longer holds, what
starts again, and how long queues get (docs/bad-day.md)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NotRequired, TypedDict

from pools.domain.quota.tree import children_first_order
from pools.domain.shortage.degraded import Promise, hold_promises
from pools.domain.values.amounts import GPU, Amount, JsonAmount, Number, as_json, flavor_of, gpus_in, is_gpu
from scheduling.domain.cluster.naming import PLATFORM
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, NodeFacts, TaskState
from scheduling.domain.engine.outcome import GangResult, gang_result, queue_positions
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.build import resource_keys
from scheduling.domain.engine.state.records import GangState
from scheduling.domain.engine.state_facts import task_state
from scheduling.scenario.parse import NodeLoss, Scenario


class ResizedNodeAnswer(TypedDict):
    """A node of another size: GPUs before and after, those that its work holds, and those that are free for work."""

    node: str
    gpus_before: JsonAmount
    gpus: JsonAmount
    held: JsonAmount
    free: JsonAmount


class StartAgainAnswer(TypedDict):
    """The forecast of work that waits again: a sentence, and the times by which it starts with that probability."""

    text: str
    p10: str | None
    p50: str | None
    p90: str | None


class LostWorkAnswer(TypedDict):
    """Work that loses GPUs at once. `whole`: it loses all that it has, because the rest is below its minimum.
    `restarts`: it waits again, or has ended for good. `state` and `nodes` are those after the next cycle; while it
    waits, its position, its certain or probable latest start in seconds where a reservation makes it known, and of
    live work the forecast of its start."""

    workload: str
    queue: str
    gpus: JsonAmount
    preemptible: bool
    whole: bool
    restarts: bool
    state: str
    nodes: list[str]
    position: int | None
    latest_start: JsonAmount | None
    start: StartAgainAnswer | None


class DisplacedWorkAnswer(TypedDict):
    """Work on other nodes that would run without the loss and does not with it."""

    workload: str
    queue: str
    gpus: JsonAmount
    state: str


class GuaranteeAnswer(TypedDict):
    """A pool that cannot have its whole quota any more: GPUs of it that it could have before and can have now; of a
    named flavor with its name."""

    queue: str
    quota: JsonAmount
    held_before: JsonAmount
    held: JsonAmount
    missing: JsonAmount
    flavor: NotRequired[str]


class QueueLengthAnswer(TypedDict):
    """The work that waits in a queue without and with the loss."""

    queue: str
    gangs_before: int
    gangs: int
    gpus_before: JsonAmount
    gpus: JsonAmount


class NodeLossAnswer(TypedDict):
    """What the changes of nodes do. `gpus` are those of the nodes that are gone."""

    nodes: list[str]
    gpus: JsonAmount
    resized: list[ResizedNodeAnswer]
    workloads: list[LostWorkAnswer]
    displaced: list[DisplacedWorkAnswer]
    guarantees: list[GuaranteeAnswer]
    queues: list[QueueLengthAnswer]


def describe_loss(scenario: Scenario, loss: NodeLoss, before: CycleResult, after: CycleResult) -> NodeLossAnswer:
    """What the loss does, from the results of the cycle without it and with it."""
    return {
        "nodes": sorted(loss.lost),
        "gpus": as_json(_gpus_of(loss.lost.values())),
        "resized": [
            _resized(scenario.facts, node, _gpus_of([was]))
            for node, was in sorted(loss.resized.items())
            if node not in loss.lost
        ],
        "workloads": _lost_work(loss, scenario.facts, after),
        "displaced": _displaced(loss, before, after),
        "guarantees": broken_guarantees(loss, scenario.facts),
        "queues": _queue_lengths(before.world, after.world),
    }


def broken_guarantees(loss: NodeLoss, facts: ClusterFacts) -> list[GuaranteeAnswer]:
    """The queues at the top that have less of their quota than without the loss, by flavor, most missing GPUs first."""
    keys = [key for key in resource_keys(loss.baseline) if is_gpu(key)]
    found = [(key, each) for key in keys for each in _broken_of(key, loss, facts)]
    found.sort(key=lambda each: (-(int(each[1]["held_before"]) - int(each[1]["held"])), each[1]["queue"], each[0]))
    return [each if key == GPU else {**each, "flavor": flavor_of(key)} for key, each in found]


def _broken_of(key: str, loss: NodeLoss, facts: ClusterFacts) -> Iterator[GuaranteeAnswer]:
    promises = [replace(each, platforms=loss.platforms.get(each.pool)) for each in _promises(loss.baseline, key)]
    by_platform = bool(loss.platforms)
    before = hold_promises(promises, _capacity(loss.baseline, key, by_platform=by_platform), loss.degraded)
    after = hold_promises(promises, _capacity(facts, key, by_platform=by_platform), loss.degraded)
    for now, was in zip(after, before, strict=True):
        if now.held < was.held:
            yield {
                "queue": now.pool, "quota": now.quota, "held_before": was.held, "held": now.held, "missing": now.missing
            }  # fmt: skip


def _promises(facts: ClusterFacts, key: str) -> list[Promise]:
    """The finite quotas of the queues that no other queue contains, in whole GPUs of a flavor."""
    index = {queue.name: n for n, queue in enumerate(facts.queues)}
    parents = [-1 if queue.parent is None else index.get(queue.parent, -1) for queue in facts.queues]
    below: list[Amount] = [0] * len(parents)
    quotas: list[Amount] = [0] * len(parents)
    for n in children_first_order(parents)[0]:
        own = facts.queues[n].quota
        quotas[n] = below[n] if own is None else own.get(key, 0)
        if parents[n] >= 0:
            below[parents[n]] += quotas[n]
    return [
        Promise(queue.name, math.floor(quotas[n]), float(queue.weight))
        for n, queue in enumerate(facts.queues)
        if parents[n] < 0 and not queue.is_external and quotas[n] < math.inf
    ]


def _capacity(facts: ClusterFacts, key: str, *, by_platform: bool) -> int | Mapping[str, int]:
    if by_platform:
        found: Counter[str] = Counter()
        for node in facts.nodes or ():
            found[node.labels.get(PLATFORM, "")] += math.floor(node.resources.get(key, 0))
        return found
    given = (facts.capacity or {}).get(key)
    on_nodes = sum(node.resources.get(key, 0) for node in facts.nodes or ())
    return math.floor(on_nodes if given is None or given == math.inf else given)


def _gpus_of(nodes: Iterable[NodeFacts]) -> Number:
    return sum(gpus_in(node.resources) for node in nodes)


def _gang_gpus(gang: GangFacts, states: frozenset[TaskState]) -> Number:
    return sum(gpus_in(task.request) for task in gang.tasks if task.state in states)


_RUNNING = frozenset({TaskState.RUNNING})


def _resized(facts: ClusterFacts, name: str, before: Number) -> ResizedNodeAnswer:
    node = next(each for each in facts.nodes or () if each.name == name)
    held = sum(
        gpus_in(task.request)
        for gang in facts.gangs
        for task in gang.tasks
        if task.node == name and task.state in {TaskState.RUNNING, TaskState.RELEASING}
    )
    gpus = gpus_in(node.resources)
    return {
        "node": name,
        "gpus_before": as_json(before),
        "gpus": as_json(gpus),
        "held": as_json(held),
        "free": as_json(max(0, gpus - held)),
    }


def _lost_work(loss: NodeLoss, facts: ClusterFacts, after: CycleResult) -> list[LostWorkAnswer]:
    world = after.world
    positions = queue_positions(world)
    left = {gang.name: gang for gang in facts.gangs}
    found: list[LostWorkAnswer] = []
    for name, was in loss.gangs.items():
        held = _gang_gpus(was, _RUNNING)
        gang = left[name]
        state = world.gang_of[name]
        result = gang_result(state)
        nodes = {task_state(world, state, i)[1] for i in range(len(gang.tasks))} - {None}
        has_ended = result is GangResult.FINISHED
        latest = None if world.policy is None else world.policy.latest_start(name)
        place = positions.get(name)
        found.append(
            {
                "workload": name,
                "queue": was.queue,
                "gpus": as_json(held - _gang_gpus(gang, _RUNNING)),
                "preemptible": was.preemptible,
                "whole": not _gang_gpus(gang, _RUNNING) and not any(t.state in _RUNNING for t in gang.tasks),
                "restarts": not has_ended,
                "state": result.value,
                "nodes": sorted(node for node in nodes if node is not None),
                "position": place.overall if place is not None and result in _WAITS else None,
                "latest_start": None if latest is None or latest.time is None else as_json(latest.time),
                "start": None,
            }
        )
    return sorted(found, key=lambda each: (each["preemptible"], -float(each["gpus"]), each["workload"]))


_WAITS = frozenset({GangResult.PENDING, GangResult.PREEMPTED})


def _displaced(loss: NodeLoss, before: CycleResult, after: CycleResult) -> list[DisplacedWorkAnswer]:
    found: list[DisplacedWorkAnswer] = []
    for name, gang in before.world.gang_of.items():
        if name in loss.gangs or gang_result(gang) is not GangResult.RUNNING:
            continue
        result = gang_result(after.world.gang_of[name])
        if result in _WAITS:
            gpus = as_json(_gpus_in(before.world, gang, TaskState.RUNNING))
            found.append({"workload": name, "queue": gang.fact.queue, "gpus": gpus, "state": result.value})
    return sorted(found, key=lambda each: (-float(each["gpus"]), each["workload"]))


def _gpus_in(world: World, gang: GangState, state: TaskState) -> Number:
    """The GPUs of the tasks of a gang that are in this state after the cycle."""
    tasks = enumerate(gang.fact.tasks)
    return sum(gpus_in(task.request) for i, task in tasks if task_state(world, gang, i)[0] is state)


def _queue_lengths(before: World, after: World) -> list[QueueLengthAnswer]:
    was, now = _waiting(before), _waiting(after)
    found: list[QueueLengthAnswer] = [
        {
            "queue": queue,
            "gangs_before": was[0][queue],
            "gangs": now[0][queue],
            "gpus_before": as_json(was[1][queue]),
            "gpus": as_json(now[1][queue]),
        }
        for queue in sorted({*was[0], *now[0]})
        if (was[0][queue], was[1][queue]) != (now[0][queue], now[1][queue])
    ]
    return found


def _waiting(world: World) -> tuple[Counter[str], defaultdict[str, Number]]:
    """By queue: the gangs that wait, and the GPUs of their tasks that wait."""
    gangs: Counter[str] = Counter()
    gpus: defaultdict[str, Number] = defaultdict(int)
    for gang in world.gangs:
        if gang_result(gang) in _WAITS:
            gangs[gang.fact.queue] += 1
            gpus[gang.fact.queue] += _gpus_in(world, gang, TaskState.PENDING)
    return gangs, gpus
