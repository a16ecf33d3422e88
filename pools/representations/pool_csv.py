"""Pools with their remainders and subpools as CSV: the columns of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.http import HttpResponse

from pools.domain.amounts import as_json
from pools.representations.csv_files import csv_response
from pools.selectors.pool_tree import PoolTree

_COLUMNS = (
    "pool",
    "subpool",
    "kind",
    "backend",
    "state",
    "quota",
    "guaranteed_in_use",
    "guaranteed_free",
    "can_start_now",
    "total_in_use",
    "active_workflows",
    "quota_until",
    "quota_after",
)


def pools_csv(trees: Iterable[PoolTree]) -> HttpResponse:
    """One line for each pool, its remainder, and each subpool. Amounts are GPUs, -1 is unlimited."""
    return csv_response("pools", _COLUMNS, _lines(trees))


def _lines(trees: Iterable[PoolTree]) -> Iterator[tuple[Any, ...]]:
    for tree in trees:
        for row in (tree.head, *tree.leaves):
            yield (
                tree.pool.name,
                row.label if row.kind == "subpool" else None,
                row.kind,
                tree.pool.backend and tree.pool.backend.name,
                row.state or tree.status,
                as_json(row.quota),
                row.used,
                as_json(row.available),
                as_json(row.can_start),
                row.total_usage,
                row.live_workflows,
                row.until,
                row.quota_after,
            )
