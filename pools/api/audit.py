"""Who changed what (api.md, "Audit and events")."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import page
from pools.api.schema import (
    BOOLEAN,
    LIMIT,
    OBJECT,
    OFFSET,
    TEXT,
    TIME,
    WHOLE,
    Query,
    array,
    documented,
    fields,
    nullable,
)
from pools.api.times import moment
from pools.api.views import View
from pools.selectors.audit_trail import entries, entry_body

ENTRY = fields(
    {
        "id": WHOLE,
        "time": TIME,
        "actor": TEXT,
        "action": TEXT,
        "object": TEXT,
        "before": nullable(OBJECT),
        "after": nullable(OBJECT),
        "description": TEXT,
        "request_id": TEXT,
        "sentence": TEXT,
    }
)
FILTERS = [
    Query("object", TEXT, "Only this object, as pool/team--a or workflow/hello-1."),
    Query("actor", TEXT, "Only what this user did."),
    Query("action", TEXT, "Only this action, as subpool.updated."),
    Query("since", TEXT, "From this time on (UTC)."),
    Query("until", TEXT, "Up to this time (UTC)."),
    LIMIT,
    OFFSET,
]


class Audit(View):
    """The audit trail. Pool admins see their pools, everybody the own deeds and work, the house's readers all."""

    @documented(
        "List who changed what, the newest first.",
        query=FILTERS,
        answer=fields({"entries": array(ENTRY), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request) -> Response:
        limit, offset = page(request, limit=50)
        asked = request.query_params
        found = entries(
            self.actor,
            object_name=asked.get("object"),
            by=asked.get("actor"),
            action=asked.get("action"),
            since=moment(request, "since"),
            until=moment(request, "until"),
        )
        rows = list(found[offset : offset + limit + 1])
        return Response({"entries": [entry_body(row) for row in rows[:limit]], "more_entries": len(rows) > limit})
