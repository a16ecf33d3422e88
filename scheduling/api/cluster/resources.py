"""Nodes behind the pools (design, O6)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.errors import NotFound
from scheduling.domain.lists import ResourceQuery
from scheduling.selectors.cluster.node_resources import ResourceListAnswer, list_node_resources


class ResourceList(View):
    """The nodes of the pools that the caller may see."""

    @describe_operation(
        "List nodes.",
        query_parameters=parameters_of(ResourceQuery),
        answer=ResourceListAnswer,
    )
    def get(self, request: Request) -> Response:
        query = read_query(ResourceQuery, request)
        found = list_node_resources(self.actor, pools=query.names, platforms=query.platforms or None)
        return Response(ResourceListAnswer(resources=found))


class ResourceDetail(View):
    """The nodes of one name: one, or one on each of several backends."""

    @describe_operation("Show one node.", answer=ResourceListAnswer)
    def get(self, request: Request, name: str) -> Response:
        found = list_node_resources(self.actor, node=name)
        if not found:
            raise NotFound(f"There is no node {name} that you can see.")
        return Response(ResourceListAnswer(resources=found))
