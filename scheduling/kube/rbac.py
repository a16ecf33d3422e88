"""The rights that the house needs in a cluster, and no more: one ServiceAccount, a ClusterRole for what is
cluster-wide, a Role in the namespace where work runs. Printed by `osmo-admin webhook manifest`; why each is needed
stands beside it."""

from __future__ import annotations

from typing import Any

from scheduling.domain.cluster.naming import OWNER
from scheduling.kube import kinds
from scheduling.kube.port import Kind, Object

READ = ("get", "list", "watch")
SEE = ("list", "watch")
SET = ("get", "list", "create", "patch", "delete")

CLUSTER_WIDE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (kinds.QUEUE, SET),  # kept in step with the pools
    (kinds.TOPOLOGY, SET),
    (kinds.PRIORITY_CLASS, ("get", "list", "create", "patch")),
    (kinds.NODE, SEE),  # capacity
    (kinds.POD, SEE),  # what other people's pods hold of the nodes, and of the GPU quota of their namespaces
    (kinds.NAMESPACE, ("get",)),  # the connection test
    (kinds.VALIDATING_WEBHOOK, ("get", "create", "patch", "delete")),
    (kinds.GPU_RESOURCE_QUOTA, READ),
)
IN_NAMESPACE: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (kinds.POD_GROUP, (*READ, "create", "patch", "delete")),
    (kinds.POD, (*READ, "create", "patch", "delete")),
    (kinds.SECRET, ("get", "list", "create", "delete")),  # the files of tasks, nothing that we did not make
    (kinds.SERVICE, ("get", "list", "create", "delete")),  # host names inside a gang
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
    wide = [*map(_rule, CLUSTER_WIDE), status, whoami]
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
