"""The queue of everything that waits, across pools: each gang with its place, its reason and the remedy."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.paging import ROWS_PER_PAGE, ListPage, parse_page_number
from scheduling.admin.filters import WholeQueueFilterSet
from scheduling.domain.list_columns import PENDING_COLUMNS
from scheduling.history.starts.forecast_record import read_forecast_record
from scheduling.models import Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.selectors.work.leaf_names import leaf_names_of


def whole_queue_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pending gangs that the reader may see, cluster by cluster; `GET /api/queue` has the same rows. A pool that
    does not exist, or that the reader may not see, has no rows."""
    actor = actor_of(request)
    filters = WholeQueueFilterSet(request, Workflow.objects.none())
    pool, user = filters.value("pool"), filters.value("user")
    leaves = leaf_names_of(actor, pool) if pool else []
    number = parse_page_number(request.GET.get("page"))
    rows, more = list_waiting_gangs(
        actor,
        pools=leaves or ([pool] if pool else ()),
        users=[user] if user else (),
        limit=ROWS_PER_PAGE,
        offset=(number - 1) * ROWS_PER_PAGE,
    )
    return admin.render_page(
        request,
        "osmo/whole_queue.html",
        title="Queue",
        filters=filters,
        mine=actor.username,
        pending_columns=PENDING_COLUMNS,
        window=ListPage(rows, number, number + 1 if more else 0),
        record=read_forecast_record(),
    )
