"""The menu: the pages that the signed-in person may open, and nothing else."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from pools.admin.base import actor_of
from pools.domain.people.roles import Actor, Permission, is_allowed


def menu_of(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of the menu for this request."""
    actor = actor_of(request)
    reads_platform = is_allowed(actor, Permission.PLATFORM_READ)
    groups = [
        (
            "Work",
            [
                ("Home", "home", "admin:index", True),
                ("Pools", "monitoring", "admin:pools_pool_changelist", True),
                ("Quota tree", "schema", "admin:pools_cohort_changelist", True),
                ("GPU quota", "speed", "admin:pools_gpuquota_changelist", True),
                ("Workflows", "account_tree", "admin:scheduling_workflow_changelist", True),
                ("Queue", "hourglass_empty", "admin:scheduling_workflow_whole_queue", True),
                ("Submit", "upload_file", "admin:scheduling_workflow_submit", _may_submit(actor)),
                ("Nodes", "memory", "admin:pools_node_changelist", True),
                ("Usage", "bar_chart", "admin:scheduling_usageprogress_changelist", True),
                ("Replay", "replay", "admin:scheduling_historyreplay_changelist", _may_replay(actor)),
                ("Scheduler events", "timeline", "admin:scheduling_decision_changelist", True),
                ("Approvals", "check_circle", "admin:pools_approvalrequest_changelist", True),
                ("Audit log", "history", "admin:pools_auditentry_changelist", True),
            ],
        ),
        (
            "You",
            [
                ("Saved views", "bookmark", "admin:pools_savedview_changelist", True),
                ("Notices", "notifications", "admin:pools_noticetarget_changelist", True),
                ("Access tokens", "key", "admin:pools_accesstoken_changelist", True),
            ],
        ),
        (
            "Administration",
            [
                ("Users and roles", "group", "admin:pools_user_changelist", reads_platform),
                ("Clusters and nodes", "dns", "admin:pools_backend_changelist", reads_platform),
                ("Cluster sync", "sync", "admin:scheduling_queuesync_changelist", reads_platform),
                ("Admission webhooks", "shield", "admin:scheduling_queueguard_changelist", reads_platform),
                ("Scheduler settings", "tune", "admin:scheduling_workflowconfig_changelist", reads_platform),
                ("Background jobs", "schedule", "admin:django_celery_beat_periodictask_changelist", reads_platform),
            ],
        ),
    ]
    return [
        {"title": title, "items": [_menu_item(*entry[:3], path=request.path) for entry in entries if entry[3]]}
        for title, entries in groups
        if any(entry[3] for entry in entries)
    ]


def _menu_item(title: str, icon: str, address: str, *, path: str) -> dict[str, Any]:
    link = reverse(address)
    here = path == link if link == reverse("admin:index") else path.startswith(link)
    if address == "admin:scheduling_workflow_changelist":  # the queue of one pool belongs to Queue
        queue = reverse("admin:scheduling_workflow_whole_queue")
        here = here and not path.startswith(queue) and path != reverse("admin:scheduling_workflow_submit")
    return {"title": title, "icon": icon, "link": link, "active": here}


def _may_submit(actor: Actor) -> bool:
    return actor.is_admin or bool(actor.pools_with(Permission.POOL_SUBMIT))


def _may_replay(actor: Actor) -> bool:
    return actor.can_read_all or bool(actor.pools_with(Permission.POOL_PARTITION))
