"""Changes of the destinations of notices, and notices that are sent again (docs/notices.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.people.notices import PLATFORM_KINDS, POOL_KINDS, Channel, NoticeKind
from pools.domain.structured_input.declared_values import BOOLEAN, NAME, NUMBER, TEXT, TEXTS, choice, in_address, value

CHANNELS: Final = (Channel.WEBHOOK, Channel.MAIL, Channel.APPRISE)
"""The channels of destinations that people add."""
_ADDRESS = dataclasses.replace(NAME, looks="secret", is_secret=True)
_KINDS = dataclasses.replace(
    TEXTS, schema={"type": "array", "items": {"type": "string", "enum": [str(each) for each in NoticeKind]}}
)
_KINDS_LABEL = "Kinds of notices"
_KINDS_HELP = f"{', '.join(POOL_KINDS)}; of the installation also {', '.join(PLATFORM_KINDS)}. Default: all."
_QUIET_LABEL = "Quiet hours"
_QUIET_HELP = (
    "Nothing is sent in these hours of each day, and what waits is sent after them: 22:00-07:00 Europe/Berlin; without "
    "a zone in UTC. Empty: none."
)
_POOLS_LABEL = "Pools"
_POOLS_HELP = "Only about these pools; an empty list means all."


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeChange(ChangeCommand):
    """A change of destinations or notices."""

    permission: ClassVar = None
    needs_version: ClassVar = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTarget(NoticeChange):
    """Add a destination of notices: a signed webhook, a mail address, or an address of Apprise (Slack, Teams and
    others). Only this answer contains the secret that verifies a webhook's signatures."""

    service: ClassVar = "create_target"
    audit: ClassVar = (AuditAction.NOTICE_TARGET_CREATED,)

    name: str = value(
        NAME,
        "Name",
        "A letter first, then letters, digits, - and _.",
        metavar="NAME",
        positional=True,
        missing="must be a text.",
    )
    channel: str = value(
        choice(CHANNELS),
        "Channel",
        "webhook, mail or apprise.",
        metavar="CHANNEL",
        positional=True,
        missing="must be a text.",
    )
    address: str = value(
        _ADDRESS,
        "Address",
        "https://… for a webhook, a mail address, or an address of Apprise (slack://…).",
        metavar="ADDRESS",
        positional=True,
        missing="must be a text.",
    )
    kinds: Collection[str] | None = value(_KINDS, _KINDS_LABEL, _KINDS_HELP, default=None, metavar="KIND...")
    pools: Collection[str] = value(TEXTS, _POOLS_LABEL, _POOLS_HELP, default=(), metavar="POOL...")
    quiet_hours: str = value(TEXT, _QUIET_LABEL, _QUIET_HELP, default="", metavar="HOURS")
    pool: str | None = value(TEXT, "Pool", "A destination of this pool, for its admins.", default=None)
    installation: bool = value(BOOLEAN, "A destination of the installation", "For administrators.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange(NoticeChange):
    """A change of a destination that exists."""

    target: int = in_address("ID", "Destination", "Its number, from osmo notice destinations.", kind=NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTarget(TargetChange):
    """Change a destination: its address, the kinds of notices, the pools to which it is limited, on or off."""

    service: ClassVar = "update_target"
    audit: ClassVar = (AuditAction.NOTICE_TARGET_UPDATED,)

    address: str | None = value(
        _ADDRESS, "New address", "A new address; without one the present one stays.", default=None
    )
    kinds: Collection[str] | None = value(_KINDS, _KINDS_LABEL, _KINDS_HELP, default=None, metavar="KIND...")
    pools: Collection[str] | None = value(TEXTS, _POOLS_LABEL, _POOLS_HELP, default=None, metavar="POOL...")
    quiet_hours: str | None = value(TEXT, _QUIET_LABEL, _QUIET_HELP, default=None, metavar="HOURS")
    enabled: bool | None = value(BOOLEAN, "Send notices", "Send to it or not.", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTarget(TargetChange):
    """Remove a destination and its notices."""

    service: ClassVar = "delete_target"
    audit: ClassVar = (AuditAction.NOTICE_TARGET_DELETED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTest(TargetChange):
    """Send a test notice. It is sent within seconds; GET /api/notices shows what came of it."""

    service: ClassVar = "send_test"
    audit: ClassVar = ()
    has_preview: ClassVar = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewSecret(TargetChange):
    """Replace the secret that verifies a webhook's signatures; only this answer contains it."""

    service: ClassVar = "renew_secret"
    audit: ClassVar = (AuditAction.NOTICE_TARGET_UPDATED,)
    has_preview: ClassVar = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDeadNotices(TargetChange):
    """Send all dead letters of a destination again, in their order."""

    service: ClassVar = "replay_dead_notices"
    audit: ClassVar = (AuditAction.NOTICE_REPLAYED,)
    has_preview: ClassVar = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayNotice(NoticeChange):
    """Send a notice again, with the same id."""

    service: ClassVar = "replay_notice"
    audit: ClassVar = (AuditAction.NOTICE_REPLAYED,)
    has_preview: ClassVar = False

    notice: str = in_address("NOTICE", "Notice", "Id of a notice: msg_….")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRead(NoticeChange):
    """Mark a piece of news of the own inbox as read."""

    service: ClassVar = "mark_read"
    audit: ClassVar = ()
    has_preview: ClassVar = False

    news: int = in_address("NEWS", "News", "Number of the news, from osmo notice inbox.", kind=NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkAllRead(NoticeChange):
    """Mark all news of the own inbox as read."""

    service: ClassVar = "mark_all_read"
    audit: ClassVar = ()
    has_preview: ClassVar = False
