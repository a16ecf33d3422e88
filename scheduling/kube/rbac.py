"""The rights that the house needs in a cluster, and no more: one ServiceAccount, a ClusterRole for what is
cluster-wide, a Role in the namespace where work runs. Printed by `osmo-admin webhook manifest`; why each is needed
stands beside it."""

from __future__ import annotations

from typing import Any

from scheduling.domain.cluster.naming import OWNER
from scheduling.kube import kinds
from scheduling.kube.port import Kind, Object

READ = ("get", "list", "watch")
KEEP = (*READ, "create", "patch", "delete")

CLUSTER_WIDE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (kinds.QUEUE, KEEP),  # kept in step with the pools
    (kinds.TOPOLOGY, KEEP),
    (kinds.PRIORITY_CLASS, ("get", "list", "create", "patch")),
    (kinds.NODE, READ),  # capacity
    (kinds.NAMESPACE, ("get",)),
    (kinds.CRD, ("get", "list")),  # which PodGroup version the cluster has
    (kinds.VALIDATING_WEBHOOK, ("get", "create", "patch", "delete")),
    (kinds.GPU_RESOURCE_QUOTA, READ),
)
IN_NAMESPACE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (kinds.POD_GROUP, KEEP),
    (kinds.POD, KEEP),
    (kinds.SECRET, ("get", "list", "create", "patch", "delete")),  # the files of tasks, nothing that we did not make
    (kinds.CONFIG_MAP, ("get", "list", "create", "patch", "delete")),
    (kinds.SERVICE, ("get", "list", "create", "patch", "delete")),  # host names inside a gang
    (kinds.KUBERNETES_EVENT, READ),
    (kinds.LEASE, ("get", "list", "create", "patch", "delete")),
)
# PodGroups of everybody that still wait in a queue are pointed to its new leaf (upgrade from an older layout), and GPU
# quotas count the pods of their own namespaces.
EVERYWHERE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (kinds.POD_GROUP, ("get", "list", "watch", "patch")),
    (kinds.POD, READ),
)


def manifests(namespace: str, account: str = OWNER) -> list[Object]:
    """Everything, for work in `namespace`; the account lives there, too."""
    labels = {"app.kubernetes.io/managed-by": OWNER}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    status = {
        "apiGroups": [kinds.GPU_RESOURCE_QUOTA.group],
        "resources": [f"{kinds.GPU_RESOURCE_QUOTA.plural}/status"],
        "verbs": ["get", "patch", "update"],
    }
    whoami = {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}
    wide = [*map(_rule, (*CLUSTER_WIDE, *EVERYWHERE)), status, whoami]
    role = {"apiGroup": "rbac.authorization.k8s.io", "name": account}

    def made(kind: str, version: str, body: dict[str, Any], *, inside: bool, name: str = account) -> Object:
        metadata: dict[str, Any] = {"name": name, "labels": labels}
        if inside:
            metadata["namespace"] = namespace
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}

    rbac = "rbac.authorization.k8s.io/v1"
    return [
        made("ServiceAccount", "v1", {}, inside=True),
        made("ClusterRole", rbac, {"rules": wide}, inside=False),
        made(
            "ClusterRoleBinding", rbac, {"roleRef": role | {"kind": "ClusterRole"}, "subjects": [subject]}, inside=False
        ),
        made("Role", rbac, {"rules": [_rule(each) for each in IN_NAMESPACE]}, inside=True),
        made("RoleBinding", rbac, {"roleRef": role | {"kind": "Role"}, "subjects": [subject]}, inside=True),
    ]


def _rule(right: tuple[Kind, tuple[str, ...]]) -> dict[str, list[str]]:
    kind, verbs = right
    return {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": list(verbs)}
