"""Decisions about a request for the approval of a second person (docs/approvals.md). Their reason is the note of the
decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.structured_input.declared_values import NUMBER, in_address


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision(ChangeCommand):
    """A decision about one request."""

    permission: ClassVar = None
    needs_version: ClassVar = False

    approval: int = in_address("ID", "Request", "Number of the request, from osmo approval list.", kind=NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve(ApprovalDecision):
    """Approve a request: the change is made now, in the name of the caller, who is not the requester."""

    is_one_transaction: ClassVar = False
    service: ClassVar = "approve"
    audit: ClassVar = (AuditAction.APPROVAL_APPROVED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject(ApprovalDecision):
    """Reject a request; the caller is not the requester."""

    service: ClassVar = "reject"
    audit: ClassVar = (AuditAction.APPROVAL_REJECTED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw(ApprovalDecision):
    """Withdraw the own request."""

    service: ClassVar = "withdraw"
    audit: ClassVar = (AuditAction.APPROVAL_WITHDRAWN,)
