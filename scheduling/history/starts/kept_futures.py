"""The sampled futures of the last background round, read for work that is not submitted yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from scheduling.domain.engine.facts import GangFacts
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
    kept, made_at = _read(groups)
    if not kept or made_at is None:
        return None
    most = max(kept, key=lambda gang: gang.before)
    before = sum(map(gang_gpus, queue)) + sum(gang_gpus(fact) for fact in together if fact.queue == new.queue)
    middle = sorted(0.0 if wait is None else wait for wait in most.waits)[len(most.waits) // 2]
    age = (facts.now - made_at).total_seconds()
    if not is_young(age, middle) or not is_within(before, most.before):
        return None
    return KeptFutures(read_waits(kept, before, gang_gpus(new)), made_at)


def _read(groups: Collection[UUID]) -> tuple[list[KeptWaits], datetime | None]:
    """The gangs of the newest round, and its time."""
    rows = list(
        StartForecast.objects.filter(group_id__in=groups, gpus_before__isnull=False, sampled_waits__isnull=False)
        .order_by("-made_at")
        .values_list("gpus_before", "sampled_waits", "made_at")
    )
    if not rows:
        return [], None
    newest = rows[0][2]
    return [KeptWaits(before or 0, waits) for before, waits, made_at in rows if made_at == newest and waits], newest
