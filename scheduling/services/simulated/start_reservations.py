"""Start reservations of a simulated backend: those of the last full scheduling cycle, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

from pools.database.transactions import change
from pools.domain.people.roles import SYSTEM
from pools.domain.values.amounts import Number
from pools.models import Backend
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.facts import StartReservationFacts
from scheduling.models import StartReservation
from scheduling.selectors.queue.live_facts import LiveFacts

Key = tuple[str, Number, str, Number | None]
"""A reservation to compare: its gang, its times, and its nodes as text."""


def planned_reservations(plan: CycleResult) -> list[StartReservationFacts]:
    """The reservations of gangs that wait when the plan has been carried out."""
    policy = plan.world.policy
    return [] if policy is None else list(policy.reservations())


def changes_reservations(live: LiveFacts, plan: CycleResult) -> bool:
    """Whether the plan has other reservations than the facts that it was made from."""
    before = () if live.facts.policy is None else live.facts.policy.reservations
    return _keys(before) != _keys(planned_reservations(plan))


def save_reservations(backend: Backend, live: LiveFacts, plan: CycleResult) -> None:
    """Replace the reservations of the backend by those of the plan; only differences are written. The caller holds the
    backend's lock."""
    rows = [_row(backend, live.gangs[each.gang].group, each) for each in planned_reservations(plan)]
    present = {row.group_id: row for row in StartReservation.objects.filter(backend=backend)}
    gone = present.keys() - {row.group_id for row in rows}
    changed = [row for row in rows if row.group_id not in present or _differs(row, present[row.group_id])]
    if not gone and not changed:
        return
    with change(actor=SYSTEM, description="reconciled", controller_of=backend.pk):
        StartReservation.objects.filter(group__in=gone).delete()
        StartReservation.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=["group"],
            update_fields=["since", "nodes", "placed_at", "backend"],
        )


def time_of(seconds: Number) -> datetime:
    """A time of the engine as a time of the database."""
    return datetime.fromtimestamp(float(seconds), tz=UTC)


def _row(backend: Backend, group: UUID, facts: StartReservationFacts) -> StartReservation:
    return StartReservation(
        group_id=group,
        backend=backend,
        since=time_of(facts.since),
        nodes=facts.nodes,
        placed_at=None if facts.placed is None else time_of(facts.placed),
    )


def _differs(one: StartReservation, other: StartReservation) -> bool:
    return (one.since, one.nodes, one.placed_at) != (other.since, other.nodes, other.placed_at)


def _keys(reservations: Iterable[StartReservationFacts]) -> set[Key]:
    return {(each.gang, each.since, json.dumps(each.nodes, sort_keys=True), each.placed) for each in reservations}
