"""Sends gangs again in another GPU flavor, which the scheduler of the cluster cannot place in the one that they got.

Pods of a gang go to nodes of the flavor that the gang got before its dispatch, so free GPUs of another flavor do not
help it. After some time without a node its attempts end, new ones follow, and the dispatch chooses a flavor anew. This
happens only where the nodes of its flavor have no room for it, and those of another one have, so it does not repeat
without progress. The gang keeps its place in the order of its pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from pools.database.transactions import DatabaseLost, change, database_time
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_pool_tree
from pools.models import Backend
from scheduling.domain.statuses import UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.models import Group, Task
from scheduling.services.kubernetes.dispatching.dispatch_admission import (
    MAX_GANGS_PER_TRANSACTION,
    lock_gate,
    read_tasks,
)
from scheduling.services.kubernetes.dispatching.observation import ObservedTransition

PATIENCE = timedelta(seconds=60)
"""How long a gang waits for a node in one flavor. The cluster may take GPUs back for it meanwhile."""


def try_other_flavors(backend: Backend) -> int:
    """Send gangs again that have room in another flavor; returns their number. Pools that are locked by others are left
    to the next call."""
    sent_before = database_time() - PATIENCE
    open_tasks = Task.objects.filter(group=OuterRef("pk"), status__in=UNFINISHED_TASK_STATUSES, gpu_count__gt=0)
    is_not_due = ~Q(status=TaskStatus.SCHEDULING) | Q(dispatched_at=None) | Q(dispatched_at__gt=sent_before)
    rows = Group.objects.filter(
        Exists(open_tasks), ~Exists(open_tasks.filter(is_not_due)), status=TaskStatus.SCHEDULING,
        workflow__root_pool__backend=backend,
    ).exclude(workflow__root_pool__flavors=[])  # fmt: skip
    by_root: dict[int, list[tuple[UUID, UUID]]] = defaultdict(list)
    rows = rows.order_by("ready_at", "pk")
    for group, workflow, root_id in rows.values_list("pk", "workflow_id", "workflow__root_pool_id"):
        by_root[root_id].append((group, workflow))
    number = 0
    for root_id, gangs in sorted(by_root.items()):
        for first in range(0, len(gangs), MAX_GANGS_PER_TRANSACTION):
            try:
                number += _try_in_tree(backend, root_id, gangs[first : first + MAX_GANGS_PER_TRANSACTION])
            except DatabaseLost:
                raise
            except Busy:
                continue
    return number


def _try_in_tree(backend: Backend, root_id: int, gangs: Sequence[tuple[UUID, UUID]]) -> int:
    with change(actor=SYSTEM, description="sent again in another GPU flavor", controller_of=backend.pk):
        root = lock_pool_tree(root_id)
        root.backend = backend
        gate = lock_gate(root)
        if gate is None:
            return 0
        work = ObservedTransition(root, {workflow for _, workflow in gangs}, now=database_time())
        tasks = read_tasks([group for group, _ in gangs])
        number = 0
        for pk, workflow in gangs:
            group = next((each for each in work.groups.get(workflow, {}).values() if each.pk == pk), None)
            if group is None or any(task.status != TaskStatus.SCHEDULING for task in work.attempts.open_attempts(pk)):
                continue
            if tasks.get(pk) and gate.finds_other_flavor(group, tasks[pk]):
                work.send_again(group)
                number += 1
        work.save()
        return number
