"""The results of a cycle: running gangs, waiting gangs with position and reason, and the facts after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.reasons.by_choice import reasons_by_name
from scheduling.domain.engine.reasons.explain import Explainer, Reason
from scheduling.domain.engine.reasons.line_trials import LineTrials
from scheduling.domain.engine.reasons.remedies import MAX_NAMED_GANGS, NameResolver
from scheduling.domain.engine.rules.queue_order import QueueOrder
from scheduling.domain.engine.rules.starting import pending_queues
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import RELEASING, GangState, QueueState
from scheduling.domain.engine.state_facts import gang_after


class GangResult(StrEnum):
    """`running`: the gang has its minimum. `preempted`: it ran before the cycle and waits now."""

    RUNNING = "running"
    PENDING = "pending"
    PREEMPTED = "preempted"
    RELEASING = "releasing"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class OptionalPods:
    """Pods beyond the minimum of gangs that run, which wait too: the number of pods, the number of their gangs, and the
    first gangs by name."""

    pods: int = 0
    gangs: int = 0
    first: tuple[str, ...] = ()

    def with_gang(self, gang: GangState) -> OptionalPods:
        """These pods and those of one more gang."""
        first = (*self.first, gang.fact.name) if len(self.first) < MAX_NAMED_GANGS else self.first
        return OptionalPods(self.pods + sum(gang.waiting), self.gangs + 1, first)

    def message(self, name_of: NameResolver = str) -> str:
        """A sentence for one reader, after another one; empty without pods."""
        if not self.pods:
            return ""
        names = dict.fromkeys(name for name in map(name_of, self.first) if name is not None)
        more = self.gangs - len(names)
        hidden = [f"{more} other running gang{'s' if more > 1 else ''}"] if more > 0 else []
        pods = "1 optional pod" if self.pods == 1 else f"{self.pods} optional pods"
        return f" It is behind {pods} of {' and '.join([*names, *hidden])}."


NO_PODS = OptionalPods()


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position of a waiting gang, from 1: among all, and in its own queue. `behind`: optional pods before it."""

    overall: int
    in_queue: int
    behind: OptionalPods = NO_PODS


def gang_result(gang: GangState) -> GangResult:
    """The state of the whole gang."""
    if gang.is_running:
        return GangResult.RUNNING
    if any(gang.waiting):
        ran = gang.ran or any(each.ran for each in gang.choices)
        return GangResult.PREEMPTED if ran else GangResult.PENDING
    if RELEASING in gang.status:
        return GangResult.RELEASING
    return GangResult.RUNNING if any(gang.active) else GangResult.FINISHED


def waiting_reasons(world: World) -> dict[str, Reason]:
    """The reason of each waiting gang; interchangeable gangs share one. Where it has several lines, they are tried."""
    explainer = Explainer(world)
    return reasons_by_name(LineTrials(world, explainer).tried(explainer.explain_all()))


def queue_positions(world: World) -> dict[str, QueuePosition]:
    """The order in which the next pass would try the waiting gangs. Gangs that no pass tries (their queue does not
    exist, or has queues below it) are last, by age."""
    found: dict[str, QueuePosition] = {}
    in_queue: dict[str, int] = {}

    def put(gang: GangState) -> None:
        queue = gang.fact.queue
        in_queue[queue] = in_queue.get(queue, 0) + 1
        found[gang.fact.name] = QueuePosition(len(found) + 1, in_queue[queue], behind)

    behind = NO_PODS
    could_start = world.feasibility.could_start_alone

    def has_position(gang: GangState, queue: QueueState) -> bool:
        if gang.is_running:
            return could_start(gang, queue)
        # Of several choices the first that could ever start stands for the gang.
        if not gang.choices:
            return True
        return gang is next(
            (each for each in gang.choices if world.feasibility.is_possible_choice(each, queue)),
            world.gang_of[gang.fact.name],
        )

    pending = pending_queues(world, has_position)
    order = QueueOrder(pending)
    while (leaf := order.next_leaf()) is not None:
        gang = pending[leaf.index].head()
        if gang is None:
            break
        if gang.is_running:
            behind = behind.with_gang(gang)
        else:
            put(gang)
        pending[leaf.index].advance()
        order.refresh(leaf)
    rest = [gang for gang in world.gangs if gang.fact.name not in found and any(gang.waiting) and not gang.is_running]
    for gang in sorted(rest, key=lambda gang: gang.order_key):
        put(gang)
    return found


def facts_after(cycle: CycleResult) -> ClusterFacts:
    """The facts after the cycle. Another cycle on them changes nothing, unless gangs got one of several flavors: they
    are demand of it alone now, so that fair shares may be others."""
    world = cycle.world
    gangs = (world.gang_of[fact.name] for fact in world.facts.gangs)
    policy = None if world.policy is None else world.policy.facts()
    return replace(world.facts, gangs=tuple(gang_after(world, gang) for gang in gangs), policy=policy)
