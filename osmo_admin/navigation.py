"""The menu: the pages that the signed-in person may open, and nothing else.

A section is one entry of the menu; its pages are the tabs in the head of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from pools.admin.base import actor_of
from pools.domain.page_addresses import PREVIEW_SEGMENT
from pools.domain.people.roles import Actor, Permission, is_allowed
from pools.selectors.inbox import MOST_COUNTED, count_unread

PERSON = "You"
"""The section that the menu of the person shows."""


def menu_of(request: HttpRequest) -> list[dict[str, Any]]:
    """The sections of the menu for this request, each with its pages; one page of all is the current one at most."""
    actor = actor_of(request)
    reads_platform = is_allowed(actor, Permission.PLATFORM_READ)
    queue = ("Queue", "admin:scheduling_workflow_whole_queue", True)
    work = [
        ("Workflows", "admin:scheduling_workflow_changelist", True),
        *([] if reads_platform else [queue]),
        ("Submit", "admin:scheduling_workflow_submit", _may_submit(actor)),
        ("Saved views", "admin:pools_savedview_changelist", True),
    ]
    sections = [
        ("Home", "home", [("Home", "admin:index", True)]),
        ("Work", "account_tree", work),
        *([("Queue", "hourglass_empty", [queue])] if reads_platform else []),
        (
            "Pools",
            "monitoring",
            [
                ("Pools", "admin:pools_pool_changelist", True),
                ("Quota tree", "admin:pools_cohort_changelist", True),
                ("GPU quota", "admin:pools_gpuquota_changelist", True),
            ],
        ),
        ("Nodes", "memory", [("Nodes", "admin:pools_node_changelist", True)]),
        (
            "Usage",
            "bar_chart",
            [
                ("Usage", "admin:scheduling_usageprogress_changelist", True),
                ("Replay", "admin:scheduling_historyreplay_changelist", _may_replay(actor)),
            ],
        ),
        (
            "Activity",
            "timeline",
            [
                ("Scheduler events", "admin:scheduling_decision_changelist", True),
                ("What came true", "admin:scheduling_showneffect_changelist", True),
                ("Approvals", "admin:pools_approvalrequest_changelist", True),
                ("Audit log", "admin:pools_auditentry_changelist", True),
            ],
        ),
        (
            "Admin",
            "tune",
            [
                ("Users", "admin:pools_user_changelist", reads_platform),
                ("Clusters", "admin:pools_backend_changelist", reads_platform),
                ("Settings", "admin:scheduling_workflowconfig_changelist", reads_platform),
                ("Background jobs", "admin:django_celery_beat_periodictask_changelist", reads_platform),
                ("Import", "admin:pools_configurationowner_changelist", is_allowed(actor, Permission.PLATFORM_WRITE)),
            ],
        ),
        (
            PERSON,
            "",
            [
                ("Inbox", "admin:pools_inboxnotice_changelist", True),
                ("Notices", "admin:pools_noticetarget_changelist", True),
                ("Access tokens", "admin:pools_accesstoken_changelist", True),
            ],
        ),
    ]
    pages = {title: [(name, reverse(view)) for name, view, may in entries if may] for title, _, entries in sections}
    current = _current_link(request.path, [link for each in pages.values() for _, link in each])
    return [
        {
            "title": title,
            "icon": icon,
            "is_of_person": title == PERSON,
            "link": pages[title][0][1],
            "active": any(link == current for _, link in pages[title]),
            "items": [{"title": name, "link": link, "active": link == current} for name, link in pages[title]],
        }
        for title, icon, _ in sections
        if pages[title]
    ]


def tabs_of(request: HttpRequest, menu: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pages of the section whose page is shown, or the preview of whose form; none below a page of the menu, whose
    head names the pages above."""
    page = request.path.removesuffix(PREVIEW_SEGMENT)
    for section in menu:
        if len(section["items"]) > 1 and any(item["link"] == page for item in section["items"]):
            return list(section["items"])
    return []


@dataclass(frozen=True, slots=True)
class Bell:
    """What the bell in the head of a page says: a sentence for those who hear it, and a number, empty for 0."""

    label: str
    number: str


def bell_of(request: HttpRequest) -> Bell:
    """The bell of the person: the unread news of the inbox. One query."""
    count = count_unread(actor_of(request))
    if count >= MOST_COUNTED:
        return Bell(f"{MOST_COUNTED} or more unread notices", f"{MOST_COUNTED - 1}+")
    return Bell(f"{count or 'No'} unread notice{'' if count == 1 else 's'}", str(count or ""))


_SPECIAL_ENDS = {("pools", "quota"): "admin:pools_cohort_changelist"}
"""Pages below one list that belong to another, by the first and the third word of their address."""


def _current_link(path: str, links: list[str]) -> str:
    """The page of the menu that is shown, or that the shown page is below; empty for neither."""
    words = path.split("/")[1:]
    if len(words) == 3 and (words[0], words[2]) in _SPECIAL_ENDS:
        special = reverse(_SPECIAL_ENDS[words[0], words[2]])
        if special in links:
            return special
    return max((link for link in links if path == link or path.startswith(f"{link}/")), key=len, default="")


def _may_submit(actor: Actor) -> bool:
    return actor.is_admin or bool(actor.pools_with(Permission.POOL_SUBMIT))


def _may_replay(actor: Actor) -> bool:
    return actor.can_read_all or bool(actor.pools_with(Permission.POOL_PARTITION))
