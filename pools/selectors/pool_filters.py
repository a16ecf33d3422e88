"""Filters of lists of top-level pools: by name, and by the state of a pool or its subpools.

This module repeats the arithmetic of usage bars in SQL, so that the database filters a long list before it is split
into pages. A test compares the results with :mod:`pools.domain.quota.usage_bar`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.db.models import BigIntegerField, F, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Cast, Coalesce, Greatest

from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.models.pool import PoolQuerySet


class PoolFilter(StrEnum):
    """The states by which a list of pools can be filtered."""

    ALL = ""
    DRAINING = "draining"
    OVER = "over"
    MAINTENANCE = "maintenance"
    OFFLINE = "offline"
    ARCHIVED = "archived"


def rows_with_name(roots: PoolQuerySet, text: str) -> PoolQuerySet:
    """Top-level pools whose own name, or a subpool's name, contains the text."""
    return roots.filter(Q(name__contains=text) | Q(pk__in=Pool.objects.filter(name__contains=text).values("parent")))


def rows_in_state(roots: PoolQuerySet, show: PoolFilter) -> PoolQuerySet:
    """Top-level pools in a state. The arithmetic is that of :mod:`pools.domain.quota.usage_bar`."""
    if show is PoolFilter.MAINTENANCE:
        return roots.filter(enable_maintenance=True)
    if show is PoolFilter.OFFLINE:
        return roots.filter(backend__offline=True)
    if show is PoolFilter.DRAINING:
        draining = Pool.objects.filter(subpool_state=SubpoolState.DELETING)
        cut = _active_subpools().filter(usage__used__gt=F("last_quota"))
        return _with_quota(roots).filter(
            Q(pk__in=draining.values("parent"))
            | Q(pk__in=cut.values("parent"))
            | Q(usage__used__gt=F("shared_quota"), guarantee__gte=0)
        )
    if show is PoolFilter.OVER:
        over = _active_subpools().filter(usage__total_usage__gt=largest_of(big_column("last_quota"), F("usage__used")))
        return _with_quota(roots).filter(
            Q(pk__in=over.values("parent"))
            | Q(guarantee__gte=0, usage__total_usage__gt=largest_of(F("shared_quota"), F("usage__used")))
        )
    return roots


def _active_subpools() -> PoolQuerySet:
    return Pool.objects.filter(subpool_state=SubpoolState.ACTIVE)


def _with_quota(roots: PoolQuerySet) -> PoolQuerySet:
    """Each root with `shared_quota`, the quota that no subpool has."""
    return roots.annotate(shared_quota=big_column("guarantee") - _sum_over_subpools(_active_subpools(), "last_quota"))


def big_column(column: str) -> Cast:
    """A column of GPUs wide enough for sums."""
    return Cast(F(column), BigIntegerField())


def largest_of(*amounts: Any) -> Greatest:
    """The largest of several amounts."""
    return Greatest(*amounts, output_field=BigIntegerField())


def zero() -> Value:
    """0, as wide as a sum."""
    return Value(0, output_field=BigIntegerField())


def _sum_over_subpools(subpools: PoolQuerySet, column: str) -> Coalesce:
    """The sum of a column over the subpools of each root."""
    sums = (
        subpools.filter(parent=OuterRef("pk")).order_by().values("parent").annotate(total=Sum(column)).values("total")
    )
    return Coalesce(Subquery(sums, output_field=BigIntegerField()), zero())
