"""The inbox of a person: mark news as read."""

from __future__ import annotations

from pools.database.transactions import change
from pools.domain.changes.notices import MarkAllRead, MarkRead
from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor
from pools.models import InboxRead
from pools.permissions import require_own_account
from pools.selectors.inbox import inbox_of


def mark_read(command: MarkRead, *, actor: Actor, description: str = "") -> int:
    """Mark one piece of news as read; 0 if it was. Raises NotFound for news that the actor may not see, Forbidden for a
    token with fewer roles than its owner."""
    require_own_account(actor)
    with change(actor=actor, description=description):
        row = inbox_of(actor).filter(pk=command.news).first()
        if row is None:
            raise NotFound("There is no such news in your inbox.")
        return _mark(actor, [] if row.is_read else [row.pk])


def mark_all_read(_: MarkAllRead, *, actor: Actor, description: str = "") -> int:
    """Mark all news as read; returns how many were unread. Raises Forbidden as :func:`mark_read`."""
    require_own_account(actor)
    with change(actor=actor, description=description):
        return _mark(actor, list(inbox_of(actor, only_unread=True).values_list("pk", flat=True)))


def _mark(actor: Actor, unread: list[int]) -> int:
    """Two programs may mark at once: a mark that is there stays."""
    if actor.user_id is None:
        return 0
    marks = [InboxRead(person_id=actor.user_id, notice_id=pk) for pk in unread]
    InboxRead._default_manager.bulk_create(marks, ignore_conflicts=True)
    return len(marks)
