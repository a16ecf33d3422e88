"""The pod of one attempt of a task, with the Secret of its files and the Service for the host names of its gang."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pools.domain.configuration.flavors import GPU_RESOURCE
from scheduling.domain.cluster import naming
from scheduling.domain.cluster.naming import DispatchTarget, GangOrigin, gang_labels
from scheduling.domain.cluster.pods.tokens import INPUT_DIRECTORY, OUTPUT_DIRECTORY, TokenValues, has_host_token
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.workflow_spec import TaskSpec

DEFAULT_PLATFORM = "default"
_HOST_NAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class PodAttempt:
    """One attempt of a task as it was admitted: the amounts of this pod, and the `spec` of its container. `position` is
    the position of the task in the gang, `sub_group` its leaf in the tree of the gang, `flavor_terms` the
    conditions on the labels of its nodes of which one has to hold, by its GPU flavor."""

    uuid: UUID
    retry: int
    position: int
    spec: TaskSpec
    gpus: int = 0
    cpu: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    platform: str = DEFAULT_PLATFORM
    nodes_excluded: Sequence[str] = ()
    sub_group: str = ""
    flavor_terms: Sequence[Sequence[Object]] = ((),)


@dataclass(frozen=True, slots=True)
class GangContext:
    """The common values of the pods of a gang. `avoided` are match expressions of a node affinity by which pods with
    GPUs keep away from nodes whose GPUs do not count. `service` is the Service for their host names, empty if no task
    needs one; `env_vars` came with the request, apart from the file."""

    target: DispatchTarget
    origin: GangOrigin
    tokens: TokenValues
    env_vars: Mapping[str, str]
    service: str = ""
    avoided: Sequence[Object] = ()


def gang_context(
    target: DispatchTarget,
    origin: GangOrigin,
    attempts: Sequence[PodAttempt],
    env_vars: Mapping[str, str],
    avoided: Sequence[Object] = (),
) -> GangContext:
    """The common values for these tasks of one gang. Pods reach each other by `host.service` inside their namespace."""
    needs_service = any(has_host_token(_texts(task.spec)) for task in attempts)
    service = naming.service_name(origin.group_uuid) if needs_service else ""
    hosts = {task.spec.name: f"{naming.host_name(task.spec.name, task.position)}.{service}" for task in attempts}
    tokens = TokenValues(origin.workflow, str(origin.workflow_uuid), hosts)
    return GangContext(target, origin, tokens, dict(env_vars), service, avoided)


def pod_manifest(context: GangContext, attempt: PodAttempt) -> Object:
    """The manifest of the pod."""
    spec, site, origin = attempt.spec, context.target, context.origin
    host = naming.host_name(spec.name, attempt.position)
    sub_group = {naming.SUB_GROUP_OF_POD: attempt.sub_group} if attempt.sub_group else {}
    lead = {"osmo.lead_container": "true"} if spec.lead else {}
    volumes, mounts = _volumes(origin.group_uuid, attempt)
    return {
        "metadata": {
            "name": naming.pod_name(attempt.uuid),
            "namespace": site.namespace,
            "labels": gang_labels(site, origin)
            | {
                naming.MANAGED_BY_LABEL: naming.FIELD_MANAGER,
                "osmo.task_name": naming.label_value(spec.name),
                naming.TASK_UUID: str(attempt.uuid),
                "osmo.retry_id": str(attempt.retry),
                naming.PLATFORM: naming.label_value(attempt.platform),
                **sub_group,
                **lead,
            },
            "annotations": {naming.POD_GROUP_OF_POD: naming.pod_group_name(origin.group_uuid)},
            # No owner: KAI groups pods with an owner by itself and would remove them from our PodGroup.
            "finalizers": [naming.OBSERVED_FINALIZER],
        },
        "spec": {
            "schedulerName": site.scheduler,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,  # users' code has no business with the API server
            "enableServiceLinks": False,
            **({"hostname": host, "subdomain": context.service} if context.service else {}),
            **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if spec.host_network else {}),
            "affinity": {"nodeAffinity": _nodes(attempt, context.avoided if attempt.gpus else ())},
            # Clusters often taint their GPU nodes against pods that request no GPU.
            **({"tolerations": [{"key": GPU_RESOURCE, "operator": "Exists"}]} if attempt.gpus else {}),
            "containers": [
                {
                    "name": host,
                    "image": spec.image,
                    "command": [_literal(context.tokens.fill(text)) for text in spec.command],
                    "args": [_literal(context.tokens.fill(text)) for text in spec.args],
                    "env": _environment(context, spec),
                    "resources": _amounts(attempt),
                    "volumeMounts": mounts,
                    **({"securityContext": {"privileged": True}} if spec.privileged else {}),
                }
            ],
            "volumes": volumes,
        },
    }


def files_secret_manifest(context: GangContext, attempt: PodAttempt, owner: Object) -> Object | None:
    """The Secret with the files of the task; None without files. Kubernetes deletes it with the PodGroup `owner`."""
    if not attempt.spec.files:
        return None
    data = {f"file-{position}": _content(context.tokens, file) for position, file in enumerate(attempt.spec.files)}
    metadata = _owned_metadata(context, naming.files_secret_name(context.origin.group_uuid, attempt.position), owner)
    return {"metadata": metadata, "type": "Opaque", "data": data}


def service_manifest(context: GangContext, owner: Object) -> Object | None:
    """The headless Service of a gang whose pods address each other, also before they are ready; else None."""
    if not context.service:
        return None
    return {
        "metadata": _owned_metadata(context, context.service, owner),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {naming.GROUP_UUID: str(context.origin.group_uuid)},
        },
    }


def _owned_metadata(around: GangContext, name: str, owner: Object) -> Object:
    return {
        "name": name,
        "namespace": around.target.namespace,
        "labels": gang_labels(around.target, around.origin) | {naming.MANAGED_BY_LABEL: naming.FIELD_MANAGER},
        "ownerReferences": [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
        ],
    }


def _literal(text: str) -> str:
    """The text escaped for Kubernetes, which expands `$(NAME)` and turns `$$` (a process id in shells) into `$`."""
    return text.replace("$", "$$")


def _environment(around: GangContext, spec: TaskSpec) -> list[Object]:
    plain = {name: around.tokens.fill(text) for name, text in (dict(spec.environment) | dict(around.env_vars)).items()}
    entries: list[Object] = [{"name": name, "value": _literal(text)} for name, text in plain.items()]
    for credential, use in spec.credentials.items():
        if isinstance(use, Mapping):
            secret = naming.credential_secret_name(credential)
            entries += [
                {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
                for name, key in use.items()
                if name not in plain
            ]
    return entries


def _amounts(task: PodAttempt) -> Object:
    """Requests equal limits: the pod gets exactly the admitted amounts. 0 means "not given"."""
    amounts = {
        GPU_RESOURCE: task.gpus,
        "cpu": task.cpu,
        "memory": task.memory_bytes,
        "ephemeral-storage": task.storage_bytes,
    }
    given = {name: str(amount) for name, amount in amounts.items() if amount}
    return {"requests": given, "limits": given} if given else {}


def _nodes(task: PodAttempt, avoided: Sequence[Object]) -> Object:
    """Only nodes of the task's platform (a node without the label has the platform `default`) and of its GPU flavor,
    without excluded and avoided nodes."""
    excluded = (
        [{"key": _HOST_NAME, "operator": "NotIn", "values": sorted(task.nodes_excluded)}] if task.nodes_excluded else []
    )
    of_platform = {"key": naming.PLATFORM, "operator": "In", "values": [naming.label_value(task.platform)]}
    choices = [of_platform]
    if task.platform == DEFAULT_PLATFORM:
        choices.append({"key": naming.PLATFORM, "operator": "DoesNotExist"})
    terms = [
        {"matchExpressions": [choice, *excluded, *avoided, *term]} for choice in choices for term in task.flavor_terms
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _volumes(group: UUID, task: PodAttempt) -> tuple[list[Object], list[Object]]:
    volumes: list[Object] = [{"name": "input", "emptyDir": {}}, {"name": "output", "emptyDir": {}}]
    mounts: list[Object] = [
        {"name": "input", "mountPath": INPUT_DIRECTORY},
        {"name": "output", "mountPath": OUTPUT_DIRECTORY},
    ]
    spec = task.spec
    if spec.files:
        secret = naming.files_secret_name(group, task.position)
        volumes.append({"name": "files", "secret": {"secretName": secret, "defaultMode": 0o755}})
        mounts += [
            {"name": "files", "mountPath": file["path"], "subPath": f"file-{position}"}
            for position, file in enumerate(spec.files)
        ]
    directories = [(name, use) for name, use in spec.credentials.items() if isinstance(use, str)]
    for position, (credential, directory) in enumerate(directories):
        name = f"credential-{position}"
        volumes.append({"name": name, "secret": {"secretName": naming.credential_secret_name(credential)}})
        mounts.append({"name": name, "mountPath": directory, "readOnly": True})
    for position, mount in enumerate(spec.volume_mounts):
        source, _, target = mount.partition(":")
        volumes.append({"name": f"host-{position}", "hostPath": {"path": source}})
        mounts.append({"name": f"host-{position}", "mountPath": target or source})
    return volumes, mounts


def _content(tokens: TokenValues, file: Mapping[str, Any]) -> str:
    """The content of a file for a Secret. Invalid base64 counts as a text."""
    text = file["contents"]
    if file.get("base64"):
        try:
            return base64.b64encode(base64.b64decode("".join(text.split()), validate=True)).decode()
        except binascii.Error:
            pass
    return base64.b64encode(tokens.fill(text).encode()).decode()


def _texts(spec: TaskSpec) -> Iterator[str]:
    yield from spec.command
    yield from spec.args
    yield from spec.environment.values()
    yield from (file["contents"] for file in spec.files if not file.get("base64"))
