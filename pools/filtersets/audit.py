"""The filters of the audit log, for REST and for the page."""

from __future__ import annotations

from typing import Any

from pools.domain.lists import AuditQuery
from pools.filtersets.base import QueryFilter, QueryFilterSet
from pools.models import Pool


class AuditFilterSet(QueryFilterSet):
    """The filters of entries of the audit log."""

    query = AuditQuery

    object = QueryFilter()
    actor = QueryFilter()
    kind = QueryFilter(method="of_kind", empty="all kinds")
    action = QueryFilter(method="with_action")
    pool = QueryFilter(method="in_pool")
    since = QueryFilter("time", "gte")
    until = QueryFilter("time", "lte")

    def of_kind(self, rows: Any, name: str, value: str) -> Any:
        """Entries of objects of one kind."""
        return rows.filter(object__startswith=f"{value}/")

    def with_action(self, rows: Any, name: str, value: str) -> Any:
        """Entries of an action, with or without the name of its object."""
        return rows.filter(action=value) if "." in value else rows.filter(action__endswith=f".{value}")

    def in_pool(self, rows: Any, name: str, value: str) -> Any:
        """Entries of a pool and of its subpools."""
        return rows.filter(pool_id__in=Pool.objects.filter(name=value).values("pk"))
