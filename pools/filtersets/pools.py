"""The filters of the list of pool configurations."""

from __future__ import annotations

from typing import Any

from pools.domain.lists import PoolQuery
from pools.filtersets.base import QueryFilter, QueryFilterSet


class PoolFilterSet(QueryFilterSet):
    """The filters of top-level pools; archived pools are shown only on request."""

    query = PoolQuery

    backend = QueryFilter("backend__name")

    def filter_queryset(self, queryset: Any) -> Any:
        rows = super().filter_queryset(queryset)
        return rows if self.value("include_archived") else rows.not_archived()
