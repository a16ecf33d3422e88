"""The page of an object that a search found."""

from __future__ import annotations

from urllib.parse import quote

from django.urls import reverse

from pools.models import SavedView
from pools.representations.saved_views import view_address
from scheduling.selectors.work.search import SearchAction, SearchHit, SearchKind

_PAGES = {
    SearchKind.POOL: "admin:pools_pool_change",
    SearchKind.SUBPOOL: "admin:pools_pool_change",
    SearchKind.WORKFLOW: "admin:scheduling_workflow_change",
    SearchKind.USER: "admin:pools_user_change",
    SearchKind.NAMESPACE: "admin:pools_gpuquota_change",
}


_ACTIONS = {
    SearchAction.SUBMIT: "admin:scheduling_workflow_submit",
    SearchAction.CREATE_POOL: "admin:pools_pool_create",
    SearchAction.IMPORT_QUOTAS: "admin:pools_pool_quotas",
    SearchAction.CREATE_COHORT: "admin:pools_cohort_create",
    SearchAction.LIMIT_NAMESPACE: "admin:pools_gpuquota_create",
    SearchAction.CREATE_USER: "admin:pools_user_create",
    SearchAction.CREATE_TOKEN: "admin:pools_token_create",
    SearchAction.CREATE_CLUSTER: "admin:pools_backend_create",
    SearchAction.CONNECT_CLUSTER: "admin:pools_backend_connect",
}


def address_of(hit: SearchHit) -> str:
    """The address of its page. A subpool is on the page of its pool, a saved view is the list with its filters."""
    if hit.kind is SearchKind.VIEW:
        return view_address(SavedView(page=hit.place, query=hit.filters))
    if hit.kind is SearchKind.ACTION:
        return reverse(_ACTIONS[SearchAction(hit.name)])
    if hit.kind is SearchKind.NODE:
        return reverse("admin:pools_node_page", args=[hit.place, hit.name])
    address = reverse(_PAGES[hit.kind], args=[hit.place or hit.name])
    return f"{address}#{quote(hit.name)}" if hit.place else address
