"""Approvals by a second person: the requests, and the decisions about them (docs/approvals.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypedDict, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on
from pools.api.questions import parameters_of, read_query
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.changes.approvals import ApprovalDecision, Approve, Reject, Withdraw
from pools.domain.lists import ApprovalQuery
from pools.domain.people.roles import Actor
from pools.models import ApprovalRequest
from pools.representations.approval import ApprovalAnswer, approval_body
from pools.selectors.list_order import read_part
from pools.services.changes.dry_run import EffectAnswer, effect_on_pool_tree
from pools.services.configuration.approvals import approve, get_request, list_requests, reject, withdraw
from pools.services.configuration.cohort_effects import effect_on_pool

DecisionT = TypeVar("DecisionT", bound=ApprovalDecision)


class ApprovalListAnswer(TypedDict):
    """A page of requests, the newest first."""

    approvals: list[ApprovalAnswer]
    more_entries: bool


class ApprovalList(View):
    """The requests that the caller may see: of the pools of a pool admin, and the own ones."""

    @describe_operation(
        "List the changes of quotas for which somebody requested an approval, the newest first.",
        query_parameters=parameters_of(ApprovalQuery),
        answer=ApprovalListAnswer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(ApprovalQuery, request)
        chosen = {"state": query.state, "pool": query.pool}
        rows = list_requests(self.actor).filter(**{key: value for key, value in chosen.items() if value})
        page, more = read_part(rows, limit=query.limit, offset=query.offset)
        bodies = [approval_body(row, self.actor) for row in page]
        return Response(ApprovalListAnswer(approvals=bodies, more_entries=more))


class ApprovalDetail(View):
    """One request."""

    @describe_operation("Show one request for an approval.", answer=ApprovalAnswer)
    def get(self, request: Request, approval: int) -> Response:
        return Response(approval_body(get_request(self.actor, approval), self.actor))


def _state(command: ApprovalDecision, actor: Actor) -> ApprovalAnswer:
    return approval_body(get_request(actor, command.approval), actor)


def _approval_effect(command: Approve, run: Callable[[], object], actor: Actor) -> EffectAnswer:
    """The effect of an approval is that of the requested change."""
    row = get_request(actor, command.approval)
    effect_of = effect_on_pool if row.changes_pool else effect_on_pool_tree
    return effect_of(row.pool, run, actor=actor)


class ApprovalApprove(View):
    """The approval, which makes the change."""

    @describe_change(Approve, answer=ApprovalAnswer)
    def post(self, request: Request, approval: int) -> Response:
        return _decide(self, Approve, approve, approval, _approval_effect)


class ApprovalReject(View):
    """The rejection."""

    @describe_change(Reject, answer=ApprovalAnswer)
    def post(self, request: Request, approval: int) -> Response:
        return _decide(self, Reject, reject, approval, effect_on(_state))


class ApprovalWithdraw(View):
    """The withdrawal."""

    @describe_change(Withdraw, answer=ApprovalAnswer)
    def post(self, request: Request, approval: int) -> Response:
        return _decide(self, Withdraw, withdraw, approval, effect_on(_state))


def _decide(
    view: View,
    kind: type[DecisionT],
    service: Callable[..., ApprovalRequest],
    approval: int,
    effect: Callable[[DecisionT, Callable[[], object], Actor], EffectAnswer],
) -> Response:
    # An approval of what changed meanwhile is noted in a transaction of its own: no stored answer can be around it.
    answer = ChangeAnswer(partial(approval_body, actor=view.actor), effect, keeps_answers=False)
    return answer_change(view, kind, service, answer, {"approval": approval})
