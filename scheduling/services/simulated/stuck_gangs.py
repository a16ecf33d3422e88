"""Stuck gangs of a simulated backend: those that wait although nothing may stop them, as rows.

They are a defect of the product. A full cycle writes them when they change, and an error to the log when one appears.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pools.database.transactions import change, database_time
from pools.domain.people.roles import SYSTEM
from pools.models import Backend
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.reasons.liveness import StuckGang, find_stuck
from scheduling.models import StuckGroup
from scheduling.selectors.queue.live_facts import LiveFacts

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StuckChanges:
    """The rows to write, and the ids of the groups whose rows go."""

    appeared: Sequence[StuckGroup]
    gone: Collection[UUID]

    def __bool__(self) -> bool:
        return bool(self.appeared or self.gone)


def stuck_by_group(live: LiveFacts, plan: CycleResult) -> dict[UUID, StuckGang]:
    """The gangs that are stuck in the settled result of a plan, by the id of the group."""
    return {live.gangs[stuck.gang].group: stuck for stuck in find_stuck(plan.world)}


def find_stuck_changes(backend: Backend, stuck: Mapping[UUID, StuckGang]) -> StuckChanges:
    """The differences from the rows of the backend. Two queries."""
    known = dict(StuckGroup.objects.filter(backend=backend).values_list("group_id", "kind"))
    now = database_time()
    appeared = [
        StuckGroup(group_id=group, backend=backend, gang=each.gang, kind=each.kind, since=now)
        for group, each in stuck.items()
        if known.get(group) != each.kind
    ]
    return StuckChanges(appeared, known.keys() - stuck.keys())


def save_stuck_changes(backend: Backend, changes: StuckChanges) -> None:
    """Write them. The caller holds the backend's lock."""
    if not changes:
        return
    with change(actor=SYSTEM, description="reconciled", controller_of=backend.pk):
        StuckGroup.objects.filter(group__in=changes.gone).delete()
        StuckGroup.objects.bulk_create(
            changes.appeared,
            update_conflicts=True,
            unique_fields=["group"],
            update_fields=["backend", "gang", "kind", "since"],
        )
    for each in changes.appeared:
        logger.error("gang %s on backend %s is stuck (%s): nothing may stop it", each.gang, backend.name, each.kind)
