"""The page of an object that a search found."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from django.urls import reverse

from pools.models import SavedView
from pools.representations.saved_views import view_address
from scheduling.domain.search.pages import SearchAction, SearchPage
from scheduling.selectors.work.search import SearchHit, SearchKind

_PAGES = {
    SearchKind.POOL: "admin:pools_pool_change",
    SearchKind.SUBPOOL: "admin:pools_pool_change",
    SearchKind.WORKFLOW: "admin:scheduling_workflow_change",
    SearchKind.USER: "admin:pools_user_change",
    SearchKind.CLUSTER: "admin:pools_backend_change",
    SearchKind.NAMESPACE: "admin:pools_gpuquota_change",
}


_PLACES: Mapping[SearchAction | SearchPage, str] = {
    SearchAction.SUBMIT: "admin:scheduling_workflow_submit",
    SearchAction.CREATE_POOL: "admin:pools_pool_create",
    SearchAction.IMPORT_QUOTAS: "admin:pools_pool_quotas",
    SearchAction.CREATE_COHORT: "admin:pools_cohort_create",
    SearchAction.LIMIT_NAMESPACE: "admin:pools_gpuquota_create",
    SearchAction.CREATE_USER: "admin:pools_user_create",
    SearchAction.CREATE_TOKEN: "admin:pools_token_create",
    SearchAction.CREATE_CLUSTER: "admin:pools_backend_create",
    SearchAction.CONNECT_CLUSTER: "admin:pools_backend_connect",
    SearchAction.IMPORT: "admin:pools_configurationowner_changelist",
    SearchAction.LOG_OUT: "admin:logout",
    SearchPage.POOLS: "admin:pools_pool_changelist",
    SearchPage.QUOTA_TREE: "admin:pools_cohort_changelist",
    SearchPage.GPU_QUOTA: "admin:pools_gpuquota_changelist",
    SearchPage.WORKFLOWS: "admin:scheduling_workflow_changelist",
    SearchPage.QUEUE: "admin:scheduling_workflow_whole_queue",
    SearchPage.NODES: "admin:pools_node_changelist",
    SearchPage.USAGE: "admin:scheduling_usageprogress_changelist",
    SearchPage.REPLAY: "admin:scheduling_historyreplay_changelist",
    SearchPage.EVENTS: "admin:scheduling_decision_changelist",
    SearchPage.APPROVALS: "admin:pools_approvalrequest_changelist",
    SearchPage.AUDIT: "admin:pools_auditentry_changelist",
    SearchPage.VIEWS: "admin:pools_savedview_changelist",
    SearchPage.INBOX: "admin:pools_inboxnotice_changelist",
    SearchPage.NOTICES: "admin:pools_noticetarget_changelist",
    SearchPage.TOKENS: "admin:pools_accesstoken_changelist",
    SearchPage.USERS: "admin:pools_user_changelist",
    SearchPage.CLUSTERS: "admin:pools_backend_changelist",
    SearchPage.SYNC: "admin:scheduling_queuesync_changelist",
    SearchPage.WEBHOOKS: "admin:scheduling_queueguard_changelist",
    SearchPage.SETTINGS: "admin:scheduling_workflowconfig_changelist",
    SearchPage.JOBS: "admin:django_celery_beat_periodictask_changelist",
    SearchPage.API: "api_page",
}


def address_of(hit: SearchHit) -> str:
    """The address of its page. A subpool is on the page of its pool, a saved view is the list with its filters."""
    if hit.kind is SearchKind.VIEW:
        return view_address(SavedView(page=hit.place, query=hit.filters))
    if hit.kind is SearchKind.ACTION:
        return reverse(_PLACES[SearchAction(hit.name)])
    if hit.kind is SearchKind.PAGE:
        return reverse(_PLACES[SearchPage(hit.name)])
    if hit.kind is SearchKind.NODE:
        return reverse("admin:pools_node_page", args=[hit.place, hit.name])
    if hit.kind is SearchKind.COHORT:
        return reverse("admin:pools_quota_node", args=["cohort", hit.name])
    address = reverse(_PAGES[hit.kind], args=[hit.place or hit.name])
    return f"{address}#{quote(hit.name)}" if hit.place else address
