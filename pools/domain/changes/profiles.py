"""The change of one's own profile (design, O4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.structured_input.declared_values import BOOLEAN, TEXT, value


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProfile(ChangeCommand):
    """Set the default pool, the mail address (empty: none), or switch a notification."""

    service: ClassVar = "update_profile"
    audit: ClassVar = (AuditAction.USER_UPDATED,)
    permission: ClassVar = None
    needs_version: ClassVar = False

    pool: str | None = value(TEXT, "Default pool", "The pool of work that names none.", default=None)
    email: str | None = value(TEXT, "Mail address", "Notices of your profile go to it. Empty: none.", default=None)
    email_notification: bool | None = value(BOOLEAN, "Notices by mail", "Sent to your mail address.", default=None)
    slack_notification: bool | None = value(BOOLEAN, "Notices by Slack", "Sent to you in Slack.", default=None)
