"""Our pods among those of a cluster: the open task, the backend and the namespace must agree. Labels alone prove
nothing, because anybody who may create a pod can write them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from pools.models import Backend
from scheduling.domain.cluster.pods.gpu_pod import claimed_task
from scheduling.domain.kubernetes_json import ReadOnlyObject
from scheduling.domain.statuses import UNFINISHED_TASK_STATUSES
from scheduling.models import Task


def own_tasks(backend: Backend, namespace: str, pods: Iterable[ReadOnlyObject]) -> set[UUID]:
    """The open tasks of this backend whose pods are among these pods of one namespace. No query where none claims to be
    ours."""
    if namespace != backend.namespace:
        return set()
    claimed = {task for pod in pods if (task := claimed_task(pod)) is not None}
    if not claimed:
        return set()
    found = Task.objects.filter(
        pk__in=claimed, status__in=UNFINISHED_TASK_STATUSES, group__workflow__root_pool__backend=backend
    )
    return set(found.values_list("pk", flat=True))
