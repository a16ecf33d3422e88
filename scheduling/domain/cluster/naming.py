"""Names and labels of the objects that we create for a gang (design, O9).

Every name derives from our ids, so that a repeated creation meets the existing object. Every object carries
:data:`INSTALLATION_LABEL` with the identity of the backend's row. Objects without it belong to others; we neither read
nor change them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from scheduling.domain.priorities import Priority

INSTALLATION_LABEL = "osmo.house"
FIELD_MANAGER = "osmo-admin"
"""The field manager of all our writes, and the value of :data:`MANAGED_BY_LABEL`."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"

OBSERVED_FINALIZER = "osmo-admin/seen"
"""The finalizer of a pod. A pod that anyone deletes stays until we have observed its end, however long we were away. So
a deleted attempt is never mistaken for an attempt without a pod."""

POD_GROUP_OF_POD = "pod-group-name"
SUB_GROUP_OF_POD = "kai.scheduler/subgroup-name"
GROUP_UUID = "osmo.group_uuid"
TASK_UUID = "osmo.task_uuid"
PLATFORM = "osmo.platform"
MAX_LABEL_LENGTH = 63

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]")
_NOT_IN_HOSTS = re.compile(r"[^a-z0-9-]")


@dataclass(frozen=True, slots=True)
class DispatchTarget:
    """The target of a leaf's work on one backend: its namespace, its leaf queue, the scheduler of its pods. `shard` is
    the label by which a scheduler shard of KAI selects its objects, None for the shard of objects without the label
    `shard_key`."""

    installation: str
    namespace: str
    queue: str
    scheduler: str = "kai-scheduler"
    shard: tuple[str, str] | None = None
    shard_key: str = ""


@dataclass(frozen=True, slots=True)
class GangOrigin:
    """The workflow and the group of a gang, with the names and ids for its labels."""

    workflow: str
    workflow_uuid: UUID
    group: str
    group_uuid: UUID
    submitted_by: str
    pool: str
    priority: Priority


def pod_group_name(group: UUID) -> str:
    """The name of the PodGroup of a gang, equal for every attempt."""
    return str(group)


def pod_name(task: UUID) -> str:
    """The name of the pod of one attempt of a task."""
    return str(task)


def files_secret_name(group: UUID, position: int) -> str:
    """The name of the Secret with the files of a task, equal for every attempt."""
    return f"{group}-{position}"


def service_name(group: UUID) -> str:
    """The name of the Service that gives the pods of a gang addresses; such a name begins with a letter."""
    return f"gang-{group}"


def host_name(task: str, position: int) -> str:
    """The host name of a task, also the name of its container. Task names of a gang differ in more than case and `_`
    against `-`, so their host names differ too; a shortened name ends with the position."""
    name = _NOT_IN_HOSTS.sub("-", task.lower()).strip("-")
    if len(name) <= MAX_LABEL_LENGTH:
        return name
    end = f"-{position}"
    return name[: MAX_LABEL_LENGTH - len(end)].rstrip("-") + end


def credential_secret_name(credential: str) -> str:
    """The name of the Secret for a credential of a workflow file: lower-case letters, digits, `-`, `.`."""
    return re.sub(r"[^a-z0-9.-]", "-", credential.lower()).strip("-.")


def label_value(text: str) -> str:
    """The text as a label may hold it: at most 63 of letters, digits, `.`, `_` and `-`, ends alphanumeric."""
    return _NOT_IN_LABELS.sub("_", text)[:MAX_LABEL_LENGTH].strip("._-")


def installation_selector(installation: str) -> str:
    """A label selector for the objects that this installation created on this backend."""
    return f"{INSTALLATION_LABEL}={installation}"


def gang_labels(target: DispatchTarget, origin: GangOrigin) -> dict[str, str]:
    """Labels of all objects of a gang."""
    labels = {
        INSTALLATION_LABEL: target.installation,
        "kai.scheduler/queue": target.queue,
        "runai/queue": target.queue,
        "osmo.workflow_id": label_value(origin.workflow),
        "osmo.workflow_uuid": str(origin.workflow_uuid),
        "osmo.group_name": label_value(origin.group),
        GROUP_UUID: str(origin.group_uuid),
        "osmo.submitted_by": label_value(origin.submitted_by),
        "osmo.pool": label_value(origin.pool),
        "osmo.priority": origin.priority.lower(),
    }
    if target.shard is not None:
        key, value = target.shard
        labels[key] = value
    return labels


def read_uuid_label(labels: Mapping[str, str] | None, key: str) -> UUID | None:
    """The id in a label; None without a valid id."""
    try:
        return UUID((labels or {}).get(key, ""))
    except ValueError:
        return None


def root_queue_name(namespace: str) -> str:
    """The name of the queue above all our queues."""
    return f"osmo-default-{namespace}"
