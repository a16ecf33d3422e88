"""The quotas of ACTIVE subpools by name."""

from __future__ import annotations

from collections.abc import Sequence

from pools.domain.people.roles import Actor
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool


def visible_quotas(actor: Actor, roots: Sequence[Pool] | None = None) -> dict[str, int | dict[str, int]]:
    """The GPUs of each ACTIVE subpool by its canonical name, by flavor where its pool has flavors; of these top-level
    pools or of all that `actor` may see. One query."""
    rows = Pool.objects.visible_to(actor).filter(subpool_state=SubpoolState.ACTIVE, parent__archived=False)
    if roots is not None:
        rows = rows.filter(parent__in=roots)
    found = rows.order_by("name").values_list("name", "last_quota", "flavors", "parent__flavors")
    return {
        name: dict.fromkeys(gpus_by_flavor(of_pool), 0) | gpus_by_flavor(flavors) if of_pool else quota or 0
        for name, quota, flavors, of_pool in found
    }
