"""Ends the due gangs of a simulated backend: their work is done, or they ran or waited longer than allowed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from pools.database.one_by_one import work_in_batch
from pools.database.transactions import DatabaseLost, change, database_time
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.locking import lock_pool_tree
from pools.models import Backend
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group
from scheduling.services.simulated.apply_plan import StepBody
from scheduling.services.simulated.dirty import mark_unfinished
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_ENDS = 1000  # workflows of one transaction


def due_groups(backend: Backend, now: datetime) -> QuerySet[Group]:
    """The gangs of this backend that are due."""
    return Group.objects.filter(due_at__lte=now, workflow__root_pool__backend=backend)


def end_due_groups(backend: Backend) -> tuple[list[StepBody], Busy | None]:
    """End all due gangs, tree by tree in the order of ids: the steps that were done, each with its pass, and the error
    of the last tree that could not be locked in time.

    A busy tree does not delay the others. Raises DatabaseLost, because the lock of the reconciliation is lost with the
    connection.
    """
    now, passes, busy = database_time(), list[list[StepBody]](), None
    root_ids = sorted(set(due_groups(backend, now).values_list("workflow__root_pool_id", flat=True)))
    if root_ids:
        mark_unfinished(backend)  # a process that dies before the next plan leaves this
    for root_id in root_ids:
        tried = set[UUID]()
        while batch := _due_workflows(root_id, now, tried):
            tried.update(batch)

            def end(workflows: Sequence[UUID], root_id: int = root_id) -> int:
                nonlocal busy
                try:
                    ended = _end_in_tree(backend, root_id, workflows, now)
                except DatabaseLost:
                    raise
                except Busy as error:
                    busy = error
                    return 0
                passes.extend([ended] if ended else [])
                return len(ended)

            work_in_batch("a due workflow", batch, end)
    return [{**step, "pass": number} for number, steps in enumerate(passes, 1) for step in steps], busy


def _due_workflows(root_id: int, now: datetime, tried: set[UUID]) -> list[UUID]:
    due = Group.objects.filter(due_at__lte=now, workflow__root_pool=root_id).exclude(workflow__in=tried)
    return list(dict.fromkeys(due.order_by("due_at").values_list("workflow_id", flat=True)[:MAX_ENDS]))


def _end_in_tree(backend: Backend, root_id: int, workflows: Sequence[UUID], now: datetime) -> list[StepBody]:
    with change(actor=SYSTEM, description="reconciled", controller_of=backend.pk):
        root = lock_pool_tree(root_id)
        due = Group.objects.filter(due_at__lte=now, workflow__root_pool=root, workflow__in=workflows)
        transition = WorkflowTransition(root, set(due.values_list("workflow_id", flat=True)), now=now)
        before = {group.pk: group.status for group in _groups(transition)}
        for workflow in transition.workflows.values():
            transition.end_overdue(workflow)
        steps = [_step(transition, group) for group in _groups(transition) if group.status != before[group.pk]]
        transition.save()
        return steps


def _groups(transition: WorkflowTransition) -> Sequence[Group]:
    return [group for groups in transition.groups.values() for group in groups.values()]


def _step(transition: WorkflowTransition, group: Group) -> StepBody:
    return {
        "pass": 1,
        "action": "end",
        "workflow": transition.workflows[group.workflow_id].name,
        "group": group.name,
        "status": group.status if TaskStatus(group.status).is_finished else TaskStatus.RESCHEDULED,
    }
