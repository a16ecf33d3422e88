"""Nodes of a cluster as rows of the ledger, and what other people's pods hold of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from pools.domain.roles import SYSTEM
from pools.models import Backend, Node
from pools.transactions import change
from scheduling.domain.cluster.node import ClusterNode, NodeAmounts
from scheduling.models import NodeState

_SIZE = ("platform", "gpus", "cpu", "memory_bytes", "storage_bytes")
_STATE = (
    "ready", "conditions", "labels", "taints", "other_gpus", "other_cpu", "other_memory_bytes", "other_storage_bytes",
)  # fmt: skip


def write_nodes(
    backend: Backend, observed: Iterable[ClusterNode], other_usage: Mapping[str, NodeAmounts] | None
) -> bool:
    """Bring the backend's nodes in line with its cluster's. `other_usage` is what other people's pods hold by node; None
    when that is not known now, and then what was known stays. Returns whether a machine came, went or changed its size.
    """
    there = {node.name: node for node in Node.objects.filter(backend=backend)}
    states = {state.node_id: state for state in NodeState.objects.filter(node__backend=backend)}
    new, resized, kept = [], [], []
    for machine in observed:
        size = {"platform": machine.platform, **asdict(machine.amounts)}
        node = there.pop(machine.name, None)
        if node is None:
            node = Node(backend=backend, name=machine.name, **size)
            new.append(node)
        elif _differs(node, size):
            _set(node, size)
            resized.append(node)
        kept.append((node, machine))
    if new or resized or there:
        with change(actor=SYSTEM, description="observed"):
            Node.objects.filter(pk__in=[node.pk for node in there.values()]).delete()
            Node.objects.bulk_update(resized, _SIZE)
            Node.objects.bulk_create(new)
    _write_states(kept, states, other_usage)
    return bool(new or resized or there)


def _write_states(
    kept: Iterable[tuple[Node, ClusterNode]], states: Mapping[int, NodeState], others: Mapping[str, NodeAmounts] | None
) -> None:
    new, changed = [], []
    for node, machine in kept:
        values = {
            "ready": machine.ready,
            "conditions": list(machine.conditions),
            "labels": dict(machine.labels),
            "taints": [dict(taint) for taint in machine.taints],
        }
        if others is not None:
            held = asdict(others.get(machine.name, NodeAmounts()))
            values |= {f"other_{name}": amount for name, amount in held.items()}
        state = states.get(node.pk)
        if state is None:
            new.append(NodeState(node=node, **values))
        elif _differs(state, values):
            _set(state, values)
            changed.append(state)
    NodeState.objects.bulk_create(new)
    NodeState.objects.bulk_update(changed, _STATE)


def _differs(row: Node | NodeState, values: Mapping[str, object]) -> bool:
    return any(getattr(row, column) != value for column, value in values.items())


def _set(row: Node | NodeState, values: Mapping[str, object]) -> None:
    for column, value in values.items():
        setattr(row, column, value)
