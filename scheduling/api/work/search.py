"""Search by name, for the box in the head of every page and for programs."""

from __future__ import annotations

from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import TEXT, QueryParameter, describe_operation
from pools.api.views import View
from scheduling.page_addresses import address_of
from scheduling.selectors.work.search import SearchKind, search

MAX_HITS = 50


class HitAnswer(TypedDict):
    """An object; `page` is the address of its page."""

    kind: Annotated[str, SearchKind]
    name: str
    detail: str
    page: str


class SearchAnswer(TypedDict):
    """What was found."""

    results: list[HitAnswer]


class Search(View):
    """Objects, pages and actions by words of their names."""

    @describe_operation(
        "Find pools, subpools, cohorts, workflows, users, clusters, nodes, GPU quota namespaces, saved views, pages "
        "and actions by words of their names, the best first.",
        query_parameters=[QueryParameter("q", TEXT, "Words or parts of a name, in any order. Empty: nothing.")],
        answer=SearchAnswer,
    )
    def get(self, request: Request) -> Response:
        hits = search(self.actor, request.query_params.get("q", ""), limit=MAX_HITS)
        results: list[HitAnswer] = [
            {"kind": hit.kind, "name": hit.name, "detail": hit.detail, "page": address_of(hit)} for hit in hits
        ]
        return Response(SearchAnswer(results=results))
