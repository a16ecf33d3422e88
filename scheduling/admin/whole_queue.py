"""The queue of everything that waits, across pools: each gang with its place, its reason and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from django.http import HttpRequest, HttpResponse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.filters import list_views
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from pools.representations.csv_files import MAX_CSV_ROWS, is_csv_request, list_csv
from scheduling.admin.filters import WholeQueueFilterSet
from scheduling.domain.list_columns import PENDING_COLUMNS
from scheduling.history.starts.forecast_record import read_forecast_record
from scheduling.models import Workflow
from scheduling.selectors.queue.visible_queue import WaitingGang, list_waiting_gangs
from scheduling.selectors.work.leaf_names import leaf_names_of


def whole_queue_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pending gangs that the reader may see, cluster by cluster and pool by pool; `GET /api/queue` has the same
    rows. A pool that does not exist, or that the reader may not see, has no rows."""
    actor = actor_of(request)
    filters = WholeQueueFilterSet(request, Workflow.objects.none())
    pool, user = filters.value("pool"), filters.value("user")
    leaves = leaf_names_of(actor, pool) if pool else []
    find = partial(
        list_waiting_gangs,
        actor,
        pools=leaves or ([pool] if pool else ()),
        users=[user] if user else (),
        is_by_pool=True,
    )
    if is_csv_request(request):
        return list_csv("queue", PENDING_COLUMNS, find(limit=MAX_CSV_ROWS)[0])
    number = parse_page_number(request.GET.get("page"))
    rows, more = find(limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
    return admin.render_page(
        request,
        "osmo/whole_queue.html",
        title="Queue",
        filters=filters,
        views=list_views(request, ("All", {}), ("Mine", {"user": actor.username})),
        pending_columns=PENDING_COLUMNS,
        split_work=split_work(rows),
        window=ListPage(rows, number, number + 1 if more else 0),
        record=read_forecast_record(),
    )


def split_work(rows: Sequence[WaitingGang]) -> set[str]:
    """The workflows with several of these gangs; their rows need the name of the group too."""
    return {name for name, count in Counter(row.workflow for row in rows).items() if count > 1}
