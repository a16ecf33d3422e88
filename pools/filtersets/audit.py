"""The filters of the audit log."""

from __future__ import annotations

from pools.filtersets.base import DateTimeFilter, QueryFilterSet, TextFilter


class AuditFilterSet(QueryFilterSet):
    """The filters of entries of the audit log; both ends of the time are included."""

    object = TextFilter("object")
    actor = TextFilter("actor")
    action = TextFilter("action")
    since = DateTimeFilter("time", "gte")
    until = DateTimeFilter("time", "lte")
