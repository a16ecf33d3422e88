"""A user's own replays of recorded history."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor, Permission
from pools.models import Pool
from scheduling.models import HistoryReplay


def list_replays(actor: Actor) -> QuerySet[HistoryReplay]:
    """The newest first, without their answers."""
    return HistoryReplay.objects.filter(user__username=actor.username).defer("answer")


def find_replay(actor: Actor, replay_id: UUID) -> HistoryReplay:
    """One of the user's own replays, while the user (and the token) may still see all that it was about. Raises
    `NotFound`."""
    row = HistoryReplay.objects.filter(user__username=actor.username, pk=replay_id).first()
    if row is None or not _may_read(actor, row):
        raise NotFound("There is no replay of yours with this id, or your roles have changed since.")
    return row


def _may_read(actor: Actor, row: HistoryReplay) -> bool:
    if actor.can_read_all:
        return True
    own = Pool.objects.roots().filter(name__in=actor.pools_with(Permission.POOL_PARTITION))
    return not row.reads_all and set(row.pools) <= set(own.values_list("pk", flat=True))
