"""Approval requests as the API and the pages show them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from pools.domain.approvals import ApprovalState
from pools.domain.roles import Actor
from pools.models import ApprovalRequest
from pools.services.approvals import may_decide


def approval_state(row: ApprovalRequest) -> str:
    """The state; a waiting request whose time is over is expired, even before the background job says so."""
    if row.state == ApprovalState.WAITING and row.expires_at <= timezone.now():
        return ApprovalState.EXPIRED
    return row.state


def approval_body(row: ApprovalRequest, actor: Actor) -> dict[str, Any]:
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
        "may_withdraw": is_waiting and actor.username == row.requested_by,
    }
