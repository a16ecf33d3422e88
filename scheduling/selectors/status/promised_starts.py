"""Promised starts that did not come true or that something contradicts, and stuck gangs: what the product itself finds
wrong about waiting work."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Case, F, OuterRef, QuerySet, Subquery, When

from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.domain.promised_starts import GRACE
from scheduling.models import PromisedStart, StartForecast
from scheduling.models.history.promised_start import NOT_KEPT

COMPARED = timedelta(minutes=5)
"""After this time the background has compared each forecast with the facts: it does so every minute."""


def promises_to_waiting() -> QuerySet[PromisedStart]:
    """Promises to gangs that still wait as they did then, on the same backend, which is online; those kept or withdrawn
    are left out."""
    return PromisedStart.objects.filter(
        outcome__in=NOT_KEPT,
        group__ready_at=F("waits_since"),
        group__start_time__isnull=True,
        group__end_time__isnull=True,
        group__workflow__root_pool__backend_id=F("backend_id"),
        group__workflow__root_pool__backend__offline=False,
    )


def overdue_promises(now: datetime) -> QuerySet[PromisedStart]:
    """Promises whose time is over while their gangs wait."""
    return promises_to_waiting().filter(latest_start__lt=now - GRACE)


def contradicted_promises(now: datetime) -> QuerySet[PromisedStart]:
    """Promises whose time is not over, with `never`: the sentence of the gang's forecast, that it starts in no sampled
    future. A forecast stands until something happens, so one that is older than the promise counts once the background
    must have compared it with the facts of today."""
    forecasts = StartForecast.objects.filter(group_id=OuterRef("group_id"))
    newer = forecasts.filter(made_at__gt=OuterRef("made_at"))
    never = Case(
        When(made_at__lt=now - COMPARED, then=Subquery(forecasts.values("never"))),
        default=Subquery(newer.values("never")),
    )
    rows = promises_to_waiting().filter(latest_start__gte=now - GRACE)
    return rows.annotate(never=never).exclude(never=None).exclude(never="")


def stuck_message(gang: str, backend: str, kind: str) -> str:
    """A sentence about a stuck gang."""
    if kind == StuckKind.IDLE_CLUSTER:
        found = f"nothing runs on cluster {backend}, where it fits"
    elif kind == StuckKind.BEHIND_LATER_WORK:
        found = f"only LOW work that came later is on the nodes that are reserved for it on cluster {backend}"
    else:
        found = f"LOW work of its own queue runs on cluster {backend} in its place"
    return f"{gang} waits although {found}: this is a defect of the scheduler."


def overdue_message(promise: PromisedStart) -> str:
    """A sentence about an overdue promise."""
    return f"{promise.gang} was promised to start by {promise.latest_start:%Y-%m-%d %H:%M} UTC, and still waits."
