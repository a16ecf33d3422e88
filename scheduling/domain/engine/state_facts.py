"""The state of tasks and gangs as facts again."""

from __future__ import annotations

from dataclasses import replace

from scheduling.domain.engine.facts import GangFacts, TaskState
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.nodes import NOWHERE
from scheduling.domain.engine.state.records import GangState

_STATES = (TaskState.PENDING, TaskState.RUNNING, TaskState.RELEASING, TaskState.FINISHED)


def task_state(world: World, gang: GangState, i: int) -> tuple[TaskState, str | None]:
    """The state of one task, and its node."""
    node = gang.node[i]
    name = world.nodes.names[node] if world.nodes is not None and node != NOWHERE else None
    return _STATES[gang.status[i]], name


def gang_after(world: World, gang: GangState) -> GangFacts:
    """The facts of a gang as it stands now."""
    fact = gang.fact
    if gang.index not in world.changed:
        return fact
    tasks = []
    for i, task in enumerate(fact.tasks):
        state, node = task_state(world, gang, i)
        tasks.append(task if (task.state, task.node) == (state, node) else replace(task, state=state, node=node))
    if world.policy is not None:
        return replace(fact, tasks=tuple(tasks), started=world.policy.started_at(gang))
    return replace(fact, tasks=tuple(tasks))
