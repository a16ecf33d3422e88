"""The queue of a pool: running work, pending gangs with position, reason and remedy, and borrowing between queues."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.domain.names import split_name
from pools.permissions import get_visible_root
from pools.representations.csv_files import MAX_CSV_ROWS, is_csv_request, list_csv
from pools.selectors.quotas.quota_pages import quota_tree_page
from scheduling.admin.filters import QueueFilterSet
from scheduling.admin.whole_queue import split_work
from scheduling.domain.list_columns import PENDING_COLUMNS, QUEUE_COLUMNS, WORKFLOW_COLUMNS
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Decision, Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.selectors.work.decisions import list_decisions
from scheduling.selectors.work.leaf_names import leaf_names_of

MAX_RUNNING_SHOWN = 50
MAX_DECISIONS_SHOWN = 8


def pool_queue_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The queue of one top-level pool. It lists the work that the reader may see; positions count all work. The address
    of a subpool leads to its part of the queue."""
    actor = actor_of(request)
    parent, leaf = split_name(pool)
    if leaf is not None and parent:
        address = reverse("admin:scheduling_workflow_queue", args=[parent])
        return HttpResponseRedirect(f"{address}?{urlencode({**request.GET.dict(), 'leaf': leaf})}")
    root = get_visible_root(actor, pool)
    tree = quota_tree_page(actor, root=root.name)
    running_rows = (
        Workflow.objects.visible_to(actor)
        .filter(status=WorkflowStatus.RUNNING)
        .select_related("submitted_by", "pool")
        .order_by("-start_time")
    )
    leaves = leaf_names_of(actor, root.name)
    filters = QueueFilterSet(request, running_rows.filter(pool__name__in=leaves), root=root, leaves=leaves)
    user = filters.value("user")
    find = partial(list_waiting_gangs, actor, pools=filters.chosen_leaves, users=[user] if user else ())
    if is_csv_request(request):
        return list_csv(f"queue-{root.name}", PENDING_COLUMNS, find(limit=MAX_CSV_ROWS)[0])
    number = parse_page_number(request.GET.get("page"))
    rows, more = find(limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
    running = list(filters.qs[: MAX_RUNNING_SHOWN + 1])
    events, _ = list_decisions(
        actor,
        Decision.objects.visible_to(actor).filter(pool__name__in=filters.chosen_leaves),
        limit=MAX_DECISIONS_SHOWN,
    )
    return admin.render_page(
        request,
        "osmo/queue.html",
        title=f"Queue of {root.name}",
        crumbs=[
            ("Pools", reverse("admin:pools_pool_changelist")),
            (root.name, reverse("admin:pools_pool_change", args=[root.name])),
        ],
        pool=root,
        queue_columns=QUEUE_COLUMNS,
        tree=tree.rows,
        filters=filters,
        pending_columns=PENDING_COLUMNS,
        split_work=split_work(rows),
        window=ListPage(rows, number, number + 1 if more else 0),
        workflow_columns=WORKFLOW_COLUMNS,
        running=running[:MAX_RUNNING_SHOWN],
        has_more_running=len(running) > MAX_RUNNING_SHOWN,
        events=events,
    )
