"""Pools as users see them (design, O5.1)."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.lists import PoolListQuery
from pools.selectors.pool_lists import (
    ListedPoolAnswer,
    group_by_node_set,
    list_pools,
    minimal_bodies,
    node_groups_with_nodes,
)


class PoolNameAnswer(TypedDict):
    """The name of a pool."""

    name: str


class PoolSetAnswer(TypedDict):
    """The pools that share nodes."""

    pools: list[PoolNameAnswer]


class PoolListAnswer(TypedDict):
    """Pools and subpools by name, and the pools that share nodes."""

    pools: dict[str, ListedPoolAnswer]
    node_sets: list[PoolSetAnswer]


class PoolList(View):
    """Every pool that the caller may see, with its subpools."""

    @describe_operation("List pools.", query_parameters=parameters_of(PoolListQuery), answer=PoolListAnswer)
    def get(self, request: Request) -> Response:
        query = read_query(PoolListQuery, request)
        trees = list_pools(
            self.actor,
            names=query.names,
            include_archived=query.include_archived,
            with_subpools=query.with_subpools,
        )
        # OSMO's client takes a single name under node_sets as the default pool and submits there without asking. So
        # only the pool itself is listed; its subpools have to be named.
        sets = group_by_node_set(trees, node_groups_with_nodes())
        answer: PoolListAnswer = {
            "pools": {name: body for tree in trees for name, body in minimal_bodies(tree)},
            "node_sets": [{"pools": [{"name": tree.root.name} for tree in shared]} for _, shared in sets],
        }
        return Response(answer)
