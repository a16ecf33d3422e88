"""The gangs that wait, with their reasons (api.md, "Waiting and what-if")."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import fields_body, flat_body, utc_text
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
    object_with,
)
from pools.api.views import View
from scheduling.api.queries import filter_list
from scheduling.api.work_schemas import PRIORITY, QUEUE_POSITION
from scheduling.selectors.leaf_names import leaf_names_of
from scheduling.selectors.visible_queue import GangStart, WaitingGang, list_waiting_gangs

ENTRY = object_with(
    {
        "workflow": TEXT,
        "group": TEXT,
        "user": TEXT,
        "backend": TEXT,
        "pool": TEXT,
        "queue": TEXT,
        "priority": PRIORITY,
        "submit_time": DATETIME,
        "gpus": INTEGER,
        **QUEUE_POSITION,
    },
    additional=True,
)


class PendingQueueList(View):
    """The waiting gangs that the caller may see, in the order of the queue. Positions also count the hidden gangs."""

    @describe_operation(
        "Show the waiting gangs with their positions and reasons.",
        query_parameters=[
            QueryParameter("pool", TEXT, "Only on this pool with its subpools, or on this subpool.", is_list=True),
            QueryParameter("user", TEXT, "Only work of this user.", is_list=True),
            QueryParameter("workflow", TEXT, "Only the groups of this workflow.", is_list=True),
            LIMIT,
            OFFSET,
        ],
        answer=object_with({"entries": array_of(ENTRY), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request) -> Response:
        limit, offset = query_page(request, limit=100)
        names = filter_list(request, "pool")
        pools = [leaf for name in names for leaf in leaf_names_of(self.actor, name)]
        found, more = list_waiting_gangs(
            self.actor,
            pools=pools,
            users=filter_list(request, "user"),
            workflows=filter_list(request, "workflow"),
            limit=limit,
            offset=offset,
        )
        return Response({"entries": [pending_gang_entry(gang) for gang in found], "more_entries": more})


def pending_gang_entry(gang: WaitingGang) -> dict[str, Any]:
    """One waiting gang."""
    reserved = gang.reservation
    reservation = None
    if reserved is not None:
        latest = None if reserved.latest_start is None else utc_text(reserved.latest_start)
        reservation = fields_body(reserved) | {"since": utc_text(reserved.since), "latest_start": latest}
    body = flat_body(gang)
    body["submit_time"], body["unblock"] = utc_text(gang.submit_time), list(gang.unblock)
    body["reason"], body["reservation"], body["start"] = flat_body(gang.reason), reservation, start_body(gang.start)
    return body


def start_body(start: GangStart | None) -> dict[str, Any] | None:
    """When a gang is forecast to start; None before its first forecast."""
    if start is None:
        return None
    return {
        "p10": start.p10 and utc_text(start.p10),
        "p50": start.p50 and utc_text(start.p50),
        "p90": start.p90 and utc_text(start.p90),
        "samples": start.samples,
        "made_at": utc_text(start.made_at),
        "never": start.never,
    }


def queue_position_body(gang: WaitingGang) -> dict[str, Any]:
    """The position and the reason of a gang, in the form of the answer about its workflow."""
    body = pending_gang_entry(gang)
    return {key: body[key] for key in QUEUE_POSITION}
