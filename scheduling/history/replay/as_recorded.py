"""What a cycle of the record did with its plan: some cycles judged new work alone, and some did not do all they had
planned, because a change came in between or their process died."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from pools.domain.values.amounts import Number
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, PolicyFacts, TaskState
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.plan_units import VICTIM_ACTIONS, PlanUnit, split_plan
from scheduling.history.replay.history import RecordedJob, RecordedStep
from scheduling.history.replay.seen_order import Snapshot


def is_old(job: RecordedJob, new_since: Snapshot) -> bool:
    """Whether a cycle of new work alone left out this job that waits."""
    return job.transaction is None or new_since.sees(job.transaction)


def count_units(recorded: Iterable[RecordedStep]) -> int:
    """The units of a plan that were done."""
    return sum(step.action not in VICTIM_ACTIONS for step in recorded)


def is_recorded(steps: Iterable[Step], recorded: Iterable[RecordedStep]) -> bool:
    """Whether these are the recorded steps."""
    return sorted(map(_key, steps)) == sorted((step.action, step.gang, step.tasks) for step in recorded)


def done_units(planned: Sequence[Step], recorded: Iterable[RecordedStep], units: int) -> Sequence[Step]:
    """The steps of the plan that were done: a unit is done or dropped as a whole. All of them, where the cycle of the
    record had another plan."""
    plan = list(split_plan(planned))
    known = {(step.action, step.gang, step.tasks) for step in recorded}
    return [
        step for unit in plan if len(plan) != units or _is_known(unit, known) for step in unit.steps
    ]  # fmt: skip


def without(facts: ClusterFacts, left_out: Collection[str], now: Number) -> ClusterFacts:
    """The facts as a cycle of new work reads them: the other work that waits is the demand of its queue. Work with a
    start reservation is always listed."""
    policy = facts.policy
    reserved = set() if policy is None else {each.gang for each in policy.reservations}
    hidden = set(left_out) - reserved
    demand: dict[str, dict[str, Number]] = defaultdict(dict)
    for gang in facts.gangs:
        if gang.name in hidden:
            for task in gang.tasks:
                for key, amount in task.request.items():
                    demand[gang.queue][key] = demand[gang.queue].get(key, 0) + amount
    return replace(
        facts,
        gangs=tuple(gang for gang in facts.gangs if gang.name not in hidden),
        demand=demand,
        policy=None if policy is None else replace(policy, now=now),
    )


def after_steps(facts: ClusterFacts, steps: Iterable[Step], policy: PolicyFacts | None, now: Number) -> ClusterFacts:
    """The facts when these steps have been done."""
    gangs = {gang.name: gang for gang in facts.gangs}
    for step in steps:
        gangs[step.gang] = _after(gangs[step.gang], step, now)
    return replace(facts, gangs=tuple(gangs.values()), policy=policy)


def _after(gang: GangFacts, step: Step, now: Number) -> GangFacts:
    places = step.action in {StepAction.START, StepAction.MOVE}
    nodes = dict(zip(step.tasks, step.nodes or [None] * len(step.tasks), strict=True))
    was_running = any(task.state is TaskState.RUNNING for task in gang.tasks)
    tasks = tuple(
        task
        if task.name not in nodes
        else replace(
            task,
            state=TaskState.RUNNING if places else TaskState.PENDING,
            node=nodes[task.name] if places else None,
        )
        for task in gang.tasks
    )
    started = gang.started
    if not any(task.state is TaskState.RUNNING for task in tasks):
        started = None
    elif step.action is StepAction.MOVE or not was_running:
        started = now
    return replace(gang, tasks=tasks, started=started)


def _is_known(unit: PlanUnit, known: Collection[tuple[str, str, tuple[str, ...]]]) -> bool:
    return all(_key(step) in known for step in unit.steps)


def _key(step: Step) -> tuple[str, str, tuple[str, ...]]:
    return step.action.value, step.gang, step.tasks
