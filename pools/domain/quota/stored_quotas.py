"""The quotas of a cohort in the form that its row keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pools.domain.quota.rules import AmountsBody, QuotaRow
from pools.domain.quota.tree import LIMIT_KEYS, NodeQuota
from pools.domain.values.amounts import decode_gpus

StoredQuotas = Mapping[str, Mapping[str, Any]]
"""The quotas as a row keeps them: amounts by their keys, by `flavor/resource`."""


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
