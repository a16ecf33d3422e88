"""The filters of the differences between another scheduler and ours."""

from __future__ import annotations

from pools.filtersets.base import QueryFilter, QueryFilterSet
from scheduling.domain.lists import DifferenceQuery


class DifferenceFilterSet(QueryFilterSet):
    """The conditions on differences."""

    query = DifferenceQuery

    kind = QueryFilter()
    pool = QueryFilter("pool__name")
    workflow = QueryFilter("workflow__name")
    since = QueryFilter("time", "gte")
    until = QueryFilter("time", "lt")
