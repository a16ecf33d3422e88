"""The part of an answer about nodes that are gone or smaller: what is lost at once, whose quota no longer holds, what
starts again, and how long queues get (docs/bad-day.md)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NotRequired, TypedDict

from pools.domain.quota.tree import children_first_order
from pools.domain.shortage.degraded import Promise, hold_promises
from pools.domain.values.amounts import (
    DEFAULT_FLAVOR,
    GPU,
    Amount,
    JsonAmount,
    Number,
    amount_text,
    amounts_text,
    as_json,
    flavor_of,
    gpus_in,
    is_gpu,
    sum_amounts,
    words_of_any,
)
from scheduling.domain.cluster.naming import PLATFORM
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskState
from scheduling.domain.engine.outcome import GangResult, gang_result, queue_positions
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.build import resource_keys
from scheduling.domain.engine.state.records import GangState
from scheduling.domain.engine.state_facts import task_state
from scheduling.scenario.parse import NodeLoss, Scenario


class GpusInWords(TypedDict):
    """`gpus_text`: the GPUs with their flavors, which may count parts of GPUs; left out without flavors."""

    gpus_text: NotRequired[str]


class ResizedNodeAnswer(GpusInWords):
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


class LostWorkAnswer(GpusInWords):
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


class DisplacedWorkAnswer(GpusInWords):
    """Work on other nodes that would run without the loss and does not with it."""

    workload: str
    queue: str
    gpus: JsonAmount
    state: str


class GuaranteeAnswer(TypedDict):
    """A pool that cannot have its whole quota any more: GPUs of it that it could have before and can have now; of a
    named flavor with its name, and `shared` where that counts parts of GPUs."""

    queue: str
    quota: JsonAmount
    held_before: JsonAmount
    held: JsonAmount
    missing: JsonAmount
    flavor: NotRequired[str]
    shared: NotRequired[bool]


class QueueLengthAnswer(GpusInWords):
    """The work that waits in a queue without and with the loss."""

    queue: str
    gangs_before: int
    gangs: int
    gpus_before: JsonAmount
    gpus: JsonAmount


class NodeLossAnswer(GpusInWords):
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
        **_gpus(sum_amounts(node.resources for node in loss.lost.values()), scenario.facts),
        "resized": [
            _resized(scenario.facts, node, gpus_in(was.resources))
            for node, was in sorted(loss.resized.items())
            if node not in loss.lost
        ],
        "workloads": _lost_work(loss, scenario.facts, after),
        "displaced": _displaced(loss, scenario.facts, before, after),
        "guarantees": broken_guarantees(loss, scenario.facts),
        "queues": _queue_lengths(before.world, after.world, scenario.facts),
    }


def broken_guarantees(loss: NodeLoss, facts: ClusterFacts) -> list[GuaranteeAnswer]:
    """The queues at the top that have less of their quota than without the loss, by flavor, most missing GPUs first."""
    keys = [key for key in resource_keys(loss.baseline) if is_gpu(key)]
    found = [(key, each) for key in keys for each in _broken_of(key, loss, facts)]
    found.sort(key=lambda each: (-(int(each[1]["held_before"]) - int(each[1]["held"])), each[1]["queue"], each[0]))
    for key, each in found:
        if key != GPU:
            each["flavor"] = flavor_of(key)
        if flavor_of(key) in facts.parts:
            each["shared"] = True
    return [each for _, each in found]


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


class _Gpus(GpusInWords):
    gpus: JsonAmount


def _gpus(amounts: Mapping[str, Number], facts: ClusterFacts) -> _Gpus:
    """The GPUs of these amounts, with the words for those of flavors."""
    found: _Gpus = {"gpus": as_json(gpus_in(amounts))}
    of_gpus = {key: amount for key, amount in amounts.items() if is_gpu(key) and amount}
    if of_gpus.keys() - {GPU}:
        found["gpus_text"] = amounts_text(of_gpus, facts.parts)
    return found


def _held(gang: GangFacts) -> Mapping[str, Number]:
    return sum_amounts(task.request for task in gang.tasks if task.state in _RUNNING)


_RUNNING = frozenset({TaskState.RUNNING})


def _resized(facts: ClusterFacts, name: str, before: Number) -> ResizedNodeAnswer:
    node = next(each for each in facts.nodes or () if each.name == name)
    held = sum(
        gpus_in(task.request)
        for gang in facts.gangs
        for task in gang.tasks
        if task.node == name and task.state in {TaskState.RUNNING, TaskState.RELEASING}
    )
    return {
        "node": name,
        "gpus_before": as_json(before),
        **_gpus(node.resources, facts),
        "held": as_json(held),
        "free": as_json(max(0, gpus_in(node.resources) - held)),
    }


def _lost_work(loss: NodeLoss, facts: ClusterFacts, after: CycleResult) -> list[LostWorkAnswer]:
    world = after.world
    positions = queue_positions(world)
    left = {gang.name: gang for gang in facts.gangs}
    found: list[LostWorkAnswer] = []
    for name, was in loss.gangs.items():
        gang = left[name]
        kept = _held(gang)
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
                **_gpus({key: amount - kept.get(key, 0) for key, amount in _held(was).items()}, facts),
                "preemptible": was.preemptible,
                "whole": not gpus_in(kept) and not any(t.state in _RUNNING for t in gang.tasks),
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


def _displaced(
    loss: NodeLoss, facts: ClusterFacts, before: CycleResult, after: CycleResult
) -> list[DisplacedWorkAnswer]:
    found: list[DisplacedWorkAnswer] = []
    for name, gang in before.world.gang_of.items():
        if name in loss.gangs or gang_result(gang) is not GangResult.RUNNING:
            continue
        result = gang_result(after.world.gang_of[name])
        if result in _WAITS:
            gpus = _gpus(sum_amounts(_requests(before.world, gang, TaskState.RUNNING)), facts)
            found.append({"workload": name, "queue": gang.fact.queue, **gpus, "state": result.value})
    return sorted(found, key=lambda each: (-float(each["gpus"]), each["workload"]))


def _requests(world: World, gang: GangState, state: TaskState) -> Iterator[Mapping[str, Number]]:
    """The requests of the tasks of a gang that are in this state after the cycle."""
    tasks = enumerate(gang.fact.tasks)
    return (task.request for i, task in tasks if task_state(world, gang, i)[0] is state)


def _queue_lengths(before: World, after: World, facts: ClusterFacts) -> list[QueueLengthAnswer]:
    was, now = _waiting(before), _waiting(after)

    def in_words(queue: str) -> GpusInWords:
        flavors = now[2][queue]
        words, gpus = words_of_any(flavors, facts.parts, is_named=True), now[1][queue]
        return {"gpus_text": f"{amount_text(gpus)} {words[gpus != 1]}"} if flavors - {DEFAULT_FLAVOR} else {}

    found: list[QueueLengthAnswer] = [
        {
            "queue": queue,
            "gangs_before": was[0][queue],
            "gangs": now[0][queue],
            "gpus_before": as_json(was[1][queue]),
            "gpus": as_json(now[1][queue]),
            **in_words(queue),
        }
        for queue in sorted({*was[0], *now[0]})
        if (was[0][queue], was[1][queue]) != (now[0][queue], now[1][queue])
    ]
    return found


def _waiting(world: World) -> tuple[Counter[str], defaultdict[str, Number], defaultdict[str, set[str]]]:
    """By queue: the gangs that wait, the GPUs of their tasks that wait, and the flavors that these may have."""
    gangs: Counter[str] = Counter()
    gpus: defaultdict[str, Number] = defaultdict(int)
    flavors: defaultdict[str, set[str]] = defaultdict(set)
    for gang in world.gangs:
        if gang_result(gang) in _WAITS:
            gangs[gang.fact.queue] += 1
            gpus[gang.fact.queue] += sum(map(gpus_in, _requests(world, gang, TaskState.PENDING)))
            for tasks in gang.fact.choices:
                keys = {key for task in tasks for key, amount in task.request.items() if is_gpu(key) and amount}
                flavors[gang.fact.queue].update(map(flavor_of, keys))
    return gangs, gpus, flavors
