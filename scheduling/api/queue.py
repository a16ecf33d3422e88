"""Who waits, and why (api.md, "Waiting and what-if")."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import page
from pools.api.rendering import naive
from pools.api.schema import BOOLEAN, LIMIT, OFFSET, TEXT, TIME, WHOLE, Query, array, documented, fields
from pools.api.views import View
from scheduling.api.queries import many
from scheduling.api.shapes import PRIORITY, STANDING
from scheduling.pages import leaves_meant
from scheduling.selectors.queue import Told, waiting

ENTRY = fields(
    {
        "workflow": TEXT,
        "group": TEXT,
        "user": TEXT,
        "backend": TEXT,
        "pool": TEXT,
        "queue": TEXT,
        "priority": PRIORITY,
        "submit_time": TIME,
        "gpus": WHOLE,
        **STANDING,
    },
    more=True,
)


class Queue(View):
    """The waiting gangs that the caller may see, in the order they are served. Positions count those he may not see."""

    @documented(
        "Show what waits, at which place and why.",
        query=[
            Query("pool", TEXT, "Only on this pool with its slices, or on this slice.", many=True),
            Query("user", TEXT, "Only work of this user.", many=True),
            Query("workflow", TEXT, "Only the groups of this workflow.", many=True),
            LIMIT,
            OFFSET,
        ],
        answer=fields({"entries": array(ENTRY), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request) -> Response:
        limit, offset = page(request, limit=100)
        asked = many(request, "pool")
        pools = [leaf for name in asked for leaf in leaves_meant(self.actor, name)]
        found, more = waiting(
            self.actor,
            pools=pools,
            users=many(request, "user"),
            workflows=many(request, "workflow"),
            limit=limit,
            offset=offset,
        )
        return Response({"entries": [entry(told) for told in found], "more_entries": more})


def entry(told: Told) -> dict[str, Any]:
    """One waiting gang."""
    return asdict(told) | {"submit_time": naive(told.submit_time), "unblock": list(told.unblock)}


def standing(told: Told) -> dict[str, Any]:
    """Where a gang stands and why, as the answer about its workflow carries it."""
    body = entry(told)
    return {key: body[key] for key in STANDING}
