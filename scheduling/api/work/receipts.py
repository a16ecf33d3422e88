"""Receipts of attempts that something else ended."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from scheduling.api.work.pending_queue import StartAnswer, start_body
from scheduling.domain.engine.steps import SparedBy
from scheduling.domain.receipts.causes import EndCause
from scheduling.selectors.queue.visible_queue import WaitingReservation, waiting_gangs_of
from scheduling.selectors.receipts.losses import FlavorLosses
from scheduling.selectors.receipts.receipts import (
    MOST_SHOWN,
    LostAttempt,
    ReceiptOfWork,
    ShownNumbers,
    SparedWork,
    read_receipts,
)
from scheduling.selectors.work.workflows import get_full_workflow

LOST_PARTS = "What `lost_gpu_s` has of flavors that count parts of shared GPUs, by flavor; left out without them."


class _Losses(TypedDict):
    lost_gpu_s: float
    lost_parts_s: NotRequired[dict[str, float]]


def losses_body(losses: FlavorLosses) -> _Losses:
    """What was lost, in GPU-seconds."""
    body: _Losses = {"lost_gpu_s": losses.gpu_ms / 1000}
    if of_parts := losses.ms_of_parts:
        body["lost_parts_s"] = {flavor: ms / 1000 for flavor, ms in of_parts.items()}
    return body


class LostAttemptAnswer(TypedDict):
    """One attempt that something else ended."""

    task: str
    retry_id: int
    node: str | None
    gpus: int
    start_time: ZonedText | None
    lost_since: Annotated[ZonedText, "The last checkpoint, else the start."]
    lost_gpu_s: Annotated[float, "GPU-seconds since then."]


class QueueNumbersAnswer(TypedDict):
    """GPUs of one queue at the instant before; `quota` and `share` are null where they are not known and "unlimited"
    without a limit."""

    pool: str
    quota: int | str | None
    used: int
    share: float | str | None


class SparedWorkAnswer(TypedDict):
    """Work that the rule also allowed to end; "other work" where the caller may not know it."""

    gang: str
    gpus: int
    by_flavor: NotRequired[Annotated[dict[str, int], "Its GPUs by flavor; left out without flavors."]]
    parts: NotRequired[Annotated[list[str], "The flavors that count parts of shared GPUs; left out without them."]]
    by: Annotated[str, SparedBy]
    reason: str


class WhatCameNextAnswer(TypedDict):
    """The following attempts: `waits` (at this place of its queue, with its forecast), `started` or `ended`."""

    status: str
    start_time: ZonedText | None
    position_in_queue: int | None
    start: StartAnswer | None
    reservation: WaitingReservation | None


class ReceiptAnswer(TypedDict):
    """What one gang lost at one instant by one rule. `by_workflow`, `by_user` and `by_pool` are null where the caller
    may not know them and where no work got the place; `by_user` of the cause `person` cancelled it."""

    id: int
    time: ZonedText
    workflow: str
    group: str
    user: str
    pool: str
    cause: Annotated[str, EndCause]
    rule: Annotated[str, "The cause in words."]
    message: Annotated[str, "By whom, and by which rule."]
    by_workflow: str | None
    by_user: str | None
    by_pool: str | None
    gpus: int
    lost_gpu_s: float
    lost_parts_s: NotRequired[Annotated[dict[str, float], LOST_PARTS]]
    attempts: list[LostAttemptAnswer]
    loser: QueueNumbersAnswer | None
    taker: QueueNumbersAnswer | None
    quota_at_start: Annotated[int | None, "Of a lowered quota: that of the queue when the attempt started."]
    spared: list[SparedWorkAnswer]
    more_spared: bool
    note: Annotated[str | None, "What a cluster or the person said."]
    next: WhatCameNextAnswer


class WorkflowReceiptsAnswer(TypedDict):
    """The receipts of a workflow, the newest first."""

    receipts: list[ReceiptAnswer]
    taken: Annotated[list[ReceiptAnswer], "Of work whose place it took, as far as the caller may see that work."]
    has_hidden: Annotated[bool, "It took the place of work that the caller may not see."]
    more_entries: bool
    lost_gpu_s: Annotated[float, "Of all its receipts."]
    lost_parts_s: NotRequired[Annotated[dict[str, float], LOST_PARTS]]


class WorkflowReceiptList(View):
    """Why something else ended attempts of a workflow, and what was lost."""

    @describe_operation(
        "Show the receipts of a workflow: for each attempt that something else ended for whom, by which rule and "
        "numbers, what was lost, which other work could have gone, and what came next. The newest "
        f"{MOST_SHOWN} of them.",
        answer=WorkflowReceiptsAnswer,
    )
    def get(self, request: Request, name: str) -> Response:
        workflow = get_full_workflow(self.actor, name)
        found = read_receipts(self.actor, workflow, waiting_gangs_of(self.actor, workflow))
        answer: WorkflowReceiptsAnswer = {
            "receipts": [_receipt_body(each) for each in found.lost],
            "taken": [_receipt_body(each) for each in found.taken],
            "has_hidden": found.has_hidden,
            "more_entries": found.has_more,
            **losses_body(found.losses),
        }
        return Response(answer)


def _receipt_body(receipt: ReceiptOfWork) -> ReceiptAnswer:
    head, waiting = receipt.head, receipt.next.waiting
    return {
        "id": head.id,
        "time": zoned_text(head.time),
        "workflow": head.workflow,
        "group": receipt.group,
        "user": head.user,
        "pool": head.pool,
        "cause": head.rule.value,
        "rule": receipt.rule,
        "message": head.message,
        "by_workflow": head.by_workflow or None,
        "by_user": head.by_user or None,
        "by_pool": head.by_pool or None,
        "gpus": head.gpus,
        **losses_body(head.losses),
        "attempts": [_attempt_body(each) for each in receipt.attempts],
        "loser": _numbers_body(receipt.loser),
        "taker": _numbers_body(receipt.taker),
        "quota_at_start": receipt.quota_at_start,
        "spared": [_spared_body(each) for each in receipt.spared],
        "more_spared": receipt.has_more_spared,
        "note": receipt.note or None,
        "next": {
            "status": receipt.next.status,
            "start_time": zoned_text(receipt.next.started),
            "position_in_queue": None if waiting is None else waiting.position_in_queue,
            "start": None if waiting is None else start_body(waiting.start),
            "reservation": None if waiting is None else waiting.reservation,
        },
    }


def _attempt_body(attempt: LostAttempt) -> LostAttemptAnswer:
    return {
        "task": attempt.task,
        "retry_id": attempt.retry,
        "node": attempt.node or None,
        "gpus": attempt.gpus,
        "start_time": zoned_text(attempt.started),
        "lost_since": zoned_text(attempt.lost_since),
        "lost_gpu_s": attempt.lost_gpu_ms / 1000,
    }


def _numbers_body(numbers: ShownNumbers | None) -> QueueNumbersAnswer | None:
    if numbers is None:
        return None
    return {"pool": numbers.pool, "quota": numbers.quota, "used": numbers.used, "share": numbers.share}


def _spared_body(work: SparedWork) -> SparedWorkAnswer:
    body: SparedWorkAnswer = {"gang": work.gang, "gpus": work.gpus, "by": work.by.value, "reason": work.reason}
    if work.by_flavor:
        body["by_flavor"] = dict(work.by_flavor)
    if parts := sorted(work.by_flavor.keys() & work.parts):
        body["parts"] = parts
    return body
