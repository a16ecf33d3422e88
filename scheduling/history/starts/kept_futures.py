"""The sampled futures of the last background round, read for work that is not submitted yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from scheduling.domain.engine.facts import GangFacts
from scheduling.history.forecast.futures import NEVER
from scheduling.history.forecast.lines import KeptWaits, gang_gpus, is_like, is_within, is_young, read_waits
from scheduling.history.starts.forecast_facts import ForecastFacts
from scheduling.models import StartForecast

MOST_READ = 200
"""The most gangs like the new work that are read, the last ones first."""


@dataclass(frozen=True, slots=True)
class KeptFutures:
    """The waits of a gang from now in futures that were made at a time."""

    waits: list[float]
    made_at: datetime


def read_kept_futures(facts: ForecastFacts, new: GangFacts, together: Collection[GangFacts] = ()) -> KeptFutures | None:
    """What the kept futures say of a gang that would come now as the last of its priority; None where no gang like it
    waits in its queue, or the futures are too old. `together`: gangs that come before it. One query at most."""
    queue = [
        fact
        for fact in facts.present.facts.gangs
        if fact.queue == new.queue and fact.name in facts.waiting and fact.priority >= new.priority
    ]
    like = sorted((fact for fact in queue if is_like(new, fact)), key=lambda fact: (-fact.priority, fact.submitted))
    if not like:
        return None
    groups = [facts.waiting[fact.name] for fact in like[-MOST_READ:]]
    kept, made_at, key = _read(groups)
    if not kept or made_at is None:
        return None
    most = max(kept, key=lambda gang: gang.before)
    before = sum(map(gang_gpus, queue)) + sum(gang_gpus(fact) for fact in together if fact.queue == new.queue)
    middle = sorted(0.0 if wait is None else wait for wait in most.waits)[len(most.waits) // 2]
    age = (facts.now - made_at).total_seconds()
    if not is_within(before, most.before):
        return None
    if key == facts.key:  # nothing has happened since, so they hold at any age
        waits = read_waits(kept, before, gang_gpus(new))
        return KeptFutures([wait if wait >= NEVER else max(0.0, wait - age) for wait in waits], made_at)
    return KeptFutures(read_waits(kept, before, gang_gpus(new)), made_at) if is_young(age, middle) else None


def _read(groups: Collection[UUID]) -> tuple[list[KeptWaits], datetime | None, str]:
    """The gangs of the round that has most of them, its time, and the key of its facts."""
    rows = list(
        StartForecast.objects.filter(group_id__in=groups, gpus_before__isnull=False, sampled_waits__isnull=False)
        .order_by("-made_at")
        .values_list("gpus_before", "sampled_waits", "made_at", "facts_key")
    )
    if not rows:
        return [], None, ""
    # Of one round, because the futures of another one are others; a gang that is overdue has a forecast of its own.
    ((chosen, _count),) = Counter((made_at, key) for _before, _waits, made_at, key in rows).most_common(1)
    kept = [KeptWaits(before or 0, waits) for before, waits, *made in rows if tuple(made) == chosen and waits]
    return kept, *chosen
