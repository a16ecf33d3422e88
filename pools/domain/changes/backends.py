"""Changes of backends: the clusters on which work runs (design, A3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.backend_config import BACKEND_TYPES, NODE, VictimRule
from pools.domain.configuration.cluster_config import ACCESS_MODES, CLUSTER_MODES, QUEUE_POOLS, SYNC_MODES
from pools.domain.configuration.flavors import FLAVOR
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.people.roles import Permission
from pools.domain.shortage.degraded import DegradedRule
from pools.domain.structured_input.declared_values import (
    BOOLEAN,
    SECRET,
    SECRET_JSON,
    TEXT,
    DeclaredValue,
    ValueKind,
    choice,
    in_address,
    value,
)

_NODES = ValueKind("nodes", {"type": "array", "items": NODE}, lambda reader, key: reader.body[key])
_FLAVORS = ValueKind("flavors", {"type": "array", "items": FLAVOR}, lambda reader, key: reader.body[key])
_QUEUE_POOLS = ValueKind("queues", QUEUE_POOLS, lambda reader, key: reader.body[key])
_SECONDS = ValueKind("text", {"type": ["integer", "null"], "minimum": 0}, lambda reader, key: reader.body[key])

BACKEND_KEYS: Final[Mapping[str, DeclaredValue]] = {
    "type": DeclaredValue(choice(BACKEND_TYPES), "Type", "It is chosen when the cluster is added, and stays."),
    "namespace": DeclaredValue(
        TEXT,
        "Namespace",
        "The namespace of the work. Part of every queue name; cannot change while pools use the cluster.",
    ),
    "nodes": DeclaredValue(
        _NODES, "Nodes", "All nodes of a simulated cluster. Work on a removed node continues until it ends."
    ),
    "auto_end": DeclaredValue(
        BOOLEAN, "Work ends automatically", "After its run time. Otherwise its end is reported by hand."
    ),
    "reserve_after": DeclaredValue(
        _SECONDS,
        "Reserve after",
        "After this wait the first gang of a leaf gets a start reservation.",
        unit="seconds",
        empty="never",
    ),
    "ageing": DeclaredValue(
        _SECONDS,
        "Ageing",
        "NORMAL work that is older by this time comes before HIGH work of its leaf.",
        unit="seconds",
        empty="never",
    ),
    "victims": DeclaredValue(
        choice([rule.value for rule in VictimRule]),
        "Preempted first",
        "Which work is preempted first where the rules allow several.",
    ),
    "degraded": DeclaredValue(
        choice([rule.value for rule in DegradedRule]),
        "With too few GPUs",
        "How the pools share what is left while the cluster has fewer GPUs than their quotas.",
    ),
    "flavors": DeclaredValue(
        _FLAVORS,
        "Flavors",
        "Named kinds of GPU, each with labels of its nodes. A node has the first one whose labels it has.",
    ),
    "offline": DeclaredValue(BOOLEAN, "Offline", "Submissions are accepted and wait; running work continues."),
    "mode": DeclaredValue(
        choice(CLUSTER_MODES),
        "Mode",
        "An observed cluster is read and never written: its own scheduler decides, and its work is counted here.",
    ),
    "access": DeclaredValue(choice(ACCESS_MODES), "Access", "How OSMO Admin reaches the cluster."),
    "kubeconfig": DeclaredValue(
        SECRET,
        "Kubeconfig",
        "Its text with certificates and token. It is stored encrypted and never shown again.",
    ),
    "kubeconfig_file": DeclaredValue(
        TEXT, "Name of the kubeconfig file", "For a file in the operator's folder (OSMO_KUBECONFIG_DIR)."
    ),
    "context": DeclaredValue(TEXT, "Context", "A context of the kubeconfig.", empty="the current one"),
    "scheduler_name": DeclaredValue(
        TEXT, "Scheduler", "The scheduler of the pods; KAI's default name is kai-scheduler."
    ),
    "node_pool_key": DeclaredValue(
        TEXT, "Label key of a scheduler shard", "The label key that KAI is configured with."
    ),
    "node_pool": DeclaredValue(TEXT, "Shard", "The value of that label.", empty="objects without it"),
    "sync_mode": DeclaredValue(
        choice(SYNC_MODES),
        "Mode of the queues",
        "Reporting writes nothing: read the first differences before the queues are written.",
    ),
    "queue_pools": DeclaredValue(
        _QUEUE_POOLS,
        "Pools of queues",
        "Of an observed cluster: the pool or POOL--SUBPOOL in which the work of a queue counts. A queue of KAI, a "
        "ClusterQueue, a LocalQueue as NAMESPACE/NAME, or the namespace of pods without a queue. Any other queue "
        "counts in the pool that has its name.",
    ),
    "owner_label": DeclaredValue(
        TEXT,
        "Label of the owner",
        "Of an observed cluster: the label of pods, PodGroups and Workloads that has the user name of their owner, who "
        "then gets the notices about them.",
        empty="notices go to the admins of the pool",
    ),
}
"""The keys of a backend's configuration; `pools.domain.configuration.backend_config` reads them, because they depend on
its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChange(ChangeCommand):
    """A change of one backend."""

    permission: ClassVar = Permission.PLATFORM_WRITE
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.BACKEND

    name: str = in_address("BACKEND", "Cluster", "Name of the backend.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBackend(BackendChange):
    """Create or change a backend; keys left out stay as they are. `nodes`, `auto_end`, `victims`, and `reserve_after`
    and `ageing` (seconds; null: never) belong to a simulated backend, `mode` and the keys after it to a Kubernetes
    backend, `degraded` and `flavors` to both. `kubeconfig` is never shown again."""

    service: ClassVar = "put_backend"
    audit: ClassVar = (
        AuditAction.BACKEND_UPDATED,
        AuditAction.BACKEND_CREATED,
        AuditAction.NODE_CREATED,
        AuditAction.NODE_UPDATED,
        AuditAction.NODE_DELETED,
    )

    body: Mapping[str, Any] = value(SECRET_JSON, "Configuration", "The keys of the backend that change.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBackend(BackendChange):
    """Remove a backend that has no pools."""

    service: ClassVar = "delete_backend"
    audit: ClassVar = (
        AuditAction.BACKEND_DELETED,
        AuditAction.BACKEND_DISCONNECTED,
        AuditAction.NODE_DELETED,
        AuditAction.WEBHOOK_DELETED,
    )
