"""The audit log (api.md, "Audit and events")."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import collect_faults, query_page
from pools.api.schema import LIMIT, OFFSET, TEXT, QueryParameter, describe_operation
from pools.api.views import View
from pools.domain.audit_actions import AuditAction
from pools.filtersets.audit import AuditFilterSet
from pools.models import AuditEntry
from pools.selectors.audit_trail import AuditEntryAnswer, entry_body

AUDIT_FILTERS = [
    QueryParameter("object", TEXT, "Only this object, as pool/team--a or workflow/hello-1."),
    QueryParameter("actor", TEXT, "Only what this user did."),
    QueryParameter("action", TEXT, f"Only this action, as {AuditAction.SUBPOOL_UPDATED}."),
    QueryParameter("since", TEXT, "From this time on (UTC)."),
    QueryParameter("until", TEXT, "Up to this time (UTC)."),
    LIMIT,
    OFFSET,
]


class AuditTrailAnswer(TypedDict):
    """A page of the audit log."""

    entries: list[AuditEntryAnswer]
    more_entries: bool


class AuditTrail(View):
    """The audit log. Readers of the platform see all entries, pool admins those of their pools, other users those of
    their own actions and work."""

    @describe_operation(
        "List who changed what, the newest first.",
        query_parameters=AUDIT_FILTERS,
        answer=AuditTrailAnswer,
    )
    def get(self, request: Request) -> Response:
        filters = AuditFilterSet(request.query_params, AuditEntry.objects.visible_to(self.actor), actor=self.actor)
        (limit, offset), found = collect_faults(lambda: query_page(request, limit=50), filters.matching_rows)
        rows = list(found[offset : offset + limit + 1])
        entries = [entry_body(row) for row in rows[:limit]]
        return Response(AuditTrailAnswer(entries=entries, more_entries=len(rows) > limit))
