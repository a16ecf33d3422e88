"""The quotas of a cohort, and those of a pool by flavor, in the form that their rows keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pools.domain.quota.pool_balance import FlavorQuota
from pools.domain.quota.rules import AmountsBody, QuotaRow
from pools.domain.quota.tree import LIMIT_KEYS, NodeQuota
from pools.domain.values.amounts import decode_gpus

StoredQuotas = Mapping[str, Mapping[str, Any]]
"""The quotas as a row keeps them: amounts by their keys, by `flavor/resource`."""

StoredFlavors = Sequence[Mapping[str, Any]]
"""The quotas by flavor as a row keeps them, `[{"flavor": "h100", "quota": 16, "maximum": 24}, …]`, in order."""

FLAVOR_LIMITS: Final = ("maximum", *LIMIT_KEYS)
"""The limits of a flavor of a pool; one that is missing does not bind."""


def flavor_quotas(stored: StoredFlavors) -> tuple[FlavorQuota, ...]:
    """The quotas by flavor of a pool's or subpool's row, in order."""
    return tuple(
        FlavorQuota(
            each["flavor"],
            each["quota"],
            decode_gpus(each.get("maximum")),
            NodeQuota(0, *(decode_gpus(each.get(limit)) for limit in LIMIT_KEYS)),
        )
        for each in stored
    )


def gpus_by_flavor(stored: StoredFlavors) -> dict[str, int]:
    """The GPUs of each flavor of a row."""
    return {each["flavor"]: each["quota"] for each in stored}


def stored_from_rows(rows: Sequence[QuotaRow]) -> dict[str, AmountsBody]:
    """The rows as the ledger stores them, by `flavor/resource`."""
    return {
        f"{row.flavor}/{row.resource}": row.amounts for row in sorted(rows, key=lambda row: (row.flavor, row.resource))
    }


def rows_from_stored(stored: StoredQuotas) -> tuple[QuotaRow, ...]:
    """The rows as they are written, by flavor and resource."""
    rows = []
    for place, (key, amounts) in enumerate(sorted(stored.items())):
        flavor, _, resource = key.partition("/")
        nominal, limits = amounts.get("nominal") or 0, [amounts.get(limit) for limit in LIMIT_KEYS]
        rows.append(QuotaRow(f"quotas[{place}]", flavor, resource, nominal, *limits))
    return tuple(rows)


def without_limits(stored: StoredQuotas) -> dict[str, dict[str, int | None]]:
    """The same quotas for a cohort without a parent, where borrowing and lending limits mean nothing."""
    return {key: {**amounts, **dict.fromkeys(LIMIT_KEYS)} for key, amounts in stored.items()}


def quotas_from_stored(stored: StoredQuotas) -> dict[str, NodeQuota]:
    """The quotas in the form that the quota tree uses."""
    return {
        key: NodeQuota(amounts.get("nominal") or 0, *(decode_gpus(amounts.get(limit)) for limit in LIMIT_KEYS))
        for key, amounts in stored.items()
    }
