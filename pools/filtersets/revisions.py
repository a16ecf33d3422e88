"""The filters of the configuration history."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from pools.domain.lists import RevisionQuery
from pools.filtersets.base import OrderFilter, QueryFilter, QueryFilterSet
from pools.models import ConfigRevision

Revisions = QuerySet[ConfigRevision]


class RevisionFilterSet(QueryFilterSet):
    """The filters of revisions. With `at_timestamp` only those in force at that time, one for each type."""

    query = RevisionQuery

    config_types = QueryFilter("config_type")
    name = QueryFilter()
    revision = QueryFilter()
    tags = QueryFilter(method="with_any_tag")
    created_after = QueryFilter("created_at", "gte")
    created_before = QueryFilter("created_at", "lte")
    at_timestamp = QueryFilter(method="in_force_at")
    order = OrderFilter("revision")

    def with_any_tag(self, rows: Revisions, name: str, tags: list[str]) -> Revisions:
        """Revisions that carry one of the tags."""
        condition = Q()
        for tag in tags:
            condition |= Q(tags__contains=[tag])
        return rows.filter(condition)

    def in_force_at(self, rows: Revisions, name: str, time: datetime) -> Revisions:
        """The newest revision of each type that was made by then."""
        if self.value("created_before") is not None or self.value("created_after") is not None:
            message = "Give either at_timestamp, or created_before and created_after."
            raise ValidationError(message, code="at_timestamp")
        revisions: Any = ConfigRevision.objects.filter(deleted_at__isnull=True, created_at__lte=time)
        newest = revisions.order_by("config_type", "-revision").distinct("config_type").values_list("pk", flat=True)
        return rows.filter(pk__in=list(newest))
