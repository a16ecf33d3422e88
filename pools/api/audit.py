"""The audit log (design, A8)."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.lists import AuditQuery
from pools.filtersets.audit import AuditFilterSet
from pools.models import AuditEntry
from pools.selectors.audit_trail import AuditEntryAnswer, entry_body


class AuditTrailAnswer(TypedDict):
    """A page of the audit log."""

    entries: list[AuditEntryAnswer]
    more_entries: bool


class AuditTrail(View):
    """The audit log. Readers of the platform see all entries, pool admins those of their pools, other users those of
    their own actions and work."""

    @describe_operation(
        "List who changed what, the newest first.", query_parameters=parameters_of(AuditQuery), answer=AuditTrailAnswer
    )
    def get(self, request: Request) -> Response:
        filters = AuditFilterSet(request.query_params, AuditEntry.objects.visible_to(self.actor), actor=self.actor)
        rows, more = filters.read_page()
        return Response(AuditTrailAnswer(entries=[entry_body(row) for row in rows], more_entries=more))
