"""Our ValidatingWebhookConfiguration in a cluster: its manifest, its installation, and reading the installed one.

Only objects that name a queue or a gang are sent to us, so that an outage of ours blocks no other pods.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.domain.cluster.gpu_pod import WORKER_LABEL, WORKER_VALUE
from scheduling.domain.cluster.naming import FIELD_MANAGER, POD_GROUP_OF_POD
from scheduling.domain.cluster.queue_access import QUEUE_LABELS
from scheduling.domain.kubernetes_json import Object
from scheduling.kube import errors, resource_kinds
from scheduling.kube.port import Cluster, ResourceKind

TIMEOUT_SECONDS = 5
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
_BINDING = "gpu-quota-binding"
SELF_SUBJECT_REVIEW = ResourceKind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Our address for the API server: a URL, or a Service in the cluster. `ca_certificate` is the PEM that the API
    server must trust."""

    ca_certificate: str
    url: str = ""
    service: tuple[str, str] | None = None
    port: int = 443


@dataclass(frozen=True, slots=True)
class WebhookSpec:
    """The desired webhooks of one backend. `fails_closed`: the API server refuses while we do not answer.
    `namespace_selector` is a label selector in the API's form; None: every namespace except the system's."""

    backend: str
    address: WebhookAddress
    fails_closed: bool
    namespace_selector: Mapping[str, Any] | None = field(default=None)
    gpu_quota_token: str = ""
    """The token that proves which cluster calls; without a token there are no webhooks for GPU quota."""


def configuration_name(backend: str) -> str:
    """The configuration's name in the cluster; a cluster that serves several backends has several."""
    return f"osmo-admin-{backend}"


def webhook_configuration(spec: WebhookSpec) -> Object:
    """The manifest. Pods are sent when they name a queue or a gang, PodGroups always."""
    labelled = [f"has(object.metadata.labels) && '{label}' in object.metadata.labels" for label in QUEUE_LABELS]
    annotated = f"has(object.metadata.annotations) && '{POD_GROUP_OF_POD}' in object.metadata.annotations"
    names_queue_or_gang = " || ".join(f"({part})" for part in (*labelled, annotated))
    return {
        "metadata": {
            "name": configuration_name(spec.backend),
            "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
        },
        "webhooks": [
            _webhook(spec, "pod", "", "v1", "pods", names_queue_or_gang),
            _webhook(
                spec,
                "podgroup",
                resource_kinds.POD_GROUP.group,
                resource_kinds.POD_GROUP.version,
                resource_kinds.POD_GROUP.plural,
                "",
            ),
            *(_gpu_webhooks(spec) if spec.gpu_quota_token else ()),
        ],
    }


def _gpu_webhooks(spec: WebhookSpec) -> list[Object]:
    """GPU quota is checked when a worker's pod is created, and when any pod is bound: a binding does not show its pod's
    labels. While we do not answer, bindings are allowed; their pods are counted when they are observed."""
    pods = _webhook(spec, "gpu_quota", "", "v1", "pods", "")
    pods["rules"][0]["operations"] = ["CREATE"]
    pods["objectSelector"] = {"matchLabels": {WORKER_LABEL: WORKER_VALUE}}
    bindings = _webhook(spec, "gpu_quota", "", "v1", "pods/binding", "")
    bindings["rules"][0]["operations"] = ["CREATE"]
    bindings["failurePolicy"] = "Ignore"
    for name, webhook in (("gpu-quota", pods), (_BINDING, bindings)):
        webhook["name"] = f"{name}.{spec.backend}.osmo-admin.local"
        _set_path(webhook["clientConfig"], f"/webhooks/gpu_quota/{spec.backend}/{spec.gpu_quota_token}", spec)
    return [pods, bindings]


def _set_path(client: Object, path: str, spec: WebhookSpec) -> None:
    if "service" in client:
        client["service"]["path"] = path
    else:
        client["url"] = spec.address.url.rstrip("/") + path


def _webhook(spec: WebhookSpec, what: str, group: str, version: str, plural: str, condition: str) -> Object:
    path = f"/webhooks/{what}/{spec.backend}"
    client: Object = {"caBundle": base64.b64encode(spec.address.ca_certificate.encode()).decode()}
    if spec.address.service is not None:
        namespace, service = spec.address.service
        client["service"] = {"namespace": namespace, "name": service, "path": path, "port": spec.address.port}
    else:
        client["url"] = spec.address.url.rstrip("/") + path
    outside = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SYSTEM_NAMESPACES)}
        ]
    }
    webhook: Object = {
        "name": f"{what}.{spec.backend}.osmo-admin.local",
        "clientConfig": client,
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": ["CREATE", "UPDATE"],
                "resources": [plural],
                "scope": "Namespaced",
            }
        ],
        "failurePolicy": "Fail" if spec.fails_closed else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": dict(spec.namespace_selector) if spec.namespace_selector is not None else outside,
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if condition:
        webhook["matchConditions"] = [{"name": "names-a-queue-or-a-gang", "expression": condition}]
    return webhook


def install_configuration(cluster: Cluster, spec: WebhookSpec) -> None:
    """Install or update the configuration. Raises ClusterError."""
    cluster.apply(
        resource_kinds.VALIDATING_WEBHOOK, webhook_configuration(spec), field_manager=FIELD_MANAGER, force=True
    )


def remove_configuration(cluster: Cluster, backend: str) -> bool:
    """Delete the configuration; False when there was none."""
    try:
        cluster.delete(resource_kinds.VALIDATING_WEBHOOK, configuration_name(backend))
    except errors.ObjectNotFound:
        return False
    return True


@dataclass(frozen=True, slots=True)
class InstalledWebhook:
    """Our configuration as it is in a cluster."""

    fails_closed: bool
    address: str
    ca_certificates: frozenset[str]
    """The certificate authorities that the API server trusts, as PEM."""


def read_installed_webhook(cluster: Cluster, backend: str) -> InstalledWebhook | None:
    """The installed configuration; None when there is none."""
    try:
        found = cluster.get(resource_kinds.VALIDATING_WEBHOOK, configuration_name(backend))
    except errors.ObjectNotFound:
        return None
    hooks = found.get("webhooks") or []
    clients = [hook.get("clientConfig") or {} for hook in hooks]
    first = clients[0] if clients else {}
    service = first.get("service") or {}
    address = first.get("url") or f"Service {service.get('namespace')}/{service.get('name')}"
    bundles = {base64.b64decode(client.get("caBundle") or "").decode(errors="replace") for client in clients}
    reviewing = [hook for hook in hooks if not str(hook.get("name", "")).startswith(_BINDING)]
    closed = bool(reviewing) and all(hook.get("failurePolicy") == "Fail" for hook in reviewing)
    return InstalledWebhook(closed, address, frozenset(bundles))


def read_own_username(cluster: Cluster) -> str:
    """Our user name in this cluster; empty when the cluster does not report it."""
    try:
        answer = cluster.create(SELF_SUBJECT_REVIEW, {"metadata": {}}, field_manager=FIELD_MANAGER)
    except (errors.KindMissing, errors.ObjectNotFound, errors.AccessDenied):
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")
