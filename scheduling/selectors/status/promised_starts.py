"""Promised starts that did not come true or that something contradicts, wrong previews, and stuck gangs: what the
product itself finds wrong about waiting work."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, When

from pools.models import Backend
from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.domain.promised_starts import GRACE, PromiseOutcome
from scheduling.models import PromisedStart, ShownEffect, StartForecast
from scheduling.models.history.promised_start import NOT_KEPT

WRONG_FOR = timedelta(days=1)
"""For this time a wrong preview is a problem."""

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


def is_overdue(promise: PromisedStart, now: datetime) -> bool:
    """Whether the time of a promise to a waiting gang is over."""
    return promise.latest_start < now - GRACE


def contradicted_promises(now: datetime) -> QuerySet[PromisedStart]:
    """Promises whose time is not over, with `never`: the sentence of the gang's forecast, that it starts in no sampled
    future."""
    return _with_forecast(now).filter(latest_start__gte=now - GRACE).exclude(never=None).exclude(never="")


def faulty_promises(now: datetime) -> QuerySet[PromisedStart]:
    """The overdue and the contradicted ones."""
    is_never = Q(never__isnull=False) & ~Q(never="")
    return _with_forecast(now).filter(Q(latest_start__lt=now - GRACE) | is_never)


def _with_forecast(now: datetime) -> QuerySet[Any]:
    """A forecast stands until something happens, so one that is older than the promise counts once the background must
    have compared it with the facts of today."""
    forecasts = StartForecast.objects.filter(group_id=OuterRef("group_id"))
    newer = forecasts.filter(made_at__gt=OuterRef("made_at"))
    never = Case(
        When(made_at__lt=now - COMPARED, then=Subquery(forecasts.values("never"))),
        default=Subquery(newer.values("never")),
    )
    return promises_to_waiting().annotate(never=never)


def wrong_effects(now: datetime) -> QuerySet[Any]:
    """Effects that previews showed, and that the next cycle did not have; those of the last day, each with the name of
    its cluster."""
    backend = Backend.objects.filter(pk=OuterRef("backend_id"))
    rows = ShownEffect.objects.filter(outcome=PromiseOutcome.BROKEN, ended_at__gt=now - WRONG_FOR)
    return rows.annotate(backend_name=Subquery(backend.values("name"))).exclude(backend_name=None)


def wrong_effect_message(effect: ShownEffect, backend: str) -> str:
    """A sentence about such an effect; it names no work."""
    lost, started = set(effect.found_lost or ()), set(effect.found_started or ())
    others = "" if lost <= set(effect.lost) and started <= set(effect.started) else " Some of them are others."
    return (
        f"The preview of “{effect.title}” on cluster {backend} was wrong. Gangs that lose GPUs: it named "
        f"{len(effect.lost)}, and {len(lost)} did. Gangs that start: it named {len(effect.started)}, and "
        f"{len(started)} did.{others}"
    )


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
