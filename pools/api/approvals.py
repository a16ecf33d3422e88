"""Approvals by a second person: the requests, and the decisions about them (docs/approvals.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, body_object, collect_faults, query_boolean, query_page
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    LIMIT,
    OFFSET,
    TEXT,
    QueryParameter,
    describe_operation,
    object_with,
)
from pools.api.views import View
from pools.domain.approvals import ApprovalState
from pools.domain.errors import BadInput, Violation
from pools.models import ApprovalRequest
from pools.representations.approval import ApprovalAnswer, approval_body
from pools.services.approval_effects import approval_effect
from pools.services.approvals import (
    approve,
    get_request,
    list_requests,
    reject,
    withdraw,
)
from pools.services.dry_run import read_effect

REQUEST_APPROVAL = QueryParameter(
    "request_approval", BOOLEAN, "If the change needs the approval of a second person, request it (answer 202)."
)
_STATE = {"type": "string", "enum": [str(state) for state in ApprovalState]}


class ApprovalListAnswer(TypedDict):
    """A page of requests, the newest first."""

    approvals: list[ApprovalAnswer]
    more_entries: bool


class ApprovalList(View):
    """The requests that the caller may see: of the pools of a pool admin, and the own ones."""

    @describe_operation(
        "List the changes of quotas for which somebody asked for an approval, the newest first.",
        query_parameters=[
            QueryParameter("state", _STATE, "Only requests in this state."),
            QueryParameter("pool", TEXT, "Only requests for this pool and its subpools."),
            LIMIT,
            OFFSET,
        ],
        answer=ApprovalListAnswer,
    )
    def get(self, request: Request) -> Response:
        (limit, offset), state = collect_faults(lambda: query_page(request), lambda: _query_state(request))
        rows = list_requests(self.actor)
        if state:
            rows = rows.filter(state=state)
        if pool := request.query_params.get("pool"):
            rows = rows.filter(pool=pool)
        page = list(rows[offset : offset + limit + 1])
        bodies = [approval_body(row, self.actor) for row in page[:limit]]
        answer: ApprovalListAnswer = {"approvals": bodies, "more_entries": len(page) > limit}
        return Response(answer)


class ApprovalDetail(View):
    """One request."""

    @describe_operation("Show one request for an approval.", answer=ApprovalAnswer)
    def get(self, request: Request, approval: int) -> Response:
        return Response(approval_body(get_request(self.actor, approval), self.actor))


class _Decision(View):
    """A decision: a POST with a reason."""

    def _decide(self, request: Request, approval: int, service: Callable[..., ApprovalRequest]) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(())
        note = reader.description
        reader.raise_faults()

        def operation() -> ApprovalRequest:
            return service(actor=self.actor, pk=approval, note=note)

        if query_boolean(request, "dry_run"):
            return Response(self._effect(approval, operation))
        return Response(approval_body(operation(), self.actor))

    def _effect(self, approval: int, operation: Callable[[], ApprovalRequest]) -> dict[str, Any]:
        return read_effect(operation, read_state=lambda: approval_body(get_request(self.actor, approval), self.actor))


_NOTE = object_with({"description": TEXT}, required=[], additional=True)


class ApprovalApprove(_Decision):
    """The approval, which makes the change."""

    @describe_operation(
        "Approve a request: the change is made now, in the name of the caller, who is not the requester.",
        query_parameters=[DRY_RUN],
        body=_NOTE,
        answer=ApprovalAnswer,
    )
    def post(self, request: Request, approval: int) -> Response:
        return self._decide(request, approval, approve)

    def _effect(self, approval: int, operation: Callable[[], ApprovalRequest]) -> dict[str, Any]:
        return approval_effect(self.actor, approval, operation)


class ApprovalReject(_Decision):
    """The rejection."""

    @describe_operation(
        "Reject a request; the caller is not the requester.",
        query_parameters=[DRY_RUN],
        body=_NOTE,
        answer=ApprovalAnswer,
    )
    def post(self, request: Request, approval: int) -> Response:
        return self._decide(request, approval, reject)


class ApprovalWithdraw(_Decision):
    """The withdrawal."""

    @describe_operation("Withdraw the own request.", query_parameters=[DRY_RUN], body=_NOTE, answer=ApprovalAnswer)
    def post(self, request: Request, approval: int) -> Response:
        return self._decide(request, approval, withdraw)


def _query_state(request: Request) -> str:
    text = request.query_params.get("state", "")
    if text and text not in set(ApprovalState):
        message = f"state: give one of {', '.join(ApprovalState)}."
        raise BadInput.of([Violation("state", "bad_query", message)])
    return text
