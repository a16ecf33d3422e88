"""Writes a cluster's nodes to the ledger, with the amounts that foreign pods hold on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change
from pools.domain.configuration.flavors import find_flavor
from pools.domain.people.roles import SYSTEM
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.locking import lock_flavors
from pools.models import Backend, Node
from scheduling.domain.cluster.claims import trim_claim
from scheduling.domain.cluster.node import ClusterNode, ForeignUsage, count_in_flavor, gpus_of_others, read_node
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import ClusterReader, ResourceKind
from scheduling.models import NodeState

_SIZE_COLUMNS = (
    "platform", "gpus", "cpu", "memory_bytes", "storage_bytes", "taint", "gpu_pods_only", "physical_gpus",
    "advertised_gpus", "flavor",
)  # fmt: skip
_STATE_COLUMNS = (
    "ready", "conditions", "labels", "taints", "notes", "other_gpus", "other_cpu", "other_memory_bytes",
    "other_storage_bytes", "other_notes",
)  # fmt: skip


def write_cluster_nodes(
    backend: Backend, objects: Mapping[str, Object], foreign_usage: Mapping[str, ForeignUsage] | None
) -> None:
    """Write these nodes of a cluster (by name) to the ledger; one that cannot be read stays as it is."""
    observed, unread = [], set(objects)
    for name, item in objects.items():
        with left_out_on_error("a node of a cluster", name):
            node = read_node(item)
            if not node.is_possible:
                raise ValueError("It claims more than any machine has.")
            observed.append(node)
            unread.discard(name)
    with left_out_on_error("the nodes of a cluster", backend.name):
        write_nodes(backend, observed, foreign_usage, unread=unread)


def list_device_use(cluster: ClusterReader) -> tuple[list[Object], list[Object]]:
    """The cluster's ResourceSlices and ResourceClaims; none where it does not serve them or the account may not list
    them."""
    return (
        _list_if_served(cluster, resource_kinds.DEVICE_LIST),
        _list_if_served(cluster, resource_kinds.DEVICE_CLAIM, trim_claim),
    )


def _list_if_served(
    cluster: ClusterReader, kind: ResourceKind, transform: Callable[[Object], Object] | None = None
) -> list[Object]:
    with suppress(errors.KindMissing, errors.AccessDenied):
        return cluster.list(kind, transform=transform).items
    return []


def write_nodes(
    backend: Backend,
    observed: Iterable[ClusterNode],
    other_usage: Mapping[str, ForeignUsage] | None,
    *,
    unread: Collection[str] = (),
) -> bool:
    """Write the cluster's nodes to the ledger. `other_usage` is what foreign pods hold, by node; None when it is not
    known now, and then the last known amounts stay. The nodes named in `unread` stay as they are. A node whose labels
    have changed may have another flavor; work that runs there stays counted where it was admitted. Returns whether a
    node was added, removed or resized."""
    with change(actor=SYSTEM, description="observed"):
        return _write_nodes(backend, observed, other_usage, unread)


def _write_nodes(
    backend: Backend,
    observed: Iterable[ClusterNode],
    other_usage: Mapping[str, ForeignUsage] | None,
    unread: Collection[str],
) -> bool:
    flavors = lock_flavors(backend)
    removed = {node.name: node for node in Node.objects.filter(backend=backend).exclude(name__in=unread)}
    states = {state.node_id: state for state in NodeState.objects.filter(node__backend=backend)}
    new, resized, current = [], [], []
    for as_read in observed:
        flavor = find_flavor(as_read.labels, flavors)
        observed_node = count_in_flavor(as_read, flavor) if flavors else as_read
        size = {
            "platform": observed_node.platform,
            "taint": observed_node.taint,
            "gpu_pods_only": observed_node.gpu_pods_only,
            "physical_gpus": observed_node.physical_gpus,
            "advertised_gpus": observed_node.advertised_gpus,
            "flavor": DEFAULT_FLAVOR if flavor is None else flavor.name,
            **asdict(observed_node.amounts),
        }
        node = removed.pop(observed_node.name, None)
        if node is None:
            node = Node(backend=backend, name=observed_node.name, **size)
            new.append(node)
        elif _differs(node, size):
            _assign(node, size)
            resized.append(node)
        current.append((node, observed_node))
    Node.objects.filter(pk__in=[node.pk for node in removed.values()]).delete()
    Node.objects.bulk_update(resized, _SIZE_COLUMNS)
    Node.objects.bulk_create(new)
    _write_states(current, states, other_usage)
    return bool(new or resized or removed)


def _write_states(
    nodes: Iterable[tuple[Node, ClusterNode]],
    states: Mapping[int, NodeState],
    other_usage: Mapping[str, ForeignUsage] | None,
) -> None:
    new, changed = [], []
    for node, observed in nodes:
        values: dict[str, object] = {
            "ready": observed.ready,
            "conditions": list(observed.conditions),
            "labels": dict(observed.labels),
            "taints": [dict(taint) for taint in observed.taints],
            "notes": list(observed.notes),
        }
        state = states.get(node.pk)
        if other_usage is not None:
            usage = other_usage.get(observed.name, ForeignUsage())
            values |= {
                "other_gpus": gpus_of_others(observed, usage.gpus, usage),
                "other_cpu": usage.cpu,
                "other_memory_bytes": usage.memory_bytes,
                "other_storage_bytes": usage.storage_bytes,
                "other_notes": usage.notes,
            }
        elif state is not None:  # the node may have begun to share its GPUs
            values["other_gpus"] = gpus_of_others(observed, state.other_gpus)
        if state is None:
            new.append(NodeState(node=node, **values))
        elif _differs(state, values):
            _assign(state, values)
            changed.append(state)
    NodeState.objects.bulk_create(new)
    NodeState.objects.bulk_update(changed, _STATE_COLUMNS)


def _differs(row: Node | NodeState, values: Mapping[str, object]) -> bool:
    return any(getattr(row, column) != value for column, value in values.items())


def _assign(row: Node | NodeState, values: Mapping[str, object]) -> None:
    for column, value in values.items():
        setattr(row, column, value)
