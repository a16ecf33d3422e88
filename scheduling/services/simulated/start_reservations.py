"""Start reservations of a simulated backend: those of the last full scheduling cycle, as rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pools.domain.roles import SYSTEM
from pools.models import Backend
from pools.transactions import change
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.facts import StartReservationFacts
from scheduling.models import StartReservation
from scheduling.selectors.live_facts import LiveFacts

Key = tuple[str, str]
"""A reservation to compare: its gang, and its nodes as text."""


def changes_reservations(live: LiveFacts, plan: CycleResult) -> bool:
    """Whether the plan has other reservations than the facts that it was made from."""
    before = () if live.facts.policy is None else live.facts.policy.reservations
    return {_key(each.gang, each.nodes) for each in before} != {_key(each.gang, each.nodes) for each in _planned(plan)}


def save_reservations(backend: Backend, live: LiveFacts, plan: CycleResult) -> None:
    """Replace the reservations of the backend by those of the plan; only differences are written. The caller holds the
    backend's lock."""
    planned = {live.gangs[each.gang].group: each for each in _planned(plan)}
    present = dict(StartReservation.objects.filter(backend=backend).values_list("group_id", "nodes"))
    gone = [group for group in present if group not in planned]
    changed = {
        group: each
        for group, each in planned.items()
        if group not in present or _key("", present[group]) != _key("", each.nodes)
    }
    if not gone and not changed:
        return
    with change(actor=SYSTEM, description="reconciled", controller_of=backend.pk):
        StartReservation.objects.filter(group__in=gone).delete()
        StartReservation.objects.bulk_create(
            [_row(backend, group, each) for group, each in changed.items()],
            update_conflicts=True,
            unique_fields=["group"],
            update_fields=["since", "nodes", "backend"],
        )


def _planned(plan: CycleResult) -> list[StartReservationFacts]:
    policy = plan.world.policy
    return [] if policy is None else list(policy.reservations())


def _row(backend: Backend, group: UUID, each: StartReservationFacts) -> StartReservation:
    return StartReservation(
        group_id=group, backend=backend, since=datetime.fromtimestamp(float(each.since), tz=UTC), nodes=each.nodes
    )


def _key(gang: str, nodes: Any) -> Key:
    return gang, json.dumps(nodes, sort_keys=True)
