"""The results of a cycle: running gangs, waiting gangs with position and reason, and the facts after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.explain import Explainer, Reason
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.line_trials import LineTrials
from scheduling.domain.engine.queue_order import QueueOrder
from scheduling.domain.engine.starting import pending_queues
from scheduling.domain.engine.state import RELEASING, GangState
from scheduling.domain.engine.state_facts import gang_after
from scheduling.domain.engine.world import World


class GangResult(StrEnum):
    """`running`: the gang has its minimum. `preempted`: it ran before the cycle and waits now."""

    RUNNING = "running"
    PENDING = "pending"
    PREEMPTED = "preempted"
    RELEASING = "releasing"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position of a waiting gang, from 1: among all, and in its own queue."""

    overall: int
    in_queue: int


def gang_result(gang: GangState) -> GangResult:
    """The state of the whole gang."""
    if gang.is_running:
        return GangResult.RUNNING
    if any(gang.waiting):
        return GangResult.PREEMPTED if gang.ran else GangResult.PENDING
    if RELEASING in gang.status:
        return GangResult.RELEASING
    return GangResult.RUNNING if any(gang.active) else GangResult.FINISHED


def waiting_reasons(world: World) -> dict[str, Reason]:
    """The reason of each waiting gang; interchangeable gangs share one. Where it has several lines, they are tried."""
    explainer = Explainer(world)
    return LineTrials(world, explainer).told(explainer.explain_all())


def queue_positions(world: World) -> dict[str, QueuePosition]:
    """The order in which the next pass would try the waiting gangs. Gangs that no pass tries (their queue does not
    exist, or has queues below it) are last, by age."""
    found: dict[str, QueuePosition] = {}
    in_queue: dict[str, int] = {}

    def put(gang: GangState) -> None:
        queue = gang.fact.queue
        in_queue[queue] = in_queue.get(queue, 0) + 1
        found[gang.fact.name] = QueuePosition(len(found) + 1, in_queue[queue])

    pending = pending_queues(world, lambda gang, _queue: not gang.is_running)
    order = QueueOrder(pending)
    while (leaf := order.next_leaf()) is not None:
        gang = pending[leaf.index].head()
        if gang is None:
            break
        put(gang)
        pending[leaf.index].advance()
        order.refresh(leaf)
    rest = [gang for gang in world.gangs if gang.fact.name not in found and any(gang.waiting) and not gang.is_running]
    for gang in sorted(rest, key=lambda gang: gang.order_key):
        put(gang)
    return found


def facts_after(cycle: CycleResult) -> ClusterFacts:
    """The facts after the cycle; another cycle on them changes nothing."""
    world = cycle.world
    gangs = (world.gang_of[fact.name] for fact in world.facts.gangs)
    policy = None if world.policy is None else world.policy.facts()
    return replace(world.facts, gangs=tuple(gang_after(world, gang) for gang in gangs), policy=policy)
