"""Creates the demo in an empty installation: the configuration through the services, a month of work from the file of
the month, and what waits for people now. The background sums up its hours of use in the first minutes. An installation
that has the demo is not changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

import pgtrigger
from django.db import connection, models, transaction
from django.db.models import F

from pools.database.transactions import database_time
from pools.domain.approvals import ApprovalNeeded
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.people.roles import Actor
from pools.models import AuditEntry, Backend, NoticeProgress, Pool, RoleAssignment, User
from pools.services.configuration.approvals import request_approval
from pools.services.configuration.subpools import resize_subpool
from scheduling.demo.acts import acts, lose_node
from scheduling.demo.audit_trail import EntryTimes, age_images, last_entry, write_audit_trail, write_change_times
from scheduling.demo.gpu_quota_week import write_gpu_quota_week
from scheduling.demo.history_rows import MonthRows, RowBuilder, every_row
from scheduling.demo.installation import DEMO_POOLS, allocate_workers, create_installation
from scheduling.demo.month_file import month_start, read_month
from scheduling.models import Decision, Interruption, Receipt, WorkflowName
from scheduling.services.receipts.past_receipts import write_past_receipts
from scheduling.services.usage import derive_spans
from scheduling.services.workflows.submission import Submission, submit_many

# Three of the four replicas are enough.
GANG = """kind: PodGroup
metadata:
  name: chat-service
  annotations: {osmo/gpus-per-pod: "1"}
spec:
  minSubGroup: 3
  subGroups:
  - {name: replica-0, minMember: 2}
  - {name: replica-1, minMember: 2}
  - {name: replica-2, minMember: 2}
  - {name: replica-3, minMember: 2}
"""
NEWS = timedelta(days=7)
"""How far back the inboxes of the demo go."""
_OWN_RULES = (
    "scheduling.Workflow:audit", "scheduling.Decision:audit", "pools.Reservation:leaf_takes_work",
)  # fmt: skip
_RULES_OF_AGES = ("pools.Pool:audit", "pools.Pool:state_machine", "pools.User:audit", "pools.RoleAssignment:audit")


def seed_demo() -> None:
    """Create the demo. Does nothing where its first pool exists."""
    if Pool.objects.filter(name=DEMO_POOLS[0].name).exists():
        return
    with transaction.atomic():
        now = database_time()
        monday = month_start(now)
        month = read_month()
        people, times = create_configuration(monday, now, month.drained)
        with pgtrigger.ignore(*_OWN_RULES):
            decisions: list[Decision] = []
            for backend in Backend.objects.filter(name__in=month.clusters):
                rows = RowBuilder(backend, month.clusters[backend.name], monday, now).build()
                _insert(rows)
                decisions += rows.decisions
            decisions.sort(key=attrgetter("time"))
            copy_rows(Decision, decisions)
        write_past_receipts()
        write_audit_trail(times, now)
        write_change_times()
        lose_node(monday)
        _begin_news(now - NEWS)
        _add_the_present(people, now)
        derive_spans()


def prepare_month(monday: datetime, until: datetime) -> None:
    """The configuration alone, as `make_month` reads it: with all changes of the month up to a time."""
    _, times = create_configuration(monday, until, {})
    write_audit_trail(times, monday)
    lose_node(monday)


def create_configuration(
    monday: datetime, now: datetime, drained: Mapping[str, int]
) -> tuple[dict[str, Actor], list[EntryTimes]]:
    """The configuration with all changes of the month up to now: the people by name, and the times that the entries of
    the audit trail get."""
    created = monday - timedelta(hours=15)
    times = [EntryTimes(last_entry(), created)]
    people = create_installation()
    _write_ages(people, created)
    for act in acts(people, drained, monday, _friday_after(now)):
        at = monday + timedelta(seconds=act.at)
        if at <= now:
            times.append(EntryTimes(last_entry(), at))
            act.do()
    return people, times


def _friday_after(now: datetime) -> datetime:
    """The next Friday, 18:00 UTC, that is more than two hours ahead."""
    friday = now.replace(hour=18, minute=0, second=0, microsecond=0) + timedelta(days=(4 - now.weekday()) % 7)
    return friday if friday > now + timedelta(hours=2) else friday + timedelta(days=7)


def _begin_news(since: datetime) -> None:
    """The background fills the inboxes with what the audit trail tells of the time from `since` on, as if it had run
    then. In an installation that has news already it goes on where it is."""
    last = AuditEntry.objects.filter(time__lt=since).order_by("id").only("id", "transaction").last()
    if last is not None:
        progress = NoticeProgress(pk=1, transaction=str(last.transaction), entry=last.pk)
        NoticeProgress.objects.bulk_create([progress], ignore_conflicts=True)


def _insert(rows: MonthRows) -> None:
    for model, objects in every_row(rows):
        copy_rows(model, objects)
    Interruption.objects.bulk_create({id(each.interruption): each.interruption for each in rows.receipts}.values())
    for receipt in rows.receipts:
        receipt.interruption_id = receipt.interruption.pk
    copy_rows(Receipt, rows.receipts)
    WorkflowName.objects.bulk_create(WorkflowName(name=name, last_number=last) for name, last in rows.names.items())


def copy_rows(model: type[models.Model], objects: Sequence[models.Model]) -> None:
    """Insert rows with COPY, which is several times as fast as an INSERT of thousands of them."""
    fields = [each for each in model._meta.concrete_fields if not isinstance(each, models.AutoField)]
    names = ", ".join(f'"{each.column}"' for each in fields)
    is_json = [isinstance(each, models.JSONField) for each in fields]
    attributes = [each.attname for each in fields]
    with connection.cursor() as cursor, cursor.copy(f"COPY {model._meta.db_table} ({names}) FROM STDIN") as copy:
        for row in objects:
            copy.write_row([
                json.dumps(value) if as_json and value is not None else value
                for as_json, value in zip(is_json, (getattr(row, name) for name in attributes), strict=True)
            ])  # fmt: skip


def _write_ages(people: Mapping[str, Actor], created: datetime) -> None:
    """The pools, accounts and roles are as old as the first entries about them; no entry tells of that."""
    age, users = database_time() - created, [*people, "auditor"]
    with pgtrigger.ignore(*_RULES_OF_AGES):
        Pool.objects.update(created_at=F("created_at") - age)
        User.objects.filter(username__in=users).update(date_joined=F("date_joined") - age)
        RoleAssignment.objects.filter(user__username__in=users).update(assigned_at=F("assigned_at") - age)
    age_images()


def _add_the_present(people: Mapping[str, Actor], now: datetime) -> None:
    """What a month of work does not have: a service, workers in the namespaces, a change that waits for approval. The
    scheduler decides about the service when it runs."""
    submit_many(actor=people["language-researcher"], pool="language--tune", submissions=[Submission(file=GANG)])
    allocate_workers()
    write_gpu_quota_week(now)
    _ask_for_approval(people["research-lead"])


def _ask_for_approval(actor: Actor) -> None:
    resize = ResizeSubpool(parent="research", subpool_name="diffusion", quota=22)
    why = "the video model starts on Monday"
    try:
        resize_subpool(resize, actor=actor, description=why)
    except ApprovalNeeded as need:
        request_approval(resize, actor=actor, need=need, description=why)
