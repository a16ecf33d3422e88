"""The workflows that keep a leaf from draining."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import gpus_text
from pools.models import FlavorUsage, Pool, Reservation
from pools.models.usage import PREEMPTIBLE_PRIORITY

MAX_HOLDERS = 20


@dataclass(frozen=True, slots=True)
class LeafHolder:
    """A live workflow on a leaf, with the GPUs that it holds, also by flavor, and the size of its largest gang not yet
    ended."""

    workflow: str
    owner: str
    priority: str
    held_gpus: int
    needed_gpus: int
    held_since: object
    submitted_at: object
    held_by_flavor: Mapping[str, int]


def gpus_in_use_texts(leaves: Iterable[Pool]) -> dict[str, str]:
    """The GPUs in use of each leaf by its name: `8 GPUs`, and with flavors `8 h100 GPUs`. The rows have their usage and
    the cluster of their pool; one query where a pool names flavors."""
    rows = list(leaves)
    found: dict[int, dict[str, int]] = {row.pk: {} for row in rows if row.root.flavors}
    for pk, flavor, gpus in _flavor_usage(found):
        found[pk][flavor] = gpus
    return {row.name: gpus_text(row.usage.total_usage, found.get(row.pk, {}), row.root.part_flavors) for row in rows}


def _flavor_usage(leaves: Collection[int]) -> Iterable[tuple[int, str, int]]:
    if not leaves:
        return ()
    rows = FlavorUsage.objects.filter(pool__in=leaves).order_by("pool", "flavor")
    return rows.values_list("pool", "flavor", "total_usage")


def find_holders(leaves: Sequence[str]) -> dict[str, list[LeafHolder]]:
    """By leaf, the live workflows that keep its GPUs in use, the longest holders first. At most `MAX_HOLDERS` per leaf;
    one query. For a DELETING subpool these are all live workflows, elsewhere the HIGH and NORMAL ones that hold GPUs.

    The caller checks that the reader may see the leaves."""
    drains = Q(pool__subpool_state=SubpoolState.DELETING) | (Q(held_gpus__gt=0) & ~Q(priority=PREEMPTIBLE_PRIORITY))
    ranked = (
        Reservation.objects.filter(drains, pool__name__in=leaves)
        .annotate(
            rank=Window(
                RowNumber(),
                partition_by=F("pool"),
                order_by=[F("held_since").asc(nulls_last=True), F("created_at").asc(), F("workflow_name").asc()],
            )
        )
        .filter(rank__lte=MAX_HOLDERS)
        .select_related("pool")
        .order_by("rank")
    )
    found: dict[str, list[LeafHolder]] = {name: [] for name in leaves}
    for row in ranked:
        found[row.pool.name].append(
            LeafHolder(
                workflow=row.workflow_name,
                owner=row.owner,
                priority=row.priority,
                held_gpus=row.held_gpus,
                needed_gpus=row.needed_gpus,
                held_since=row.held_since,
                submitted_at=row.created_at,
                held_by_flavor=row.held_by_flavor,
            )
        )
    return found
