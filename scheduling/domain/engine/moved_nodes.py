"""Nodes whose flavor changed while work ran on them: its GPUs count where it was admitted until it ends, and nothing
else starts on them until then (design kinds, section 2)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pools.domain.values.amounts import Number, is_gpu
from scheduling.domain.engine.facts import GangFacts, NodeFacts, TaskFacts


def nodes_with_work(nodes: Iterable[NodeFacts], tasks: Iterable[TaskFacts]) -> tuple[NodeFacts, ...]:
    """The nodes, with the GPUs of running tasks in the flavor that these were admitted in, where that is not the flavor
    of the node."""
    rows = tuple(nodes)
    moved = _moved_gpus(rows, tasks)
    return tuple(_with_moved(node, moved[node.name]) if node.name in moved else node for node in rows)


def keep_from_moved(gang: GangFacts, nodes: Iterable[NodeFacts], moved: Mapping[str, frozenset[str]]) -> GangFacts:
    """The gang, which may use no node of `moved`, the nodes by key whose GPUs of it are only held."""
    names = frozenset(node.name for node in nodes)

    def kept(task: TaskFacts) -> TaskFacts:
        barred = frozenset[str]().union(*(moved.get(key, ()) for key, amount in task.request.items() if amount))
        if not barred:
            return task
        return replace(task, allowed_nodes=(names if task.allowed_nodes is None else task.allowed_nodes) - barred)

    tasks, *others = (tuple(map(kept, tasks)) for tasks in (gang.tasks, *gang.alternatives))
    return replace(gang, tasks=tasks, alternatives=tuple(others))


def moved_nodes(nodes: Iterable[NodeFacts], tasks: Iterable[TaskFacts]) -> dict[str, frozenset[str]]:
    """By key the nodes of another flavor on which running tasks hold GPUs of it."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, held in _moved_gpus(tuple(nodes), tasks).items():
        for key in held:
            found[key].add(name)
    return {key: frozenset(names) for key, names in found.items()}


def nodes_after(nodes: Iterable[NodeFacts], tasks: Iterable[TaskFacts]) -> tuple[NodeFacts, ...]:
    """The nodes once these running tasks have ended: the GPUs that they held in another flavor count in that of their
    node."""
    rows = tuple(nodes)
    back = _moved_gpus(rows, tasks)
    return tuple(_with_own(node, back[node.name]) if node.name in back else node for node in rows)


def _moved_gpus(nodes: Iterable[NodeFacts], tasks: Iterable[TaskFacts]) -> dict[str, Counter[str]]:
    """By node the GPUs that running tasks hold in another flavor, by key."""
    own = {node.name: _gpu_key_of(node.resources) for node in nodes}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for task in tasks:
        key = _gpu_key_of(task.request)
        if task.node is not None and key != (own.get(task.node) or key) and task.request.get(key):
            found[task.node][key] += int(task.request[key])
    return found


def _gpu_key_of(amounts: Mapping[str, Number]) -> str:
    """The first of GPUs; of a node it is its own, also where work holds GPUs of another flavor there."""
    return next((key for key in amounts if is_gpu(key)), "")


def _with_moved(node: NodeFacts, moved: Counter[str]) -> NodeFacts:
    own = _gpu_key_of(node.resources)
    return replace(node, resources={**node.resources, own: node.resources[own] - moved.total(), **moved})


def _with_own(node: NodeFacts, back: Counter[str]) -> NodeFacts:
    own = _gpu_key_of(node.resources)
    left = {key: amount - back[key] for key, amount in node.resources.items() if amount != back[key] or key == own}
    return replace(node, resources={**left, own: left[own] + back.total()})
