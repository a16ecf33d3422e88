"""Approval requests as the API and the pages show them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from django.utils import timezone

from pools.domain.approvals import ApprovalState
from pools.domain.changes.approvable import APPROVABLE
from pools.domain.people.roles import Actor
from pools.models import ApprovalRequest
from pools.services.configuration.approvals import may_decide, may_withdraw


def approval_state(row: ApprovalRequest) -> str:
    """The state; a waiting request whose time is over is expired, even before the background job says so."""
    if row.state == ApprovalState.WAITING and row.expires_at <= timezone.now():
        return ApprovalState.EXPIRED
    return row.state


class NeedAnswer(TypedDict):
    """An amount in GPUs that a change moves by more than the limit; -1 is unlimited, null no limit."""

    amount: str
    before: int | None
    after: int | None
    change: NotRequired[int]
    before_in: NotRequired[Annotated[str, "Of an amount that moves: the cohort that it leaves."]]
    after_in: NotRequired[Annotated[str, "Of an amount that moves: the cohort to which it comes."]]
    limit: int


class ApprovalAnswer(TypedDict):
    """A request for the approval of a second person."""

    id: int
    state: Annotated[str, ApprovalState]
    pool: str
    subject: Annotated[str, "The canonical name of the pool or subpool."]
    service: Annotated[str, Literal[*APPROVABLE]]
    arguments: Annotated[dict[str, Any], "The values of the change."]
    expected_version: Annotated[int | None, "The version of the object that the requester saw."]
    approval_above: Annotated[int, "GPUs: larger changes of a quota of the pool needed an approval then."]
    needs: Annotated[list[NeedAnswer], "The amounts that need the approval."]
    description: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    decision_note: str
    may_decide: bool
    may_withdraw: bool


def approval_body(row: ApprovalRequest, actor: Actor) -> ApprovalAnswer:
    """One request, and what `actor` may do with it."""
    state = approval_state(row)
    is_waiting = state == ApprovalState.WAITING
    return {
        "id": row.pk,
        "state": state,
        "pool": row.pool,
        "subject": row.subject,
        "service": row.service,
        "arguments": row.arguments,
        "expected_version": row.expected_version,
        "approval_above": row.above,
        "needs": row.needs,
        "description": row.description,
        "requested_by": row.requested_by,
        "requested_at": row.requested_at,
        "expires_at": row.expires_at,
        "decided_by": row.decided_by,
        "decided_at": row.decided_at,
        "decision_note": row.decision_note,
        "may_decide": is_waiting and may_decide(actor, row),
        "may_withdraw": is_waiting and may_withdraw(actor, row),
    }
