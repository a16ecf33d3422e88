"""Nodes behind the pools (OSMO contract, section 6)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.pool_lists import POOL_FILTERS, requested_pools
from pools.api.schema import OBJECT, TEXT, QueryParameter, array_of, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import NotFound
from scheduling.selectors.node_resources import list_node_resources

NODES = object_with({"resources": array_of(OBJECT)})


class ResourceList(View):
    """The nodes of the pools that the caller may see."""

    @describe_operation(
        "List nodes.",
        query_parameters=[*POOL_FILTERS[:2], QueryParameter("platforms", TEXT, "Only these platforms.", is_list=True)],
        answer=NODES,
    )
    def get(self, request: Request) -> Response:
        platforms = {name for name in request.query_params.getlist("platforms") if name} or None
        return Response(
            {"resources": list_node_resources(self.actor, pools=requested_pools(request), platforms=platforms)}
        )


class ResourceDetail(View):
    """The nodes of one name: one, or one on each of several backends."""

    @describe_operation("Show one node.", answer=NODES)
    def get(self, request: Request, name: str) -> Response:
        found = list_node_resources(self.actor, node=name)
        if not found:
            raise NotFound(f"There is no node {name} that you can see.")
        return Response({"resources": found})
