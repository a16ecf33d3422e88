"""The filters of GPU allocations and of the samples of GPU use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from pools.domain.lists import GpuAllocationQuery, GpuSampleQuery
from pools.filtersets.base import QueryFilterSet
from pools.models import GpuAllocation

DEFAULT_HISTORY = timedelta(days=1)


class GpuAllocationFilterSet(QueryFilterSet):
    """The allocations of a namespace to show; released ones only on request."""

    query = GpuAllocationQuery

    def filter_queryset(self, queryset: Any) -> Any:
        rows = super().filter_queryset(queryset)
        return rows if self.value("include_released") else rows.exclude(state=GpuAllocation.State.RELEASED)


class GpuSampleFilterSet(QueryFilterSet):
    """The samples of a namespace to show: those of the last day without `since`."""

    query = GpuSampleQuery

    def filter_queryset(self, queryset: Any) -> Any:
        rows = super().filter_queryset(queryset)
        return rows.filter(at__gte=self.value("since") or timezone.now() - DEFAULT_HISTORY)
