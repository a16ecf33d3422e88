"""The page of an object that a search found."""

from __future__ import annotations

from urllib.parse import quote

from django.urls import reverse

from scheduling.selectors.search import SearchHit, SearchKind

_PAGES = {
    SearchKind.POOL: "admin:pools_pool_change",
    SearchKind.SUBPOOL: "admin:pools_pool_change",
    SearchKind.WORKFLOW: "admin:scheduling_workflow_change",
    SearchKind.USER: "admin:pools_user_change",
    SearchKind.NODE: "admin:pools_backend_change",
    SearchKind.NAMESPACE: "admin:pools_gpuquota_change",
}


def address_of(hit: SearchHit) -> str:
    """The address of its page. A subpool is on the page of its pool, a node on that of its backend."""
    address = reverse(_PAGES[hit.kind], args=[hit.place or hit.name])
    return f"{address}#{quote(hit.name)}" if hit.place else address
