"""The answer to a scenario, exactly as docs/scenarios.md writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast

from pools.domain.quota.node_numbers import NodeNumbers, node_numbers, weighted_share
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import Amount, JsonAmount, as_json
from scheduling.domain.engine.cycle import CycleResult, run_cycle
from scheduling.domain.engine.outcome import (
    GangResult,
    QueuePosition,
    gang_result,
    queue_positions,
    waiting_reasons,
)
from scheduling.domain.engine.reasons.by_choice import choice_names
from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.engine.rules.reservation import StartPolicy
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import GangState
from scheduling.domain.engine.state_facts import task_state
from scheduling.domain.engine.steps import Step
from scheduling.garbage_collector import garbage_collector
from scheduling.scenario.loss import NodeLossAnswer, describe_loss
from scheduling.scenario.parse import Scenario
from scheduling.scenario.rule_checks import find_rule_violations

Amounts = dict[str, JsonAmount]
"""Amounts by resource."""


class ScenarioViolationAnswer(TypedDict):
    """A rule that the scenario breaks."""

    path: str
    code: str
    message: str


class ScenarioNumbers(TypedDict):
    """The numbers of a node of the tree of quotas (docs/numbers.md)."""

    subtree_quota: Amounts
    usage: Amounts
    t: Amounts
    available: Amounts
    potential_available: Amounts
    borrowed: Amounts
    lent: Amounts
    lendable: Amounts
    debt: Amounts


class ScenarioNodeAnswer(ScenarioNumbers):
    """A cohort."""

    parent: str | None
    weighted_share: int | str
    dominant_resource: str | None


class ScenarioQueueAnswer(ScenarioNodeAnswer):
    """A queue; its fair share is null where neither nodes nor capacity are known."""

    fair_share: Amounts | None


class ScenarioTaskAnswer(TypedDict):
    """Where a task is."""

    state: str
    node: str | None


class ScenarioReasonAnswer(TypedDict):
    """Why a workload waits."""

    code: str
    message: str
    queue: str | None
    limit: str | None
    requested: Amounts
    free: Amounts
    missing: Amounts


class ScenarioReservationAnswer(TypedDict):
    """The start reservation of a workload."""

    since: JsonAmount
    latest_start: JsonAmount | None
    is_certain: bool
    nodes: dict[str, Amounts] | None


class ScenarioWorkloadAnswer(TypedDict):
    """A workload; with a policy also its start reservation. Of work with `any_of`: the names of its choices, the number
    of the one that it has (null: it has none yet), and whether all lines of `unblock` are needed."""

    state: str
    tasks: dict[str, ScenarioTaskAnswer]
    position: int | None
    position_in_queue: int | None
    reason: ScenarioReasonAnswer | None
    unblock: list[str]
    reservation: NotRequired[ScenarioReservationAnswer | None]
    choices: NotRequired[list[str]]
    choice: NotRequired[int | None]
    unblock_needs_all: NotRequired[bool]


ScenarioStepAnswer = TypedDict(
    "ScenarioStepAnswer",
    {
        "pass": int,
        "action": str,
        "workload": str,
        "tasks": list[str],
        "for": str | None,
        "message": str,
        "choice": NotRequired[int],
    },
)


class ScenarioAnswer(TypedDict):
    """The state after the run, and the steps to it; `live` and `backend` are there for the live state, `loss` if nodes
    were changed."""

    live: NotRequired[bool]
    backend: NotRequired[str]
    queues: dict[str, ScenarioQueueAnswer]
    cohorts: dict[str, ScenarioNodeAnswer]
    workloads: dict[str, ScenarioWorkloadAnswer]
    steps: list[ScenarioStepAnswer]
    settled: bool
    violations: list[ScenarioViolationAnswer]
    loss: NotRequired[NodeLossAnswer]


def answer_scenario(scenario: Scenario) -> ScenarioAnswer:
    """Run the scenario and answer the result."""
    with garbage_collector.paused():
        settled = run_cycle(scenario.facts)
        answer = render_answer(scenario, settled)
        if scenario.loss is not None:
            answer["loss"] = describe_loss(scenario, scenario.loss, run_cycle(scenario.loss.baseline), settled)
        return answer


def render_answer(scenario: Scenario, settled: CycleResult) -> ScenarioAnswer:
    """The answer for a scenario that has been run."""
    world = settled.world
    why, where = waiting_reasons(world), queue_positions(world)
    tree = _TreeNumbers(world)
    unblock = {id(reason): list(reason.unblock) for reason in {id(each): each for each in why.values()}.values()}
    debts = {name: tree.debt(name) for name in scenario.paths if name in world.tree.index}
    return {
        "queues": {queue.name: tree.queue(queue.name) for queue in scenario.facts.queues},
        "cohorts": {cohort.name: tree.node(cohort.name) for cohort in scenario.facts.cohorts},
        "workloads": {
            gang.name: _workload(world, world.gang_of[gang.name], where, why, unblock) for gang in scenario.facts.gangs
        },
        "steps": [_step(step, has_choices=bool(world.gang_of[step.gang].choices)) for step in settled.steps],
        "settled": settled.has_converged,
        "violations": [
            {"path": v.path, "code": str(v.code), "message": v.message}
            for v in find_rule_violations(scenario, world, why, debts)
        ],
    }


class _TreeNumbers:
    """The numbers of queues and cohorts after the run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tree: QuotaTree = _with_usage(world)
        self._by_key = {key: node_numbers(self._tree, key) for key in world.keys if key in self._tree.columns}

    def debt(self, name: str) -> dict[str, Amount]:
        """The amounts that a node holds beyond its limits. Without a cohort above, a queue is bound by its `limit`
        alone."""
        queue = self._world.queue_of.get(name)
        if queue is not None and not queue.has_cohort_above:
            over = zip(self._world.keys, queue.alloc, queue.limit, strict=True)
            return {key: held - limit for key, held, limit in over if held > limit}
        return {key: table[name].debt for key, table in self._by_key.items() if table[name].debt > 0}

    def node(self, name: str) -> ScenarioNodeAnswer:
        """One cohort or queue."""
        tables = {key: table[name] for key, table in self._by_key.items()}
        share_of = weighted_share(self._tree, name)
        numbers = {number: _column(tables, number) for number in ScenarioNumbers.__annotations__}
        return {
            "parent": self._tree.nodes[name].parent,
            **cast("ScenarioNumbers", numbers | {"debt": _amounts(self.debt(name))}),
            "weighted_share": share_of.reported_share,
            "dominant_resource": share_of.dominant_resource,
        }

    def queue(self, name: str) -> ScenarioQueueAnswer:
        """One queue, with its fair share."""
        world = self._world
        queue = world.queue_of[name]
        known = world.facts.nodes is not None or world.facts.capacity is not None
        return {
            **self.node(name),
            "fair_share": _amounts(dict(zip(world.keys, queue.fair, strict=True))) if known else None,
        }


def _with_usage(world: World) -> QuotaTree:
    """The tree with the usage of every queue after the run, queues without a cohort included."""
    own: dict[str, dict[str, Any]] = {}
    for queue in world.queues:
        below = [sum(child.alloc[r] for child in queue.children) for r in range(len(world.keys))]
        held = {key: queue.alloc[r] - below[r] for r, key in enumerate(world.keys)}
        own[queue.fact.name] = {key: amount for key, amount in held.items() if amount}
    return QuotaTree(world.tree.nodes.values(), own)


def _column(tables: Mapping[str, NodeNumbers], number: str) -> Amounts:
    return _amounts({key: getattr(table, number) for key, table in tables.items()})


def _amounts(amounts: Mapping[str, Amount]) -> Amounts:
    return {key: as_json(amount) for key, amount in sorted(amounts.items())}


def _workload(
    world: World,
    gang: GangState,
    where: Mapping[str, QueuePosition],
    why: Mapping[str, Reason],
    unblock: Mapping[int, Sequence[str]],
) -> ScenarioWorkloadAnswer:
    tasks: dict[str, ScenarioTaskAnswer] = {}
    for i, task in enumerate(gang.fact.tasks):
        state, node = task_state(world, gang, i)
        tasks[task.name] = {"state": state.value, "node": node}
    name = gang.fact.name
    result = gang_result(gang)
    waits = result in {GangResult.PENDING, GangResult.PREEMPTED}
    place, reason = where.get(name) if waits else None, why.get(name) if waits else None
    answer: ScenarioWorkloadAnswer = {
        "state": result.value,
        "tasks": tasks,
        "position": place.overall if place else None,
        "position_in_queue": place.in_queue if place else None,
        "reason": _reason(reason, place.behind.message() if place else "") if reason else None,
        "unblock": list(unblock[id(reason)]) if reason else [],
    }
    if gang.choices:
        answer["choices"] = list(choice_names(gang))
        answer["choice"] = gang.choice + 1 if gang.holds_something else None
        if reason is not None:
            answer["unblock_needs_all"] = reason.needs_all_remedies
    if world.policy is not None:
        answer["reservation"] = _reservation(world, world.policy, name)
    return answer


def _reservation(world: World, policy: StartPolicy, name: str) -> ScenarioReservationAnswer | None:
    """The start reservation of a workload; the key is in the answer when the scenario has a policy."""
    held = next((each for each in policy.reservations() if each.gang == name), None)
    latest = policy.latest_start(name)
    if held is None or latest is None:
        return None
    return {
        "since": as_json(held.since),
        "latest_start": None if latest.time is None else as_json(latest.time),
        "is_certain": latest.is_certain,
        "nodes": None if held.nodes is None else {name: _amounts(amounts) for name, amounts in held.nodes.items()},
    }


def _reason(reason: Reason, behind: str) -> ScenarioReasonAnswer:
    return {
        "code": str(reason.code),
        "message": reason.message + behind,
        "queue": reason.queue,
        "limit": reason.limit,
        "requested": _amounts(reason.requested or {}),
        "free": _amounts(reason.free or {}),
        "missing": _amounts(reason.missing or {}),
    }


def _step(step: Step, *, has_choices: bool) -> ScenarioStepAnswer:
    answer: ScenarioStepAnswer = {
        "pass": step.pass_number,
        "action": step.action.value,
        "workload": step.gang,
        "tasks": list(step.tasks),
        "for": step.beneficiary,
        "message": step.message,
    }
    if has_choices:
        answer["choice"] = step.choice + 1
    return answer
