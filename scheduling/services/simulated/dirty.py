"""What has to be looked at: everything, or new work alone because all else is known to be at rest.

Where nothing but submissions came since a settling came to rest, whoever waited then waits still: more work takes room
and gives none. So it is enough to look at the new gangs beside what runs. Two things are not seen that way: with more
work waiting in a leaf its fair share grows, and others may reclaim; so the look at everything is owed, and paid by the
beat at a pace that leaves most of the time for new work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import connection

from pools.models import Backend
from scheduling.models import BackendMove, BackendRest

PACE = 20
"""An owed look at everything waits so many times as long as the last one took: who submits meets one of them seldom."""

LONGEST = timedelta(minutes=1)
"""So often everything is looked at, whatever is known: rows that were changed past the services tell nobody."""


class Look(StrEnum):
    """Who asks for a settling: a person, who wants everything looked at; a hint; or the beat, which pays what is
    owed."""

    THOROUGH = "thorough"
    HINT = "hint"
    TICK = "tick"


@dataclass(frozen=True, slots=True)
class Moment:
    """One snapshot of the database, and the moves of a backend that it sees."""

    snapshot: str
    moves: Collection[int]


def this_moment(backend: Backend) -> Moment:
    """Inside a snapshot: which one it is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        (snapshot,) = cursor.fetchone()
    return Moment(snapshot, list(BackendMove.objects.filter(backend=backend).values_list("pk", flat=True)))


def moved(backend_id: int) -> None:
    """Note a move, in the transaction that makes it. Only a simulated backend is settled."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO scheduling_backendmove (backend_id) SELECT id FROM pools_backend WHERE id = %s AND kind = %s",
            [backend_id, Backend.Kind.SIMULATED],
        )


def under_way(backend: Backend, moment: Moment) -> Moment:
    """A plan of several transactions begins. Whoever is killed in the middle of it leaves a move, and the rest of it is
    planned again soon; who comes to rest deals with the move, as with those he has seen."""
    return Moment(moment.snapshot, [*moment.moves, BackendMove.objects.create(backend=backend).pk])


def unmoved_rest(backend: Backend) -> BackendRest | None:
    """Its rest, where it came to one and nothing has moved since: a look at everything will hardly find something to
    do."""
    if BackendMove.objects.filter(backend=backend).exists():
        return None
    return BackendRest.objects.filter(backend=backend).first()


def rest_of(backend: Backend, look: Look, now: datetime) -> BackendRest | None:
    """What is known of its rest, where that is enough for this look; None: everything has to be looked at."""
    rest = None if look is Look.THOROUGH else unmoved_rest(backend)
    if rest is None:
        return None
    since = now - rest.looked_at
    # The beat comes first, so that nobody who submits waits for a look at everything; but if it is gone, a hint does.
    longest = LONGEST if look is Look.TICK else 2 * LONGEST
    is_due = rest.owes and since.total_seconds() >= PACE * rest.seconds
    if since >= longest or (look is Look.TICK and (is_due or rest.waits_outside)):
        return None
    return rest


def new_work(rest: BackendRest) -> list[str]:
    """The workflows submitted to its pools since, by name. The audit trail knows the transaction of each."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT substr(object, length('workflow/') + 1) FROM pools_auditentry
            WHERE transaction >= pg_snapshot_xmin(%s::pg_snapshot) AND action = 'workflow.submitted'
                AND NOT pg_visible_in_snapshot(transaction, %s::pg_snapshot)
                AND pool_id IN (SELECT id FROM pools_pool WHERE backend_id = %s)
            """,
            [rest.snapshot, rest.snapshot, rest.backend_id],
        )
        return [name for (name,) in cursor.fetchall()]


def came_to_rest(backend: Backend, moment: Moment, *, now: datetime, seconds: float, waits_outside: bool) -> None:
    """Everything was looked at as of this moment, and what was seen to have moved is dealt with."""
    BackendRest.objects.update_or_create(
        backend=backend,
        defaults={
            "snapshot": moment.snapshot,
            "looked_at": now,
            "seconds": seconds,
            "owes": False,
            "waits_outside": waits_outside,
        },
    )
    BackendMove.objects.filter(pk__in=moment.moves).delete()


def looked_at_new_work(rest: BackendRest, moment: Moment, *, waits_outside: bool) -> None:
    """What was new is looked at as of this moment; some of it may wait for what moves elsewhere."""
    rest.snapshot, rest.owes, rest.waits_outside = moment.snapshot, True, rest.waits_outside or waits_outside
    rest.save(update_fields=["snapshot", "owes", "waits_outside"])
