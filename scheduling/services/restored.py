"""The facts that a restored database has to forget: the transactions of its former server, and perhaps its clusters;
and the numbers that it must not give again."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Max, Min, Model
from psycopg import sql

from pools.database.statements import execute_sql
from pools.database.transactions import change
from pools.domain.configuration.cluster_config import FILE
from pools.domain.people.roles import SYSTEM
from pools.models import (
    ApprovalRequest,
    AuditEntry,
    Backend,
    Cohort,
    GpuQuota,
    KubernetesSettings,
    NoticeProgress,
    NoticeTarget,
    Pool,
)
from scheduling.models import BackendSchedulingState, QueueGuard, SchedulingCycle, UsageProgress, WorkflowConfig

FIRST_TRANSACTION = "3"
"""The oldest number that PostgreSQL gives to a transaction; every server is past it."""

AHEAD = 1_000_000
"""More numbers than are given between two backups."""
VERSIONED: tuple[type[Model], ...] = (Backend, Cohort, GpuQuota, Pool, QueueGuard, WorkflowConfig)
"""The models whose versions clients send back."""
_VERSIONS: dict[type[Model], str] = {**dict.fromkeys(VERSIONED, "version"), ApprovalRequest: "expected_version"}

NO_CREDENTIAL = "restored-without-credentials"
"""The name of a kubeconfig file that does not exist; the message of the backend shows it."""


def forget_other_server() -> None:
    """Forget the numbers of transactions of the server on which the backup was made. Called as the owner.

    Another server counts from the beginning. Entries of the audit trail with larger numbers would be hidden from the
    event stream as if they were not final yet, new work would not be found by what was planned there, replays would
    take each change for one that no cycle had seen, and the hours of the record of use would wait for transactions that
    never end. All entries get one number; their ids keep the order.
    """
    table = AuditEntry._meta.db_table
    with transaction.atomic():
        announced = _last_announced_entry()
        execute_sql(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(sql.Identifier(table)))
        execute_sql(
            sql.SQL("UPDATE {} SET transaction = %s::text::xid8").format(sql.Identifier(table)), [FIRST_TRANSACTION]
        )
        execute_sql(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(sql.Identifier(table)))
        BackendSchedulingState.objects.all().delete()
        SchedulingCycle.objects.all().delete()
        UsageProgress.objects.update(pending_until=None, horizon=None)
        NoticeProgress.objects.update(transaction=FIRST_TRANSACTION, entry=announced, claimed_until=None)


def skip_given_numbers() -> None:
    """Leave out the ids and versions that were given after the backup. Called as the owner.

    What got them is lost, but clients hold them: the version of an `If-Match`, the id of the token behind a session.
    Given again, they would let a change through over another one, or a session belong to another person.
    """
    with transaction.atomic():
        execute_sql(
            "SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass,"
            " least(max_value, coalesce(last_value, 0) + %s)) FROM pg_sequences WHERE schemaname = 'public'",
            [AHEAD],
        )
        for model, column in _VERSIONS.items():
            table = sql.Identifier(model._meta.db_table)
            execute_sql(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(table))
            execute_sql(sql.SQL("UPDATE {0} SET {1} = {1} + %s").format(table, sql.Identifier(column)), [AHEAD])
            execute_sql(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(table))


def _last_announced_entry() -> int:
    """The id of the entry before the first one of which no notices were made. A few later ones may have their notices
    already, so they get no second ones."""
    newest = AuditEntry.objects.aggregate(last=Max("pk"))["last"] or 0
    progress = NoticeProgress.objects.first()
    if progress is None:
        return int(newest)
    rows = AuditEntry.objects.filter(transaction__gte=progress.transaction)
    first = rows.exclude(transaction=progress.transaction, pk__lte=progress.entry).aggregate(first=Min("pk"))["first"]
    return int(newest if first is None else first - 1)


def forget_credentials() -> list[str]:
    """Remove the credentials of all clusters and switch the targets of notices off, so that a copy cannot work at the
    same time as the original; returns the names of the backends. Queues are not written either until an admin sends a
    credential and a sync mode."""
    with change(actor=SYSTEM, description="restored from a backup as a copy"):
        found = list(KubernetesSettings.objects.select_related("backend").order_by("backend__name"))
        for row in found:
            row.access, row.kubeconfig_file, row.sync_mode = FILE, NO_CREDENTIAL, KubernetesSettings.Sync.OFF
            row.sealed_kubeconfig = row.credential_mark = row.context = row.server = ""
            row.save()
        NoticeTarget.objects.filter(is_enabled=True).update(
            is_enabled=False, off_reason="This installation is a copy, restored from a backup."
        )
    return [row.backend.name for row in found]
