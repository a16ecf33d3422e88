"""The first page: the sums of what one may see, and the pools as a tree."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

from pools.admin.base import actor_of
from pools.admin.forms import PoolTreeFilterForm
from pools.domain.roles import Permission, is_allowed
from pools.selectors import pool_tree
from scheduling.pages import live_counts


def dashboard_page(site: AdminSite, request: HttpRequest) -> TemplateResponse:
    """Sums of the house and one page of its pools; the number of queries does not depend on how many there are."""
    actor = actor_of(request)
    filters = PoolTreeFilterForm(request.GET)
    request.current_app = site.name
    context = {
        **site.each_context(request),
        "title": "Pools at a glance",
        "crumbs": (),
        "sums": pool_tree.platform_totals(actor),
        "work": live_counts(actor),
        "found": pool_tree.pool_trees(
            actor, search=filters.search, show=filters.chosen, page=request.GET.get("page", "1")
        ),
        "filters": filters,
        "may_configure": is_allowed(actor, Permission.POOL_CONFIGURE),
    }
    return TemplateResponse(request, "osmo/dashboard.html", context)
