"""The least rights that OSMO Admin needs in a cluster: one ServiceAccount, a ClusterRole for cluster-wide objects, and
a Role in the namespace of the work. A right on objects whose names are known is limited to these names.
`osmo-admin webhook manifest` prints them; a comment gives the reason for each right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scheduling.domain.cluster.election import lease_name
from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.priorities import Priority
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import ResourceKind
from scheduling.kube.webhook_configuration import configuration_name

READ_VERBS = ("get", "list", "watch")
LIST_VERBS = ("list", "watch")
WRITE_VERBS = ("get", "list", "create", "patch", "delete")
NAMELESS_VERBS = frozenset({"create", "list", "watch"})
"""Verbs that Kubernetes does not limit to the names of objects."""

EXAMPLE_BACKEND = "prod"
"""The backend of the documentation, and of the chart unless its values name others."""

CLUSTER_RULES: tuple[tuple[ResourceKind, tuple[str, ...]], ...] = (
    (resource_kinds.QUEUE, ("get", "list", "watch", "create", "patch", "delete")),  # kept in step with the pools
    (resource_kinds.TOPOLOGY, WRITE_VERBS),
    (resource_kinds.PRIORITY_CLASS, ("get", "list", "create", "patch")),
    (resource_kinds.NODE, LIST_VERBS),  # capacity
    (resource_kinds.DEVICE_LIST, ("list",)),  # devices that are not counted, for a note on their node
    (resource_kinds.DEVICE_CLAIM, ("list",)),  # the GPUs that foreign pods hold by claims
    (
        resource_kinds.POD,
        LIST_VERBS,
    ),  # the use of nodes and of GPU quotas by foreign pods
    (resource_kinds.NAMESPACE, ("get",)),  # the connection test
    (resource_kinds.VALIDATING_WEBHOOK, ("get", "create", "patch", "delete")),
    (resource_kinds.GPU_RESOURCE_QUOTA, LIST_VERBS),
    (resource_kinds.EVENT, ("create", "patch")),  # on objects that we dispatch, repair or refuse, in any namespace
)
NAMESPACE_RULES: tuple[tuple[ResourceKind, tuple[str, ...]], ...] = (
    (resource_kinds.POD_GROUP, (*READ_VERBS, "create", "patch", "delete")),
    (resource_kinds.POD, (*READ_VERBS, "create", "patch", "delete")),
    (resource_kinds.POD_LOG, ("get",)),  # shown to the people who may see the workflow
    (resource_kinds.EVENT, ("list",)),  # likewise
    (resource_kinds.SECRET, ("get", "list", "create", "delete")),  # the files of tasks
    (resource_kinds.SERVICE, ("get", "list", "create", "delete")),  # host names inside a gang
    (resource_kinds.LEASE, ("get", "create", "patch")),  # one installation at a time
)


def rbac_manifests(namespace: str, *, backends: Sequence[str] = (EXAMPLE_BACKEND,)) -> list[Object]:
    """All manifests, for work of these backends in `namespace`; the account is in the same namespace."""
    names = {
        resource_kinds.PRIORITY_CLASS: [f"osmo-{priority.lower()}" for priority in Priority],
        resource_kinds.NAMESPACE: [namespace],
        resource_kinds.VALIDATING_WEBHOOK: [configuration_name(backend) for backend in backends],
        resource_kinds.LEASE: [lease_name(namespace)],
    }

    def rules(rights: Iterable[tuple[ResourceKind, tuple[str, ...]]]) -> list[Object]:
        return [rule for kind, verbs in rights for rule in _rules(kind, verbs, names.get(kind, ()))]

    labels = {"app.kubernetes.io/managed-by": FIELD_MANAGER}
    subject = {"kind": "ServiceAccount", "name": FIELD_MANAGER, "namespace": namespace}
    status = {
        "apiGroups": [resource_kinds.GPU_RESOURCE_QUOTA.group],
        "resources": [f"{resource_kinds.GPU_RESOURCE_QUOTA.plural}/status"],
        "verbs": ["patch"],
    }
    whoami = {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}
    wide = [*rules(CLUSTER_RULES), status, whoami]
    role = {"apiGroup": "rbac.authorization.k8s.io", "name": FIELD_MANAGER}

    def manifest(kind: str, version: str, body: dict[str, Any], *, inside: bool) -> Object:
        metadata: dict[str, Any] = {"name": FIELD_MANAGER, "labels": labels}
        if inside:
            metadata["namespace"] = namespace
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}

    rbac = "rbac.authorization.k8s.io/v1"
    return [
        manifest("ServiceAccount", "v1", {}, inside=True),
        manifest("ClusterRole", rbac, {"rules": wide}, inside=False),
        manifest(
            "ClusterRoleBinding", rbac, {"roleRef": role | {"kind": "ClusterRole"}, "subjects": [subject]}, inside=False
        ),
        manifest("Role", rbac, {"rules": rules(NAMESPACE_RULES)}, inside=True),
        manifest("RoleBinding", rbac, {"roleRef": role | {"kind": "Role"}, "subjects": [subject]}, inside=True),
    ]


def _rules(kind: ResourceKind, verbs: Sequence[str], names: Sequence[str]) -> Iterator[Object]:
    """The rules of one right. Without `names` it is for objects of every name."""
    base = {"apiGroups": [kind.group], "resources": [kind.plural]}
    unlimited = [verb for verb in verbs if not names or verb in NAMELESS_VERBS]
    limited = [verb for verb in verbs if verb not in unlimited]
    if unlimited:
        yield {**base, "verbs": unlimited}
    if limited:
        yield {**base, "resourceNames": list(names), "verbs": limited}
