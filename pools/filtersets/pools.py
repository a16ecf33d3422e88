"""The filters of the list of pool configurations."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from pools.filtersets.base import BooleanFilter, QueryFilterSet, TextFilter


class PoolFilterSet(QueryFilterSet):
    """The filters of top-level pools; archived pools are shown only on request."""

    backend = TextFilter("backend__name")
    include_archived = BooleanFilter(method="keep")
    verbose = BooleanFilter(method="keep")

    def keep(self, rows: QuerySet[Any], name: str, value: bool) -> QuerySet[Any]:
        """`filter_queryset` decides, because the parameter counts when it is absent, too."""
        return rows

    def filter_queryset(self, queryset: Any) -> Any:
        rows = super().filter_queryset(queryset)
        return rows if self.value("include_archived") else rows.not_archived()
