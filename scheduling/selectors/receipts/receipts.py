"""The receipts of a workflow, as one reader may know them: the rule, the numbers, what was lost, which other work could
have gone, and what came next (design, D10: work of pools that the reader may not see keeps its numbers and no name)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Sum

from pools.domain.people.roles import Actor
from pools.domain.values.amounts import gpus_text
from scheduling.domain.engine.steps import SparedBy
from scheduling.domain.receipts.causes import EndCause
from scheduling.domain.receipts.words import CAUSE_LABELS, OTHER_POOL, OTHER_WORK, STAYED
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Interruption, Receipt, Task, Workflow
from scheduling.selectors.queue.visible_queue import WaitingGang
from scheduling.selectors.receipts.losses import RECEIPT_ROWS, FlavorLosses, parts_when_ended
from scheduling.selectors.receipts.preemptions import Preemption, may_see_work, preemption_of

MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """One attempt that something else ended. `lost_since`: its last checkpoint, else its start."""

    task: str
    retry: int
    node: str
    gpus: int
    started: datetime | None
    lost_since: datetime
    lost_gpu_ms: int


@dataclass(frozen=True, slots=True)
class ShownNumbers:
    """GPUs of one queue at that instant; None: not known, `unlimited`: without a limit."""

    pool: str
    quota: int | str | None
    used: int
    share: float | str | None


@dataclass(frozen=True, slots=True)
class SparedWork:
    """Other work that the rule also allowed to end. `gang` says *other work* where the reader may not know it."""

    gang: str
    gpus: int
    by: SparedBy
    by_flavor: Mapping[str, int] = field(default_factory=dict)
    parts: Collection[str] = ()

    @property
    def gpus_text(self) -> str:
        """Its GPUs: `8 GPUs`, and with flavors `8 h100 GPUs`."""
        return gpus_text(self.gpus, self.by_flavor, self.parts)

    @property
    def reason(self) -> str:
        """Why it stayed."""
        return STAYED[self.by]


@dataclass(frozen=True, slots=True)
class WhatCameNext:
    """The following attempts: they wait (`waiting` has the place and the forecast), have started, or there are none."""

    status: str
    started: datetime | None = None
    waiting: WaitingGang | None = None


@dataclass(frozen=True, slots=True)
class ReceiptOfWork:
    """All receipts of one interruption, with what the reader may know of it."""

    head: Preemption
    group: str
    attempts: Sequence[LostAttempt]
    loser: ShownNumbers | None
    taker: ShownNumbers | None
    quota_at_start: int | None
    spared: Sequence[SparedWork]
    has_more_spared: bool
    note: str
    next: WhatCameNext

    @property
    def rule(self) -> str:
        """The rule in one or two words."""
        return CAUSE_LABELS[self.head.rule]

    @property
    def spared_by_reason(self) -> list[tuple[str, list[SparedWork]]]:
        """The spared work by why it stayed, in the order of victims."""
        found: dict[str, list[SparedWork]] = {}
        for work in self.spared:
            found.setdefault(work.reason, []).append(work)
        return list(found.items())


@dataclass(frozen=True, slots=True)
class WorkflowReceipts:
    """The newest receipts of a workflow and those of work whose place it took; `losses` of all of its own."""

    lost: Sequence[ReceiptOfWork]
    taken: Sequence[ReceiptOfWork]
    has_hidden: bool
    has_more: bool
    losses: FlavorLosses


def read_receipts(actor: Actor, workflow: Workflow, waiting: Mapping[str, WaitingGang]) -> WorkflowReceipts:
    """The receipts around a workflow that `actor` may see. `waiting`: its own waiting gangs by the name of the
    group."""
    work = ("workflow", "for_workflow")
    related = [f"{each}__{part}" for each in work for part in ("submitted_by", "pool", "root_pool")]
    found = Interruption.objects.filter(Q(workflow=workflow) | Q(for_workflow=workflow))
    found = (
        found.select_related("pool", "group", "backend", *related)
        .annotate(receipt_rows=RECEIPT_ROWS)
        .order_by("-time", "-id")
    )
    rows = list(found[: MOST_SHOWN + 1])
    has_more, rows = len(rows) > MOST_SHOWN, rows[:MOST_SHOWN]
    seen = [row for row in rows if may_see_work(actor, row.workflow)]
    if not rows:
        return WorkflowReceipts((), (), has_hidden=False, has_more=False, losses=FlavorLosses(()))
    shown = _Reader(actor, workflow, seen, waiting)
    own = Receipt.objects.filter(interruption__workflow=workflow).order_by()
    kinds = own.values(flavor=F("task__flavor"), parts=F("interruption__numbers__parts"))
    sums = kinds.annotate(gpus=Sum("gpus"), lost=Sum("lost_gpu_ms"))
    return WorkflowReceipts(
        lost=[shown.receipt(row) for row in seen if row.workflow_id == workflow.pk],
        taken=[shown.receipt(row) for row in seen if row.workflow_id != workflow.pk],
        has_hidden=len(seen) < len(rows),
        has_more=has_more,
        losses=FlavorLosses.among((parts_when_ended(each["parts"], rows[0].backend), each) for each in sums),
    )


class _Reader:
    """The rows that belong to some interruptions, each kind read in one query."""

    def __init__(
        self,
        actor: Actor,
        workflow: Workflow,
        rows: Sequence[Interruption],
        waiting: Mapping[str, WaitingGang],
    ) -> None:
        self._actor, self._workflow, self._waiting = actor, workflow.pk, waiting
        self._attempts: dict[int, list[Task]] = defaultdict(list)
        self._lost: dict[UUID, Receipt] = {}
        receipts = Receipt.objects.filter(interruption__in=[row.pk for row in rows]).select_related("task")
        for receipt in receipts.order_by("task__position", "task__name"):
            self._attempts[receipt.interruption_id].append(receipt.task)
            self._lost[receipt.task_id] = receipt
        self._following = _following_attempts(self._lost.values())
        spared = {each["workflow"] for row in rows for each in row.spared}
        named = Workflow.objects.filter(pk__in=spared).select_related("submitted_by", "root_pool")
        self._named = {str(row.pk) for row in named if may_see_work(actor, row)}

    def receipt(self, row: Interruption) -> ReceiptOfWork:
        """One interruption with its attempts."""
        head = preemption_of(self._actor, row)
        parts = parts_when_ended(row.numbers.get("parts"), row.backend)
        knows_taker = row.for_workflow is None or bool(head.by_workflow)
        attempts = self._attempts[row.pk]
        return ReceiptOfWork(
            head=head,
            group=row.group.name,
            attempts=[self._attempt(task) for task in attempts],
            loser=_numbers(row.numbers.get("loser"), is_known=True),
            taker=_numbers(row.numbers.get("taker"), is_known=knows_taker),
            quota_at_start=row.numbers.get("quota_at_start"),
            spared=[self._spared(each, parts) for each in row.spared],
            has_more_spared=row.has_more_spared,
            note=row.note if self._may_read_note(head) else "",
            next=self._next(row, attempts),
        )

    def _may_read_note(self, head: Preemption) -> bool:
        """The words of a scheduler name the workloads and queues of others, also where we do not know the words."""
        names_nobody = head.rule in {EndCause.NODE, EndCause.EVICTED, EndCause.PERSON}
        return names_nobody or bool(head.by_workflow) or self._actor.can_read_all

    def _attempt(self, task: Task) -> LostAttempt:
        receipt = self._lost[task.pk]
        return LostAttempt(
            task.name,
            task.retry_id,
            task.node_name,
            receipt.gpus,
            task.start_time,
            receipt.lost_since,
            receipt.lost_gpu_ms,
        )

    def _spared(self, each: Mapping[str, Any], parts: Collection[str]) -> SparedWork:
        name = each["gang"] if each["workflow"] in self._named else OTHER_WORK
        return SparedWork(name, each["gpus"], SparedBy(each["by"]), each.get("by_flavor", {}), parts)

    def _next(self, row: Interruption, attempts: Iterable[Task]) -> WhatCameNext:
        following = [each for task in attempts for each in [self._following.get(task.pk)] if each is not None]
        if not following:
            return WhatCameNext("ended")
        starts = [each.start_time for each in following if each.start_time is not None]
        if starts:
            return WhatCameNext("started", min(starts))
        if any(each.status == TaskStatus.SCHEDULING for each in following):
            is_own = row.workflow_id == self._workflow  # the places of other work are on its own page
            return WhatCameNext("waits", waiting=self._waiting.get(row.group.name) if is_own else None)
        return WhatCameNext("ended")


def _following_attempts(receipts: Iterable[Receipt]) -> dict[UUID, Task]:
    """The next attempt of each of these, if there is one."""
    ended = {(each.task.group_id, each.task.name, each.task.retry_id + 1): each.task_id for each in receipts}
    rows = Task.objects.filter(group__in={group for group, _name, _retry in ended}, retry_id__gt=0)
    keyed = ((ended.get((row.group_id, row.name, row.retry_id)), row) for row in rows)
    return {task: row for task, row in keyed if task is not None}


def _numbers(written: Mapping[str, Any] | None, *, is_known: bool) -> ShownNumbers | None:
    if not written:
        return None
    pool = written["pool"] if is_known else OTHER_POOL
    return ShownNumbers(pool, written["quota"], written["used"], written["share"])
