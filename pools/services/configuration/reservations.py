"""The only writer of reservations. The caller holds the tree's lock and its transaction (see
:mod:`pools.locking`); the usage counters follow by trigger, in the same statement."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from pools.database.driver import is_in_transaction
from pools.database.statements import execute_sql
from pools.models import Pool, Reservation
from pools.services.configuration.subpools import archive_if_drained


@dataclass(frozen=True, slots=True)
class ReservationUpdate:
    """The GPUs that a live workflow holds now, and the GPUs of its largest gang not yet ended; `by_flavor` the same by
    GPU flavor, in a pool that has quotas by flavor."""

    workflow: UUID
    held_gpus: int
    needed_gpus: int
    by_flavor: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def reservations_sql(claims: str) -> str:
    """SQL that creates the reservations of new live workflows; the statement that inserts these contains it, because
    the lock of the tree is held meanwhile. `claims` is a query of (workflow, its name, leaf, name of its owner,
    priority, GPUs of its largest gang, time of its submission, GPUs by flavor). A new reservation holds nothing
    yet."""
    return f"""
        INSERT INTO pools_reservation
            (workflow, workflow_name, pool_id, owner, priority, needed_gpus, created_at, by_flavor, held_gpus)
        SELECT claim.*, 0 FROM ({claims}) AS claim
    """


def update_reservations(updates: Sequence[ReservationUpdate], *, at: datetime) -> None:
    """Store the GPUs that live workflows hold and need after a start or an end, in one statement."""
    assert is_in_transaction()
    if not updates:
        return
    execute_sql(
        """
        UPDATE pools_reservation AS reservation SET
            held_gpus = now.held, needed_gpus = now.needed, by_flavor = now.flavors,
            held_since = CASE WHEN now.held = 0 THEN NULL ELSE COALESCE(reservation.held_since, %s) END
        FROM unnest(%s::uuid[], %s::integer[], %s::integer[], %s::jsonb[]) AS now(workflow, held, needed, flavors)
        WHERE reservation.workflow = now.workflow
        """,
        [
            at,
            [holding.workflow for holding in updates],
            [holding.held_gpus for holding in updates],
            [holding.needed_gpus for holding in updates],
            [json.dumps(holding.by_flavor) for holding in updates],
        ],
    )


def release_reservations(*, root: Pool, leaf_ids: Collection[int], workflows: Collection[UUID]) -> None:
    """Delete the reservations of ended workflows, and archive a draining leaf that waited for the last of them."""
    assert is_in_transaction()
    Reservation.objects.filter(workflow__in=workflows).delete()
    for leaf_id in leaf_ids:
        archive_if_drained(root=root, leaf_id=leaf_id)
