"""Search by name, for the box in the head of every page and for programs."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import TEXT, QueryParameter, array_of, describe_operation, object_with
from pools.api.views import View
from scheduling.page_addresses import address_of
from scheduling.selectors.search import SearchKind, search

MAX_HITS = 50
HIT = object_with(
    {"kind": {"type": "string", "enum": [str(kind) for kind in SearchKind]}, "name": TEXT, "detail": TEXT, "page": TEXT}
)


class Search(View):
    """Objects by the beginning of their names."""

    @describe_operation(
        "Find pools, subpools, workflows, users, nodes, GPU quota namespaces, saved views and actions by the beginning "
        "of their names.",
        query_parameters=[QueryParameter("q", TEXT, "The beginning of a name. Empty: nothing is found.")],
        answer=object_with({"results": array_of(HIT)}),
    )
    def get(self, request: Request) -> Response:
        hits = search(self.actor, request.query_params.get("q", ""), limit=MAX_HITS)
        results = [{"kind": hit.kind, "name": hit.name, "detail": hit.detail, "page": address_of(hit)} for hit in hits]
        return Response({"results": results})
