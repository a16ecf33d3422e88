"""The inbox of a person: what is in it, and how much of it is new."""

from __future__ import annotations

from pools.domain.people.roles import Actor
from pools.models import InboxNotice
from pools.models.people.inbox import InboxNoticeQuerySet

MOST_COUNTED = 100


def inbox_of(actor: Actor, *, only_unread: bool = False) -> InboxNoticeQuerySet:
    """The news that the actor may see now, the newest first, with `is_read`."""
    rows = InboxNotice.objects.visible_to(actor).with_read(actor).order_by("-id")
    return rows.unread_by(actor) if only_unread else rows


def count_unread(actor: Actor) -> int:
    """The number of unread news, `MOST_COUNTED` at most. One query."""
    return InboxNotice.objects.visible_to(actor).unread_by(actor).order_by()[:MOST_COUNTED].count()
