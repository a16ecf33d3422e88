"""Names and labels of what the house makes for a gang (OSMO contract, section 10).

Every name derives from ids of ours, so that making an object again meets the one that is there. Everything carries
:data:`HOUSE` with the identity of the backend's row: what does not carry it was made by somebody else and is never
touched, not even looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from scheduling.domain.priorities import Priority

INSTALLATION_LABEL = "osmo.house"
FIELD_MANAGER = "osmo-admin"
"""The field manager of all that we write."""

OBSERVED_FINALIZER = "osmo-admin/seen"
"""A pod's finalizer: it cannot vanish before we have seen how it ended, whoever deletes it and however long we were
away. So a try that is gone is never mistaken for one that was never made."""

POD_GROUP_OF_POD = "pod-group-name"
SUB_GROUP_OF_POD = "kai.scheduler/subgroup-name"
GROUP_UUID = "osmo.group_uuid"
TASK_UUID = "osmo.task_uuid"
PLATFORM = "osmo.platform"
GPU_RESOURCE = "nvidia.com/gpu"
MAX_LABEL_LENGTH = 63

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]")
_NOT_IN_HOSTS = re.compile(r"[^a-z0-9-]")


@dataclass(frozen=True, slots=True)
class DispatchTarget:
    """Where the objects of a leaf's work go on one backend: its namespace, its leaf queue, who places its pods. `shard`
    is the label by which a scheduler shard of KAI finds its objects."""

    installation: str
    namespace: str
    queue: str
    scheduler: str = "kai-scheduler"
    shard: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GangOrigin:
    """Whose gang it is: the workflow's and the group's names and ids, as labels tell them."""

    workflow: str
    workflow_uuid: UUID
    group: str
    group_uuid: UUID
    submitted_by: str
    pool: str
    priority: Priority


def pod_group_name(group: UUID) -> str:
    """The PodGroup of a gang, the same for every try."""
    return str(group)


def pod_name(task: UUID) -> str:
    """The pod of one try of one task."""
    return str(task)


def files_secret_name(group: UUID, position: int) -> str:
    """The Secret with the files of a gang's task, the same for every try."""
    return f"{group}-{position}"


def service_name(group: UUID) -> str:
    """The Service by which pods of a gang find each other; such a name begins with a letter."""
    return f"gang-{group}"


def host_name(task: str, position: int) -> str:
    """A task's host name and its container's. Task names differ by more than case and `_` against `-`, so hosts of one
    gang differ too; of those cut short the position tells them apart."""
    name = _NOT_IN_HOSTS.sub("-", task.lower()).strip("-")
    if len(name) <= MAX_LABEL_LENGTH:
        return name
    end = f"-{position}"
    return name[: MAX_LABEL_LENGTH - len(end)].rstrip("-") + end


def credential_secret_name(credential: str) -> str:
    """The Secret that a workflow file's credential names; object names know lower-case letters, digits, `-`, `.`."""
    return re.sub(r"[^a-z0-9.-]", "-", credential.lower()).strip("-.")


def label_value(text: str) -> str:
    """The text as a label may hold it: at most 63 of letters, digits, `.`, `_` and `-`, ends alphanumeric."""
    return _NOT_IN_LABELS.sub("_", text)[:MAX_LABEL_LENGTH].strip("._-")


def installation_selector(installation: str) -> str:
    """Selects what this house made on this backend, and nothing else."""
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
    """The id that a label holds; None where there is none that can be read."""
    try:
        return UUID((labels or {}).get(key, ""))
    except ValueError:
        return None
