"""The queue of a pool: running work, pending gangs with position, reason and remedy, and borrowing between queues."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.domain.names import REMAINDER_LABEL, SEPARATOR, SHARED_QUEUE
from pools.permissions import get_visible_root
from pools.selectors.quota_pages import quota_tree_page
from scheduling import pages
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.decisions import list_decisions
from scheduling.selectors.visible_queue import list_waiting_gangs

MAX_RUNNING_SHOWN = 50
MAX_DECISIONS_SHOWN = 8


class QueueFilterForm(forms.FilterForm):
    """Which part of the queue to show."""

    first = ("leaf", "user")
    leaf = forms.choice_field("Subpool", required=False)
    user = forms.text_field("Submitted by", placeholder="exact name")

    def __init__(self, *args: object, leaves: list[str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # Django's own
        leaf = self.fields["leaf"]
        choices = [("", "the whole pool"), (SHARED_QUEUE, REMAINDER_LABEL), *((name, name) for name in leaves)]
        leaf.choices = choices  # type: ignore[attr-defined]


def pool_queue_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The queue of one top-level pool. It lists the work that the reader may see; positions count all work."""
    actor = actor_of(request)
    root = get_visible_root(actor, pool)
    tree = quota_tree_page(actor, root=root.name)
    leaves = pages.leaves_meant(actor, root.name)
    filters = QueueFilterForm(request.GET, leaves=[name.partition(SEPARATOR)[2] for name in leaves[1:]])
    chosen = filters.value("leaf") or ""
    named = pages.leaves_meant(actor, f"{root.name}{SEPARATOR}{chosen}") if chosen else leaves
    user = filters.value("user") or ""
    number = parse_page_number(request.GET.get("page"))
    rows, more = list_waiting_gangs(
        actor, pools=named, users=[user] if user else (), limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE
    )
    running = (
        Workflow.objects.visible_to(actor)
        .filter(status=WorkflowStatus.RUNNING, pool__name__in=named)
        .select_related("submitted_by", "pool")
        .order_by("-start_time")
    )
    if user:
        running = running.filter(submitted_by__username=user)
    shown = list(running[: MAX_RUNNING_SHOWN + 1])
    events, _ = list_decisions(actor, pools=named, limit=MAX_DECISIONS_SHOWN)
    return admin.render_page(
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
        waiting=ListPage(rows, number, number + 1 if more else 0),
        running=shown[:MAX_RUNNING_SHOWN],
        more_run=len(shown) > MAX_RUNNING_SHOWN,
        decisions=events,
    )
