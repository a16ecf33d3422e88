"""The gangs that have, or should have, objects in a cluster; and what the cluster shows of each beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pools.domain import names
from pools.models import Backend
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.models import Group, Task

STATUSES_IN_CLUSTER = (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING, TaskStatus.RUNNING)
"""A gang has objects in its cluster from the moment it may start to its end."""


@dataclass(frozen=True, slots=True)
class OpenGang:
    """A gang from the moment it may start to its end. `queue` is the Kubernetes name of its leaf's queue today; `tries`
    are its open tries, with what is needed to compare them with pods."""

    group: UUID
    status: TaskStatus
    queue: str
    has_tree: bool
    waiting_reason: Mapping[str, Any] | None
    attempts: tuple[Task, ...]


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
    tries: dict[UUID, list[Task]] = defaultdict(list)
    open_tries = Task.objects.filter(group__in=[row[0] for row in found], status__in=UNFINISHED_TASK_STATUSES)
    for task in open_tries.order_by("position").only("group_id", "status", "node_name", "pod_ip", "dispatched_at"):
        tries[task.group_id].append(task)
    return {
        group: OpenGang(
            group,
            TaskStatus(status),
            names.k8s_queue_name(names.queue_name(backend.namespace, root, leaf or names.SHARED_QUEUE)),
            tree is not None,
            reason,
            tuple(tries[group]),
        )
        for group, status, tree, reason, root, leaf in found
    }
