"""Draining subpools: since when, and when their work ends at the latest."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import query_page
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    LIMIT,
    OFFSET,
    TEXT,
    QueryParameter,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from scheduling.api.queries import filter_list
from scheduling.selectors.drains import Drain, read_drains
from scheduling.selectors.leaf_names import leaf_names_of

DRAIN = object_with(
    {
        "subpool": TEXT,
        "since": DATETIME,
        "long": BOOLEAN,
        "drain_by": nullable(DATETIME),
        "overdue": BOOLEAN,
        "live_workflows": INTEGER,
        "waiting_workflows": INTEGER,
        "unlimited_workflows": INTEGER,
        "gpus": INTEGER,
        "half_free_by": nullable(DATETIME),
        "limits_end_at": nullable(DATETIME),
        "ends_by": nullable(DATETIME),
    }
)


class DrainList(View):
    """The drains that the caller may see, the oldest first. A drain ends no work; its latest end, `ends_by`, is known
    only if all its work runs (none of it waits) with a time limit (none of it is unlimited). `drain_by` is a deadline
    that somebody set, and `overdue` says that it has passed; it stops no work."""

    @describe_operation(
        "List draining subpools: since when, how many GPUs are in use, when time limits end their work, and the "
        "deadline that somebody set.",
        query_parameters=[
            QueryParameter("pool", TEXT, "Only subpools of this pool, or this subpool.", is_list=True),
            LIMIT,
            OFFSET,
        ],
        answer=object_with({"drains": array_of(DRAIN), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request) -> Response:
        limit, offset = query_page(request, limit=1000)
        pools = [leaf for name in filter_list(request, "pool") for leaf in leaf_names_of(self.actor, name)]
        found = read_drains(self.actor, pools=pools, limit=limit + 1, offset=offset)
        return Response({"drains": [_drain_body(each) for each in found[:limit]], "more_entries": len(found) > limit})


def _drain_body(drain: Drain) -> dict[str, Any]:
    now = timezone.now()
    times = {
        "drain_by": drain.drain_by,
        "half_free_by": drain.half_free_by,
        "limits_end_at": drain.limits_end_at,
        "ends_by": drain.ends_by,
    }
    return {
        "subpool": drain.subpool,
        "since": utc_text(drain.since),
        "long": drain.is_long(now),
        "overdue": drain.is_overdue(now),
        "live_workflows": drain.workflows,
        "waiting_workflows": drain.waiting,
        "unlimited_workflows": drain.unlimited,
        "gpus": drain.gpus,
        **{name: None if at is None else utc_text(at) for name, at in times.items()},
    }
