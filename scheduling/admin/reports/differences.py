"""The page of a cluster with the decisions of its own scheduler that ours would not have made."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.backends import cluster_tabs
from pools.admin.filters import PageFilterSet
from pools.admin.paging import paginate
from pools.domain.people.roles import Permission
from pools.filtersets.base import QueryFilter
from pools.models import Backend
from pools.representations.csv_files import is_csv_request, list_csv
from pools.selectors.clusters import is_observed
from pools.services.configuration.backends import read_backend
from scheduling.domain.list_columns import DIFFERENCE_COLUMNS
from scheduling.domain.observed.differences import DIFFERENCE_LABELS, MAX_KEPT
from scheduling.filtersets.differences import DifferenceFilterSet
from scheduling.models import SchedulerDifference


class DifferencePageFilterSet(PageFilterSet, DifferenceFilterSet):
    """The filters of the page."""

    shown = ("pool", "workflow", "kind", "since", "until")
    search = "pool"

    kind = QueryFilter(choices=DIFFERENCE_LABELS)


@admin.register(SchedulerDifference)
class DifferenceAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers: a sentence may name the work of any pool."""

    address = "clusters/-/differences"
    object_address = "clusters/<str:object_id>/differences"
    read_permission = Permission.PLATFORM_READ

    def show_list(self, request: HttpRequest) -> HttpResponse:
        return self._show(request, None)

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """`object_id` is the backend's name."""
        return self._show(request, read_backend(actor_of(request), object_id))

    def _show(self, request: HttpRequest, backend: Backend | None) -> HttpResponse:
        """Those of one cluster, or of all."""
        rows = SchedulerDifference.objects.select_related("backend", "pool", "workflow")
        filters = DifferencePageFilterSet(request, rows if backend is None else rows.filter(backend=backend))
        found = filters.qs.order_by("-id")
        if is_csv_request(request):
            return list_csv("differences", DIFFERENCE_COLUMNS, found[:MAX_KEPT])
        return self.render_page(
            request,
            "osmo/differences.html",
            title="Differences" if backend is None else backend.name,
            crumbs=[("Clusters", reverse("admin:pools_backend_changelist"))],
            tabs=[] if backend is None else cluster_tabs(request, backend),
            backend=backend,
            is_observed=is_observed(backend),
            filters=filters,
            window=paginate(found, request.GET.get("page")),
            columns=DIFFERENCE_COLUMNS,
            most=MAX_KEPT,
            days=settings.OSMO.decision_retention_days,
        )
