"""The quotas of many subpools at once (api.md, "Subpools", for one)."""

from __future__ import annotations

from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, query_boolean, unwrap_body
from pools.api.schema import DRY_RUN, INTEGER, TEXT, QueryParameter, describe_operation, object_with
from pools.api.subpools import QUOTA
from pools.api.views import View
from pools.permissions import get_visible_root
from pools.representations.subpool import SubpoolAnswer, subpool_body
from pools.selectors.subpool_quotas import visible_quotas
from pools.services.subpool_quotas import QuotasResult, effect_on_quotas, resize_subpools


class ResizedAnswer(TypedDict):
    """The subpools whose quota changed."""

    subpools: list[SubpoolAnswer]
    warnings: list[str]


class SubpoolQuotas(View):
    """The quotas of ACTIVE subpools, of all pools that the caller may see."""

    @describe_operation(
        "List the quotas of all ACTIVE subpools that the caller may see, by the names of the subpools.",
        query_parameters=[QueryParameter("pool", TEXT, "Only the subpools of this pool.")],
        answer=object_with({"quotas": {"type": "object", "additionalProperties": INTEGER}}),
        extra_statuses=[404],
    )
    def get(self, request: Request) -> Response:
        pool = request.query_params.get("pool")
        roots = None if not pool else [get_visible_root(self.actor, pool)]
        return Response({"quotas": visible_quotas(self.actor, roots)})

    @describe_operation(
        "Change the quotas of many subpools, all of them or none. A subpool that has its quota already is left alone.",
        query_parameters=[DRY_RUN],
        body=object_with({"quotas": {"type": "object", "additionalProperties": QUOTA}}, required=[], additional=True),
        answer=ResizedAnswer,
    )
    def patch(self, request: Request) -> Response:
        body, description, _ = unwrap_body(request)
        quotas = _read_quotas(body)

        def operation() -> QuotasResult:
            return resize_subpools(actor=self.actor, quotas=quotas, description=description)

        if query_boolean(request, "dry_run"):
            return Response(effect_on_quotas(quotas, operation, actor=self.actor))
        result = operation()
        changed = [subpool_body(each.row, each.subpool) for each in result.changed]
        answer: ResizedAnswer = {"subpools": changed, "warnings": list(result.warnings)}
        return Response(answer)


def _read_quotas(body: dict[str, object]) -> dict[str, Any]:
    reader = BodyReader(body)
    reader.reject_unknown_keys(("quotas",), ())
    quotas = body.get("quotas")
    if not isinstance(quotas, dict):
        reader.add_fault("quotas", "bad_value", 'must be an object such as {"team--a": 20}.')
    reader.raise_faults()
    assert isinstance(quotas, dict)
    return quotas
