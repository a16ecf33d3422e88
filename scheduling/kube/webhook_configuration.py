"""Our ValidatingWebhookConfiguration in a cluster: its manifest, its installation, and the comparison of the installed
one with the manifest.

Only objects that claim something of ours are sent to webhooks that fail closed, so that an outage of ours holds up
nobody else's work. Webhooks about other software's objects ignore failures, and wait one second for an answer.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.domain.cluster import review_conditions
from scheduling.domain.cluster.naming import FIELD_MANAGER, MANAGED_BY_LABEL
from scheduling.domain.cluster.pods.gpu_pod import WORKER_LABEL, WORKER_VALUE
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import Cluster, ClusterReader, ResourceKind

TIMEOUT_SECONDS = 5
TIMEOUT_FOR_OTHERS_SECONDS = 1
"""The time for which an API server waits for our answer where it goes on without one."""

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")
SELF_SUBJECT_REVIEW = ResourceKind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_SELECTORS = ("namespaceSelector", "objectSelector")  # an added key would exempt objects
_FAIL, _IGNORE = "Fail", "Ignore"
_CREATE, _UPDATE, _CHANGE = ("CREATE",), ("UPDATE",), ("CREATE", "UPDATE")
_PATH = re.compile(r"(?P<base>.*)/webhooks/(?:pod|podgroup|gpu_quota)/(?P<backend>[^/]+)(?:/[^/]+)?/?")


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Our address for the API server: a URL, or a Service in the cluster. `ca_certificate` are the PEM certificates
    that the API server must trust: during a change of the authority the new one and the old one."""

    ca_certificate: str
    url: str = ""
    service: tuple[str, str] | None = None
    port: int = 443


@dataclass(frozen=True, slots=True)
class WebhookSpec:
    """The desired webhooks of one backend. `namespace` is that of its work, `mark` the unguessable part of each
    address. `fails_closed`: the API server refuses what claims something of ours while we do not answer.
    `namespace_selector` is a label selector in the API's form; None: every namespace except the system's.
    `gpu_namespaces` are the namespaces with a GPU quota. `accounts` are the users and groups whose changes of our own
    objects are not sent, our own among them; without any nobody's are. `shard_key` is the label by which a shard
    of KAI selects its objects."""

    backend: str
    namespace: str
    mark: str
    address: WebhookAddress
    fails_closed: bool
    namespace_selector: Mapping[str, Any] | None = field(default=None)
    gpu_namespaces: Sequence[str] = ()
    accounts: Sequence[str] = ()
    shard_key: str = ""


def configuration_name(backend: str) -> str:
    """The configuration's name in the cluster; a cluster that serves several backends has several."""
    return f"osmo-admin-{backend}"


def webhook_configuration(spec: WebhookSpec) -> Object:
    """The manifest of all webhooks of a backend."""
    return {
        "metadata": {"name": configuration_name(spec.backend), "labels": {MANAGED_BY_LABEL: FIELD_MANAGER}},
        "webhooks": list(_webhooks(spec)),
    }


def _webhooks(spec: WebhookSpec) -> Iterator[Object]:
    pods = ("", "v1", ("pods", "pods/status"))  # an update of the status may change labels and annotations too
    group = resource_kinds.POD_GROUP
    groups = (group.group, group.version, (group.plural,))
    has_quota = review_conditions.in_namespaces(spec.gpu_namespaces)
    worker = {"matchLabels": {WORKER_LABEL: WORKER_VALUE}}
    claims = {"claims-something-of-osmo": review_conditions.pod_claims(spec.namespace)}
    yield _webhook(spec, "pod", "pod", pods, claims)
    claims = {"claims-something-of-osmo": review_conditions.pod_group_claims(spec.namespace)}
    yield _webhook(spec, "podgroup", "podgroup", groups, claims)
    unusual = {"has-unusual-minimums": review_conditions.unusual_minimums(spec.namespace)}
    yield _webhook(spec, "podgroup-minimums", "podgroup", groups, unusual, is_about_others=True)
    new = {"is-a-new-worker": review_conditions.new_worker()}
    inside, outside = {"namespace-has-a-quota": has_quota}, {"namespace-has-no-quota": f"!({has_quota})"}
    yield _webhook(spec, "gpu-quota", "gpu_quota", pods, inside | new, objects=worker)
    # A quota that is newer than this configuration is checked too, as long as we answer.
    yield _webhook(spec, "gpu-quota-elsewhere", "gpu_quota", pods, outside | new, objects=worker, is_about_others=True)
    # A binding does not show the labels of its pod. Pods that are bound unseen are counted when they are observed.
    bindings = ("", "v1", ("pods/binding",))
    yield _webhook(spec, "gpu-quota-binding", "gpu_quota", bindings, inside, operations=_CREATE, is_about_others=True)
    if not spec.accounts:
        return
    # They fail open: a change that passes meanwhile is put back.
    for name, resource, condition in (
        ("pod", pods, review_conditions.pod_changes),
        ("podgroup", groups, review_conditions.pod_group_changes),
    ):
        changes = {"changes-something-of-osmo": condition(spec.namespace, spec.accounts, spec.shard_key)}
        yield _webhook(spec, f"{name}-changes", name, resource, changes, operations=_UPDATE, is_about_others=True)


def _webhook(
    spec: WebhookSpec,
    name: str,
    path: str,
    resource: tuple[str, str, tuple[str, ...]],
    conditions: Mapping[str, str],
    *,
    operations: Sequence[str] = _CHANGE,
    objects: Mapping[str, Any] | None = None,
    is_about_others: bool = False,
) -> Object:
    group, version, resources = resource
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(resources),
        "scope": "Namespaced",
    }
    outside = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SYSTEM_NAMESPACES)}
        ]
    }
    return {
        "name": f"{name}.{spec.backend}.osmo-admin.local",
        "clientConfig": _client(spec, f"/webhooks/{path}/{spec.backend}/{spec.mark}"),
        "rules": [rule],
        "failurePolicy": _FAIL if spec.fails_closed and not is_about_others else _IGNORE,
        "matchPolicy": "Equivalent",
        "namespaceSelector": dict(spec.namespace_selector) if spec.namespace_selector is not None else outside,
        "objectSelector": dict(objects or {}),
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_FOR_OTHERS_SECONDS if is_about_others else TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": key, "expression": expression} for key, expression in conditions.items()],
    }


def _client(spec: WebhookSpec, path: str) -> Object:
    client: Object = {"caBundle": base64.b64encode(spec.address.ca_certificate.encode()).decode()}
    if spec.address.service is not None:
        namespace, service = spec.address.service
        client["service"] = {"namespace": namespace, "name": service, "path": path, "port": spec.address.port}
    else:
        client["url"] = spec.address.url.rstrip("/") + path
    return client


def install_configuration(cluster: Cluster, spec: WebhookSpec) -> None:
    """Install or update the configuration; webhooks that others added to it are removed. Raises ClusterError."""
    body = webhook_configuration(spec)
    name = configuration_name(spec.backend)
    try:
        cluster.merge(resource_kinds.VALIDATING_WEBHOOK, name, body, field_manager=FIELD_MANAGER)
    except errors.ObjectNotFound:
        cluster.create(resource_kinds.VALIDATING_WEBHOOK, body, field_manager=FIELD_MANAGER)


def remove_configuration(cluster: Cluster, backend: str) -> bool:
    """Delete the configuration; False when there was none."""
    try:
        cluster.delete(resource_kinds.VALIDATING_WEBHOOK, configuration_name(backend))
    except errors.ObjectNotFound:
        return False
    return True


def read_configuration(cluster: ClusterReader, backend: str) -> Object | None:
    """The installed configuration; None when there is none. Raises ClusterError."""
    try:
        return cluster.get(resource_kinds.VALIDATING_WEBHOOK, configuration_name(backend))
    except errors.ObjectNotFound:
        return None


def configuration_differences(installed: ReadOnlyObject, spec: WebhookSpec) -> list[str]:
    """What differs between the installed configuration and the desired one, one sentence for each webhook. No sentence
    contains the mark."""
    there = {str(hook.get("name")): hook for hook in installed.get("webhooks") or []}
    wanted = {hook["name"]: hook for hook in webhook_configuration(spec)["webhooks"]}
    found = []
    for name, hook in wanted.items():
        if name not in there:
            found.append(f"Webhook {name} is missing.")
        elif fields := [key for key, value in hook.items() if not _is_as_wanted(key, there[name].get(key), value)]:
            found.append(f"Webhook {name} differs in {', '.join(fields)}.")
    return found + [f"Webhook {name} is not one of ours." for name in there if name not in wanted]


def _is_as_wanted(key: str, installed: Any, wanted: Any) -> bool:
    return bool((installed or {}) == wanted) if key in _SELECTORS else _contains(installed, wanted)


def _contains(installed: Any, wanted: Any) -> bool:
    """Whether the installed value has everything wanted. The API server fills in defaults of its own in maps."""
    if isinstance(wanted, Mapping):
        return isinstance(installed, Mapping) and all(_contains(installed.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(installed, list) and len(installed) == len(wanted) and all(map(_contains, installed, wanted))
    return bool(installed == wanted)


@dataclass(frozen=True, slots=True)
class InstalledWebhook:
    """Our configuration as it is in a cluster. `fails_closed`: while we do not answer, nobody uses our queues."""

    address: WebhookAddress
    fails_closed: bool
    namespace_selector: Mapping[str, Any] | None


def read_installed(configuration: ReadOnlyObject, backend: str) -> InstalledWebhook | None:
    """Address and policy of an installed configuration; None if its first webhook does not call this backend's."""
    hooks = configuration.get("webhooks") or []
    hook = next((each for each in hooks if str(each.get("name", "")).startswith(f"pod.{backend}.")), None)
    client = (hook or {}).get("clientConfig") or {}
    service = client.get("service") or {}
    found = _PATH.fullmatch(client.get("url") or service.get("path") or "")
    if hook is None or found is None or found["backend"] != backend:
        return None
    authorities = base64.b64decode(client.get("caBundle") or "").decode(errors="replace")
    if service:
        address = WebhookAddress(
            authorities, service=(service["namespace"], service["name"]), port=int(service.get("port") or 443)
        )
    else:
        address = WebhookAddress(authorities, url=found["base"])
    selector = hook.get("namespaceSelector")
    is_default = any(
        each.get("values") == list(SYSTEM_NAMESPACES) for each in (selector or {}).get("matchExpressions") or []
    )
    return InstalledWebhook(address, hook.get("failurePolicy") == _FAIL, None if is_default else selector)


def read_own_username(cluster: Cluster) -> str:
    """Our user name in this cluster; empty when the cluster does not report it."""
    try:
        answer = cluster.create(SELF_SUBJECT_REVIEW, {"metadata": {}}, field_manager=FIELD_MANAGER)
    except (errors.KindMissing, errors.ObjectNotFound, errors.AccessDenied):
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")
