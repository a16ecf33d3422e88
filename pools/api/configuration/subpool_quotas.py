"""The quotas of many subpools at once (design, A2)."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change
from pools.api.configuration.subpools import kinds_of
from pools.api.schema import TEXT, QueryParameter, describe_operation
from pools.api.views import View
from pools.domain.changes.subpools import ResizeSubpools
from pools.permissions import get_visible_root
from pools.representations.subpool import SubpoolAnswer, subpool_body
from pools.selectors.quotas.subpool_quotas import visible_quotas
from pools.services.configuration.subpool_quotas import QuotasResult, effect_on_quotas, resize_subpools


class QuotasAnswer(TypedDict):
    """GPUs by the names of the subpools, by flavor where the pool has flavors."""

    quotas: dict[str, int | dict[str, int]]


class ResizedAnswer(TypedDict):
    """The subpools whose quota changed."""

    subpools: list[SubpoolAnswer]
    warnings: list[str]


class SubpoolQuotas(View):
    """The quotas of ACTIVE subpools, of all pools that the caller may see."""

    @describe_operation(
        "List the quotas of all ACTIVE subpools that the caller may see, by the names of the subpools.",
        query_parameters=[QueryParameter("pool", TEXT, "Only the subpools of this pool.")],
        answer=QuotasAnswer,
        extra_statuses=[404],
    )
    def get(self, request: Request) -> Response:
        pool = request.query_params.get("pool")
        roots = None if not pool else [get_visible_root(self.actor, pool)]
        return Response(QuotasAnswer(quotas=visible_quotas(self.actor, roots)))

    @describe_change(ResizeSubpools, answer=ResizedAnswer)
    def patch(self, request: Request) -> Response:
        return answer_change(self, ResizeSubpools, resize_subpools, QUOTA_CHANGES, {})


def _render(result: QuotasResult) -> Response:
    kinds = {root.pk: kinds_of(root) for root in {each.row.root for each in result.changed}}
    changed = [subpool_body(each.row, each.subpool, kinds[each.row.root.pk]) for each in result.changed]
    return Response(ResizedAnswer(subpools=changed, warnings=list(result.warnings)))


QUOTA_CHANGES = ChangeAnswer(_render, effect_on_quotas)
