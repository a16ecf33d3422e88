"""What scheduling does when the ledger says that something moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db import connections
from django.dispatch import receiver
from django_celery_beat.models import PeriodicTask

from pools.domain.roles import Actor
from pools.models import Backend, Pool
from pools.signals import AtStake, cancel_pending_work, ledger_changed, ledger_moves, work_at_stake, work_on_nodes
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task, WorkflowConfig
from scheduling.selectors.impact import at_stake
from scheduling.services.notifications import ask_to_settle
from scheduling.services.periodic_tasks import ensure_schedule
from scheduling.services.simulated.dirty import moved
from scheduling.services.workflows.user_actions import cancel_pending


@receiver(ledger_changed)
def settle_soon(backend_ids: Iterable[int], **_: Any) -> None:
    """Promises or capacity moved: somebody may start."""
    for backend_id in backend_ids:
        ask_to_settle(backend_id)


@receiver(ledger_moves)
def note_a_move(backend_id: int, **_: Any) -> None:
    """Not only new work: everything on the backend has to be looked at."""
    moved(backend_id)


@receiver(cancel_pending_work)
def cancel_what_waits(actor: Actor, pool: Pool, **_: Any) -> None:
    """A slice is deleted and its pending work shall go with it, in the same transaction."""
    cancel_pending(actor=actor, leaf=pool)


@receiver(work_on_nodes)
def running_there(backend: Backend, nodes: Collection[str], **_: Any) -> list[str]:
    """Names of the workflows that run on these machines."""
    running = Task.objects.filter(
        status=TaskStatus.RUNNING, node_name__in=nodes, group__workflow__root_pool__backend=backend
    )
    return list(running.order_by().values_list("group__workflow__name", flat=True).distinct())


@receiver(work_at_stake)
def whom_it_concerns(actor: Actor, backend_ids: Collection[int], **_: Any) -> AtStake:
    """The work that the next settling would take, start or leave waiting if a trial's change were made."""
    return at_stake(actor, backend_ids)


def keep_schedule(using: str, **_: Any) -> None:
    """After `migrate`: the periodic tasks have their rows. Going backwards, the tables may be gone already."""
    tables = set(connections[using].introspection.table_names())
    if {WorkflowConfig._meta.db_table, PeriodicTask._meta.db_table} <= tables:
        ensure_schedule()
