"""Makes the forecasts of waiting gangs in the background, keeps them, and scores the first one of each gang. Old
forecasts are forgotten, and old promised starts and shown effects with them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import one_snapshot
from pools.models import Backend
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.garbage_collector import garbage_collector
from scheduling.history.forecast.calibration import Calibration, Place, Record, Shape, hour_of
from scheduling.history.forecast.chance import SPREAD
from scheduling.history.forecast.futures import NEVER, sample_waits
from scheduling.history.forecast.scoring import LEVELS, Score
from scheduling.history.starts.forecast_facts import ForecastFacts, read_forecast_facts
from scheduling.models import PromisedStart, ShownEffect, StartForecast, WaitSpan

FUTURES = 2 * SPREAD
LEAST_FUTURES = 2
SECONDS = 10.0
"""The time for one round. A large backend gets fewer futures, and those that the round does not reach are the first of
the next one."""
SCORES = 1000
"""The last scored forecasts of a backend, which set the width of its next ones."""
KEPT = timedelta(days=30)
"""The time for which scores, shown effects, and promised starts that have ended are kept."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def forecast_starts() -> int:
    """Forecast the starts of all waiting gangs, backend by backend; returns the number of forecasts."""
    now = timezone.now()
    with left_out_on_error("the scores of forecasts"):
        _score(now)
    StartForecast.objects.filter(made_at__lt=now - KEPT).delete()
    # An open one of this age belongs to a gang that its backend does not know any more.
    is_stale = Q(outcome=PromiseOutcome.OPEN, latest_start__lt=now - KEPT)
    PromisedStart.objects.filter(Q(ended_at__lt=now - KEPT) | is_stale).delete()
    ShownEffect.objects.filter(made_at__lt=now - KEPT).delete()
    until = time.monotonic() + SECONDS
    newest = dict(StartForecast.objects.values_list("backend_id").annotate(Max("made_at")))
    made = 0
    for backend in sorted(Backend.objects.all(), key=lambda backend: (newest.get(backend.pk) or _LONG_AGO, backend.pk)):
        if time.monotonic() > until:
            break
        with left_out_on_error("the forecasts of a backend", backend.name):
            made += _forecast(backend, until)
    return made


def forecast_scores() -> Score:
    """The scores of the last forecasts of all backends."""
    score = Score()
    for waits, wait in _last_scored().values_list("first_waits", "wait")[:SCORES]:
        if waits is not None and wait is not None:
            score.add(waits, wait)
    return score


def _last_scored() -> QuerySet[StartForecast]:
    return StartForecast.objects.filter(wait__isnull=False, scored_at__isnull=False).order_by("-scored_at", "pk")


def _score(now: datetime) -> None:
    """Score the forecasts of gangs whose wait is over. A gang that ended without a start is not scored."""
    with one_snapshot():
        open_ones = {
            row.pk: row for row in StartForecast.objects.filter(scored_at__isnull=True, first_made_at__isnull=False)
        }
        spans = WaitSpan.objects.filter(group_id__in=open_ones, until__isnull=False).order_by("until")
        ends: dict[UUID, WaitSpan] = {}
        for span in spans:
            made = open_ones[span.group_id].first_made_at
            if made is not None and span.until is not None and span.until >= made:
                ends.setdefault(span.group_id, span)
    changed = []
    for group, span in ends.items():
        row = open_ones[group]
        assert row.first_made_at is not None
        assert span.until is not None
        row.scored_at = now
        row.wait = (span.until - row.first_made_at).total_seconds() if span.started else None
        changed.append(row)
    StartForecast.objects.bulk_update(changed, ["scored_at", "wait"], batch_size=500)


def _forecast(backend: Backend, until: float) -> int:
    facts = read_forecast_facts(backend)
    if facts is None:
        return 0
    key = facts.key
    due = _due(facts, key)
    if not due:
        return 0
    calibration = read_calibration(backend)
    futures = _sample(facts, due, until)
    places = facts.places()
    rows = []
    for name, group in due.items():
        waits = [each[name] for each in futures]
        row = _row(backend, group, facts.now, sum_up(waits, places[name], calibration))
        row.facts_key = key
        row.gpus_before = places[name].before
        row.sampled_waits = [None if wait >= NEVER else round(wait, 1) for wait in waits]
        rows.append(row)
    _save(rows)
    return len(rows)


def _due(facts: ForecastFacts, key: str) -> Mapping[str, UUID]:
    """The waiting gangs whose forecasts are made anew. A forecast stands until something happens: an event on its
    backend, or its own late time is over and the gang still waits."""
    rows = StartForecast.objects.filter(pk__in=facts.waiting.values()).values_list("pk", "facts_key", "p90")
    known = {group: (of, late) for group, of, late in rows}
    if any(known.get(group, ("", None))[0] != key for group in facts.waiting.values()):
        return facts.waiting
    lates = {name: known[group][1] for name, group in facts.waiting.items()}
    return {name: facts.waiting[name] for name, late in lates.items() if late is not None and late <= facts.now}


def read_calibration(backend: Backend) -> Calibration:
    """What the last scored forecasts of a backend teach: one query."""
    calibration = Calibration()
    for row in reversed(_last_scored().filter(backend_id=backend.pk, first_leaf_id__isnull=False)[:SCORES]):
        made, waits = row.first_made_at, row.first_waits
        if made is None or waits is None or row.first_middle is None or row.first_spread is None or row.wait is None:
            continue
        place = Place(row.first_leaf_id, hour_of(made.timestamp()), row.first_gpus or 0, row.first_gpus_before or 0)
        calibration.scored(Shape(row.first_middle, row.first_spread), place, row.wait, waits[-1])
    return calibration


def _sample(facts: ForecastFacts, wanted: Collection[str], until: float) -> list[dict[str, float]]:
    found: list[dict[str, float]] = []
    with garbage_collector.paused():
        for number in range(FUTURES):
            if number >= LEAST_FUTURES and time.monotonic() > until:
                break
            found += sample_waits(facts.present, wanted, [number])
    return found


@dataclass(frozen=True, slots=True)
class SampledStart:
    """The quantiles of `LEVELS` in seconds from now, None where too few futures start it. `corrected`: the shape from
    which they follow; None: no future starts it."""

    samples: int
    waits: tuple[float | None, ...]
    place: Place
    corrected: Shape | None
    record: Record

    @property
    def never(self) -> str | None:
        """A sentence where no future starts it, and its quota does not grow by itself."""
        is_never = self.corrected is None and not self.place.grows
        return f"It starts in none of {self.samples} sampled futures." if is_never else None

    def times(self, now: datetime) -> list[datetime | None]:
        """The quantiles as times."""
        return [None if wait is None else now + timedelta(seconds=wait) for wait in self.waits]


def sum_up(waits: Sequence[float], place: Place, calibration: Calibration) -> SampledStart:
    """The forecast of a gang that has these waits, in seconds, in the sampled futures."""
    known, record = [wait for wait in waits if wait < NEVER], calibration.record(place)
    if not known:
        return SampledStart(len(waits), (None,) * len(LEVELS), place, None, record)
    corrected = calibration.corrected(Shape.of(known, place.before + place.gpus))
    share = len(known) / len(waits)
    quantiles = calibration.quantiles(corrected, place)
    return SampledStart(
        len(waits), tuple(q if level <= share else None for level, q in zip(LEVELS, quantiles, strict=True)), place,
        corrected, record,
    )  # fmt: skip


def _row(backend: Backend, group: UUID, now: datetime, sampled: SampledStart) -> StartForecast:
    p10, p50, p90 = sampled.times(now)
    row = StartForecast(
        group_id=group, backend_id=backend.pk, made_at=now, p10=p10, p50=p50, p90=p90, samples=sampled.samples,
        never=sampled.never or "", like_scored=sampled.record.like, like_in_time=sampled.record.in_time,
    )  # fmt: skip
    if sampled.corrected is not None and None not in sampled.waits:
        place = sampled.place
        row.first_made_at, row.first_waits = now, list(sampled.waits)
        row.first_middle, row.first_spread = sampled.corrected.middle, sampled.corrected.spread
        assert not isinstance(place.queue, str)
        row.first_leaf_id, row.first_gpus, row.first_gpus_before = place.queue, place.gpus, place.before
    return row


def _save(rows: Sequence[StartForecast]) -> None:
    """Write them, or none: the next round leaves out those that have the key of its facts."""
    with transaction.atomic():
        StartForecast.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["group_id"],
            update_fields=[
                "backend_id", "made_at", "p10", "p50", "p90", "samples", "never", "gpus_before", "sampled_waits",
                "facts_key", "like_scored", "like_in_time",
            ],
            batch_size=500,
        )  # fmt: skip
        _keep_first(rows)


_FIRST = (
    "first_made_at", "first_waits", "first_middle", "first_spread", "first_leaf_id", "first_gpus", "first_gpus_before",
)  # fmt: skip


def _keep_first(rows: Sequence[StartForecast]) -> None:
    """Keep these forecasts as the first ones of their gangs where those have none."""
    by_group = {row.pk: row for row in rows if row.first_made_at is not None}
    missing = list(StartForecast.objects.filter(pk__in=by_group, first_made_at__isnull=True))
    for row in missing:
        for field in _FIRST:
            setattr(row, field, getattr(by_group[row.pk], field))
    StartForecast.objects.bulk_update(missing, _FIRST, batch_size=500)
