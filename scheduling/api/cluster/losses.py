"""*What if it breaks*: the single nodes of a cluster, the worst first."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.api.cluster.promises import PromiseAnswer, promise_body
from scheduling.locking import hold_what_if_turn
from scheduling.selectors.what_if.single_losses import SingleLoss, SingleLosses, read_single_losses


class LossOutcomeAnswer(TypedDict):
    """What the next cycle makes of it, in workflows."""

    again: int
    waiting: int
    displaced: int


class SingleLossAnswer(TypedDict):
    """The loss of one of these nodes, which are alike; work is that of the pools that the caller may see."""

    nodes: list[str]
    gpus: int
    workflows: int
    lost_gpus: int
    guaranteed_gpus: int
    ended: int
    missing: int
    pools: list[PromiseAnswer]
    outcome: LossOutcomeAnswer | None
    flavor: NotRequired[Annotated[str, "Of nodes with a named flavor."]]
    shared: NotRequired[Annotated[bool, "Where the GPUs are parts of shared ones."]]


class SingleLossesAnswer(TypedDict):
    """All single nodes, the worst first."""

    backend: str
    whole: bool
    nodes: int
    losses: list[SingleLossAnswer]


class SingleLossList(View):
    """For each node: the workflows that lose GPUs at once, how many do not restart (`ended`), the GPUs of quotas that
    are newly `missing`, and where a cycle was run, how many start `again` at once, wait, or are `displaced`
    elsewhere. Only the worst have an `outcome` in a large cluster; a question to `/api/simulate` has that of any node.
    """

    @describe_operation(
        "Show what the loss of each single node of a backend would do, the worst first.",
        answer=SingleLossesAnswer,
        extra_statuses=(429,),
    )
    def get(self, request: Request, backend: str) -> Response:
        assert self.actor.user_id is not None, "only people ask"
        with hold_what_if_turn(self.actor.user_id):
            return Response(_body(read_single_losses(self.actor, backend)))


def _body(found: SingleLosses) -> SingleLossesAnswer:
    return {
        "backend": found.backend,
        "whole": found.is_whole,
        "nodes": found.nodes,
        "losses": [_loss_body(each) for each in found.losses],
    }


def _loss_body(loss: SingleLoss) -> SingleLossAnswer:
    outcome = loss.outcome
    body: SingleLossAnswer = {
        "nodes": list(loss.nodes),
        "gpus": loss.gpus,
        "workflows": loss.workflows,
        "lost_gpus": loss.lost,
        "guaranteed_gpus": loss.guaranteed,
        "ended": loss.ended,
        "missing": loss.missing,
        "pools": [promise_body(each) for each in loss.short],
        "outcome": None
        if outcome is None
        else {"again": outcome.again, "waiting": outcome.waiting, "displaced": outcome.displaced},
    }
    if loss.flavor:
        body["flavor"] = loss.flavor
    if loss.is_of_parts:
        body["shared"] = True
    return body
