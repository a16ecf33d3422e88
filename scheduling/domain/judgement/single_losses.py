"""What each single node takes with it, without a scheduling cycle, and which nodes are alike (docs/bad-day.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pools.domain.values.amounts import Number, gpus_in, is_gpu
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskState
from scheduling.domain.judgement.node_loss import gang_after_loss


@dataclass(frozen=True, slots=True)
class LostPart:
    """What one gang loses with a node: `gpus` on all its nodes where it loses its place as a whole. `restarts`: it
    waits again for all that it lost."""

    gang: GangFacts
    gpus: Number
    is_whole: bool

    @property
    def restarts(self) -> bool:
        """Whether it waits again, and has not ended for good."""
        return not self.is_whole or self.gang.restarts


def lost_parts(facts: ClusterFacts) -> dict[str, list[LostPart]]:
    """By node with work: what each gang there loses with it. The cost grows with the tasks that run."""
    found: dict[str, list[LostPart]] = defaultdict(list)
    for gang in facts.gangs:
        nodes = {task.node for task in gang.tasks if task.node is not None and task.state is TaskState.RUNNING}
        held = _running_gpus(gang) if nodes else 0
        for node in nodes:
            after = gang_after_loss(gang, {node})
            is_whole = not any(task.state is TaskState.RUNNING for task in after.tasks)
            found[node].append(LostPart(gang, held - _running_gpus(after), is_whole))
    return found


def alike_nodes(
    facts: ClusterFacts, lost: Mapping[str, Sequence[LostPart]], more: Mapping[str, object]
) -> list[list[str]]:
    """The nodes in groups whose loss has the same effect as far as sizes go: nodes of one size that the same work may
    use, with work of the same queues, priorities and shapes. `more`: by node, what else must be equal."""
    bars: dict[frozenset[str], int] = {}
    for gang in facts.gangs:
        for task in gang.tasks:
            if task.allowed_nodes is not None:
                bars.setdefault(task.allowed_nodes, len(bars))
    groups: dict[object, list[str]] = defaultdict(list)
    for node in facts.nodes or ():
        size = tuple(sorted(node.resources.items()))
        allowed = tuple(n for nodes, n in bars.items() if node.name in nodes)
        work = tuple(sorted(map(_shape, lost.get(node.name, ()))))
        groups[size, allowed, work, more.get(node.name)].append(node.name)
    return [sorted(names) for names in groups.values()]


def without_nodes(facts: ClusterFacts, names: Collection[str]) -> ClusterFacts:
    """The facts without these nodes and with their work as it is then."""
    gone = frozenset(names)
    now = None if facts.policy is None else facts.policy.now
    return replace(
        facts,
        nodes=tuple(node for node in facts.nodes or () if node.name not in gone),
        gangs=tuple(gang_after_loss(gang, gone, now=now) for gang in facts.gangs),
    )


def _shape(part: LostPart) -> tuple[object, ...]:
    gang = part.gang
    requests = sorted(
        ([(key, task.request[key]) for key in sorted(task.request) if is_gpu(key)], task.state.value)
        for task in gang.tasks
    )
    return (gang.queue, gang.priority, gang.preemptible, part.restarts, part.gpus, part.is_whole, str(requests))


def _running_gpus(gang: GangFacts) -> Number:
    return sum(gpus_in(task.request) for task in gang.tasks if task.state is TaskState.RUNNING)
