"""The queue of a pool: what runs, what waits at which place, why, and what would move it; and who lends to whom."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin import forms
from pools.admin.paging import ROWS_ON_A_PAGE, Window, page_number
from pools.admin.policy import PolicyAdmin, actor_of
from pools.domain.names import SEPARATOR, SHARED
from pools.permissions import visible_root
from pools.selectors.quota_pages import tree_page
from scheduling import pages
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.decisions import decisions
from scheduling.selectors.queue import waiting

MOST_RUNNING = 50
DECISIONS_SHOWN = 8


class Filters(forms.FilterForm):
    """Which part of the queue to show."""

    first = ("leaf", "user")
    leaf = forms.choice("Slice", required=False)
    user = forms.text("Submitted by", placeholder="exact name")

    def __init__(self, *args: object, leaves: list[str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # Django's own
        leaf = self.fields["leaf"]
        leaf.choices = [("", "the whole pool"), (SHARED, "unallocated"), *((name, name) for name in leaves)]  # type: ignore[attr-defined]


def queue_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """One top-level pool's. Everything on it is what the reader may see; places count everybody's work."""
    actor = actor_of(request)
    root = visible_root(actor, pool)
    tree = tree_page(actor, root=root.name)
    leaves = pages.leaves_meant(actor, root.name)
    filters = Filters(request.GET, leaves=[name.partition(SEPARATOR)[2] for name in leaves[1:]])
    chosen = filters.value("leaf") or ""
    named = pages.leaves_meant(actor, f"{root.name}{SEPARATOR}{chosen}") if chosen else leaves
    user = filters.value("user") or ""
    number = page_number(request.GET.get("page"))
    rows, more = waiting(
        actor, pools=named, users=[user] if user else (), limit=ROWS_ON_A_PAGE, offset=(number - 1) * ROWS_ON_A_PAGE
    )
    running = (
        Workflow.objects.visible_to(actor)
        .filter(status=WorkflowStatus.RUNNING, pool__name__in=named)
        .select_related("submitted_by", "pool")
        .order_by("-start_time")
    )
    if user:
        running = running.filter(submitted_by__username=user)
    shown = list(running[: MOST_RUNNING + 1])
    told, _ = decisions(actor, pools=named, limit=DECISIONS_SHOWN)
    return admin.page(
        request,
        "osmo/queue.html",
        title=f"Queue of {root.name}",
        crumbs=[
            ("Pools", reverse("admin:index")),
            (root.name, reverse("admin:pools_pool_change", args=[root.name])),
        ],
        pool=root,
        tree=tree.rows,
        filters=filters,
        waiting=Window(rows, number, number + 1 if more else 0),
        running=shown[:MOST_RUNNING],
        more_run=len(shown) > MOST_RUNNING,
        decisions=told,
    )
