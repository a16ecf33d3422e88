"""Nodes behind the pools (OSMO contract, section 6)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.pool_lists import FILTERS, named_pools
from pools.api.schema import OBJECT, TEXT, Query, array, documented, fields
from pools.api.views import View
from pools.domain.errors import NotFound
from scheduling.selectors.resources import resources

NODES = fields({"resources": array(OBJECT)})


class ResourceList(View):
    """The nodes of the pools that one sees."""

    @documented(
        "List nodes.", query=[*FILTERS[:2], Query("platforms", TEXT, "Only these platforms.", many=True)], answer=NODES
    )
    def get(self, request: Request) -> Response:
        platforms = {name for name in request.query_params.getlist("platforms") if name} or None
        return Response({"resources": resources(self.actor, pools=named_pools(request), platforms=platforms)})


class ResourceDetail(View):
    """The nodes of one name: one, or one on each of several backends."""

    @documented("Show one node.", answer=NODES)
    def get(self, request: Request, name: str) -> Response:
        found = resources(self.actor, node=name)
        if not found:
            raise NotFound(f"There is no node {name} that you can see.")
        return Response({"resources": found})
