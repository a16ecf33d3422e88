"""The addresses of pages, and where those of former versions lead."""

from __future__ import annotations

import pytest
from django.urls import resolve, reverse

from pools.domain.page_addresses import current_address, is_preview_address, without_last_slash

NAMES = ("create", "quotas", "pool", "node", "preview", "audit", "sync", "queue", "change", "on", "quota")
"""Names that objects may have, and that are words of ours, too."""

FORMER = {
    "/pools/pool/": "/pools",
    "/pools/pool/team/change/": "/pools/team",
    "/pools/pool/create/": "/pools/-/create",
    "/pools/pool/create/preview/": "/pools/-/create/-/preview",
    "/pools/pool/quotas/preview/": "/pools/-/quotas/-/preview",
    "/pools/pool/create/change/": "/pools/create",
    "/pools/pool/quotas/quotas/": "/pools/quotas/quotas",
    "/pools/pool/team/subpools/a/resize/preview/": "/pools/team/subpools/a/resize/-/preview",
    "/pools/cohort/node/cohort/org/": "/cohorts/org",
    "/pools/cohort/node/pool/preview/": "/pools/preview/quota",
    "/pools/cohort/org/configuration/": "/cohorts/org/configuration",
    "/pools/gpuquota/ns/release/preview/": "/gpu-quotas/ns/release/preview",
    "/pools/node/on/lab/n1/": "/nodes/lab/n1",
    "/pools/node/7/change/": "/nodes",
    "/pools/backend/lab/change/": "/clusters/lab",
    "/pools/auditentry/7/change/": "/activity/audit/7",
    "/pools/approvalrequest/7/approve/preview/": "/activity/approvals/7/approve/-/preview",
    "/pools/savedview/delete/workflows/preview/": "/views/-/delete/workflows/preview",
    "/pools/noticetarget/replay/msg_1/": "/notices/-/replay/msg_1",
    "/pools/noticetarget/7/edit/": "/notices/7/edit",
    "/pools/accesstoken/ci/revoke/": "/tokens/ci/revoke",
    "/scheduling/workflow/submit/": "/submit",
    "/scheduling/workflow/queue/": "/queue",
    "/scheduling/workflow/queue/team/": "/queue/team",
    "/scheduling/workflow/cancel/": "/workflows/-/cancel",
    "/scheduling/workflow/train-1/end/": "/workflows/train-1/end",
    "/scheduling/queuesync/lab/change/": "/clusters/lab/sync",
    "/scheduling/queueguard/": "/clusters/-/webhooks",
    "/scheduling/usageprogress/": "/usage",
    "/scheduling/workflowconfig/preview/": "/settings/-/preview",
    "/scheduling/decision/7/change/": "/activity",
    "/django_celery_beat/periodictask/": "/jobs",
    "/scheduling/": "/",
}


def test_a_former_address_leads_to_the_page_of_today() -> None:
    for former, current in FORMER.items():
        assert current_address(former) == current
        assert resolve(current).view_name.startswith("admin:"), former
        assert without_last_slash(former) == former


VIEWS = (
    "pools_pool_change", "pools_pool_configure", "scheduling_workflow_change", "scheduling_workflow_queue",
    "pools_user_change", "pools_backend_change", "scheduling_queuesync_change", "pools_gpuquota_change",
    "pools_quota_node cohort", "pools_quota_node pool", "pools_node_page lab", "pools_token_revoke",
)  # fmt: skip
"""Pages of an object, with what stands before its name."""


def test_every_name_has_its_page() -> None:
    for name in NAMES:
        for each in VIEWS:
            view, *before = each.split()
            address = reverse(f"admin:{view}", args=[*before, name])
            found = resolve(address)
            assert (found.view_name, list(found.kwargs.values())) == (f"admin:{view}", [*before, name])
            assert not is_preview_address(address)


@pytest.mark.parametrize(
    ("typed", "served"),
    [
        ("/pools/", "/pools"),
        ("/pools/team/", "/pools/team"),
        ("/pools/pool/", "/pools/pool/"),  # a former address; `/pools/pool` is the pool of that name
        ("/login/", "/login/"),
        ("/api/pool/", "/api/pool/"),
        ("/", "/"),
    ],
)
def test_a_slash_at_the_end_is_optional(typed: str, served: str) -> None:
    assert without_last_slash(typed) == served
