"""The gangs that have, or should have, objects in a cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from pools.domain import names
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import Backend, Node
from scheduling.domain.cluster.diff import OpenAttempt, OpenGang
from scheduling.domain.cluster.naming import pod_name
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.models import Group, Task

Place = tuple[str, str]
"""The platform and the GPU flavor of a node."""

STATUSES_IN_CLUSTER = (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING, TaskStatus.RUNNING)
"""The statuses in which a gang has objects in its cluster."""


def read_open_gangs(backend: Backend, groups: Collection[UUID] | None = None) -> dict[UUID, OpenGang]:
    """The open gangs of a backend (of `groups` only), by id. Two queries."""
    rows = Group.objects.filter(
        status__in=STATUSES_IN_CLUSTER,
        workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
        workflow__root_pool__backend=backend,
    )
    if groups is not None:
        rows = rows.filter(pk__in=groups)
    found = list(
        rows.order_by().values_list(
            "pk",
            "status",
            "gang",
            "waiting_reason",
            "workflow__root_pool__name",
            "workflow__pool__subpool_name",
        )
    )
    attempts = _read_open_attempts([row[0] for row in found])
    return {
        group_id: OpenGang(
            group_id,
            TaskStatus(status),
            names.k8s_queue_name(names.queue_name(backend.namespace, root, leaf or names.SHARED_QUEUE)),
            tree is not None,
            reason,
            tuple(attempts[group_id]),
        )
        for group_id, status, tree, reason, root, leaf in found
    }


def find_open_groups(task_ids: Collection[UUID]) -> set[UUID]:
    """The gangs of those of these attempts that are open; no query for no attempts."""
    if not task_ids:
        return set()
    return set(
        Task.objects.filter(pk__in=task_ids, status__in=UNFINISHED_TASK_STATUSES).values_list("group_id", flat=True)
    )


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that has ended, and whose pod is not known to be gone. `node` is empty where it never had one."""

    task_id: UUID
    node: str
    dispatched_at: datetime


def read_ended_attempts(backend: Backend) -> list[EndedAttempt]:
    """The ended attempts of a backend whose pods may still be in the cluster. One query."""
    rows = _ended_with_pods(backend).order_by().values_list("pk", "node_name", "dispatched_at")
    return [EndedAttempt(task_id, node, at) for task_id, node, at in rows if at is not None]


@dataclass(frozen=True, slots=True)
class EndingPod:
    """A pod whose task has ended, and which still holds GPUs of a node. `place` is the place of the node."""

    name: str
    node: str
    gpus: int
    place: Place


def read_ending_pods(backend: Backend) -> list[EndingPod]:
    """The pods of ended tasks that still hold GPUs of a backend's nodes, the largest first. Two queries."""
    rows = _ended_with_pods(backend).filter(gpu_count__gt=0).exclude(node_name="")
    found = list(rows.order_by("-gpu_count", "node_name", "pk").values_list("pk", "node_name", "gpu_count"))
    nodes = Node.objects.filter(backend=backend, name__in={node for _, node, _ in found})
    places = {name: (platform, flavor) for name, platform, flavor in nodes.values_list("name", "platform", "flavor")}
    return [EndingPod(pod_name(task_id), node, gpus, places[node]) for task_id, node, gpus in found if node in places]


def read_gang_places(groups: Collection[UUID]) -> dict[UUID, set[Place]]:
    """The places of the nodes on which these gangs may have GPUs. One query."""
    tasks = Task.objects.filter(group__in=groups, gpu_count__gt=0, status__in=UNFINISHED_TASK_STATUSES)
    found: dict[UUID, set[Place]] = defaultdict(set)
    for group, platform, flavor, named, of_pool in tasks.values_list(
        "group_id", "platform", "flavor", "gpu_flavors", "group__workflow__root_pool__flavors"
    ):
        choices = named or [each["flavor"] for each in of_pool] or [DEFAULT_FLAVOR]
        found[group].update((platform, each) for each in ([flavor] if flavor else choices))
    return found


def _ended_with_pods(backend: Backend) -> QuerySet[Task]:
    return Task.objects.filter(
        group__workflow__root_pool__backend=backend, dispatched_at__isnull=False, pod_gone_at=None
    ).exclude(status__in=UNFINISHED_TASK_STATUSES)


def _read_open_attempts(group_ids: Collection[UUID]) -> dict[UUID, list[OpenAttempt]]:
    """The open attempts of these gangs, in the order of their tasks."""
    tasks = Task.objects.filter(group__in=group_ids, status__in=UNFINISHED_TASK_STATUSES).order_by("position")
    attempts: dict[UUID, list[OpenAttempt]] = defaultdict(list)
    for task_id, group_id, status, node, pod_ip, dispatched_at in tasks.values_list(
        "pk", "group_id", "status", "node_name", "pod_ip", "dispatched_at"
    ):
        attempts[group_id].append(OpenAttempt(task_id, TaskStatus(status), node, pod_ip, dispatched_at is not None))
    return attempts
