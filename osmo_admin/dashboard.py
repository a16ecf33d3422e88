"""The first page: totals, and the pools as a tree."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

from pools.admin.base import actor_of
from pools.admin.filters import PoolTreeFilterSet
from pools.domain.roles import Permission, is_allowed
from pools.models import Pool
from pools.selectors import platform_totals, pool_tree
from pools.selectors.backend_capacity import oversubscription_warnings, read_capacities
from scheduling.selectors.active_work import count_active_workflows


def dashboard_page(site: AdminSite, request: HttpRequest) -> TemplateResponse:
    """The totals and one page of the pools that the reader may see; the number of queries does not depend on their
    number."""
    actor = actor_of(request)
    filters = PoolTreeFilterSet(request, Pool.objects.visible_to(actor).roots())
    request.current_app = site.name
    context = {
        **site.each_context(request),
        "title": "Pools",
        "crumbs": (),
        "totals": platform_totals.platform_totals(actor),
        "work": count_active_workflows(actor),
        "pool_page": pool_tree.pool_trees(filters.qs, page=request.GET.get("page", "1")),
        "filters": filters,
        "warnings": oversubscription_warnings(
            actor, read_capacities(Pool.objects.visible_to(actor).roots().values("backend")).values()
        ),
        "may_configure": is_allowed(actor, Permission.POOL_CONFIGURE),
    }
    return TemplateResponse(request, "osmo/dashboard.html", context)
