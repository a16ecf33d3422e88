"""Configuration of top-level pools (design, O8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change
from pools.api.configuration.pool_requests import read_configuration, require_top_level_name
from pools.api.configuration.subpools import subpool_response
from pools.api.questions import parameters_of
from pools.api.request_parsing import etag_header, query_boolean, unwrap_as, unwrap_body
from pools.api.schema import (
    NULL,
    QueryParameter,
    Schema,
    describe_operation,
    object_with,
    without_type_lists,
)
from pools.api.views import View
from pools.api.warnings_header import warning_header
from pools.domain import names
from pools.domain.changes.pools import DeletePool, PatchPool, PoolChange, PutPool, PutPools, RenamePool
from pools.domain.configuration.pool_fields import pool_properties
from pools.domain.lists import PoolQuery
from pools.domain.people.roles import Actor
from pools.filtersets.pools import PoolFilterSet
from pools.models import Pool
from pools.permissions import get_visible_root
from pools.representations.pool import ListedPoolAnswer, PoolAnswer, pool_body, pool_list_body
from pools.representations.subpool import SubpoolAnswer
from pools.services.changes.dry_run import EffectAnswer, warnings_of
from pools.services.configuration.cohort_effects import effect_on_pool, effect_on_pools
from pools.services.configuration.pool_configuration import PoolResult
from pools.services.configuration.pools import delete_pool, patch_pool, put_pool, put_pools, rename_pool

VERBOSE_PARAMETER = QueryParameter(
    "verbose", {"type": "boolean"}, "With the values that follow from the configuration."
)
CONFIGURATION = object_with(without_type_lists(pool_properties()), required=[], additional=True)


class PoolConfigListAnswer(TypedDict):
    """The configurations of pools by name."""

    pools: dict[str, ListedPoolAnswer]


def _wrapped(wrapper: str, inner: Schema) -> Schema:
    """A body with the configuration in a wrapper; a plain configuration has the keys of a pool."""
    return object_with({wrapper: inner}, required=[], additional=True)


class PoolConfigs(View):
    """All pools that the caller may see, and many pools in one request."""

    @describe_operation(
        "Show the configuration of pools.",
        query_parameters=parameters_of(PoolQuery),
        answer=PoolConfigListAnswer,
    )
    def get(self, request: Request) -> Response:
        roots = Pool.objects.visible_to(self.actor).roots().select_related("backend", "cohort").order_by("name")
        filters = PoolFilterSet(request.query_params, roots, actor=self.actor)
        rows, verbose = filters.matching_rows(), bool(filters.value("verbose"))
        return Response(PoolConfigListAnswer(pools={row.name: pool_list_body(row, verbose=verbose) for row in rows}))

    @describe_change(
        PutPools, answer=NULL, body=_wrapped("configs", {"type": "object", "additionalProperties": CONFIGURATION})
    )
    def put(self, request: Request) -> Response:
        read = partial(unwrap_body, wrappers=["configs"])
        return answer_change(self, PutPools, put_pools, MANY_POOLS, {}, unwrap=unwrap_as("configs", read))


class PoolConfig(View):
    """One pool. The canonical name of a subpool answers the same as the subpool's own address (design, D9)."""

    @describe_operation(
        "Show one pool or subpool.", query_parameters=[VERBOSE_PARAMETER], answer=PoolAnswer | SubpoolAnswer
    )
    def get(self, request: Request, name: str) -> Response:
        parent, subpool = names.split_name(name)
        if subpool is not None:
            return subpool_response(self.actor, parent, subpool)
        row = get_visible_root(self.actor, name)
        return Response(pool_body(row, verbose=query_boolean(request, "verbose")), headers=etag_header(row.version))

    @describe_change(PutPool, answer=PoolAnswer, body=_wrapped("configs", CONFIGURATION))
    def put(self, request: Request, name: str) -> Response:
        return answer_change(
            self, PutPool, put_pool, POOL_CHANGES, {"name": name}, unwrap=unwrap_as("body", read_configuration)
        )

    @describe_change(PatchPool, answer=PoolAnswer, body=_wrapped("configs_dict", CONFIGURATION))
    def patch(self, request: Request, name: str) -> Response:
        return answer_change(
            self, PatchPool, patch_pool, POOL_CHANGES, {"name": name}, unwrap=unwrap_as("patch", read_configuration)
        )

    @describe_change(DeletePool, answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        return answer_change(self, DeletePool, delete_pool, POOL_DELETION, {"name": name})


def pool_effect(command: PoolChange, run: Callable[[], object], actor: Actor) -> EffectAnswer:
    """The effect of a change of one pool."""
    new_name = command.new_name if isinstance(command, RenamePool) else None
    return effect_on_pool(command.name, run, actor=actor, renamed_to=new_name)


def _effect_on_many(command: PutPools, run: Callable[[], object], actor: Actor) -> EffectAnswer:
    return effect_on_pools(run, names=partial(list, command.configs), actor=actor)


def _render(result: PoolResult) -> Response:
    body = pool_body(result.row, warnings=result.warnings)
    body["reactivated"] = result.reactivated
    return Response(body, headers=etag_header(result.row.version))


def _render_many(results: list[PoolResult]) -> Response:
    return Response(None, headers=warning_header(warnings_of(results)))


def _render_deletion(archived: Pool | None) -> Response:
    if archived is None:
        return Response(None)
    message = (
        f"Pool {archived.name} had subpools or workflows, so it was archived, not deleted. PUT it again to restore it."
    )
    return Response(None, headers=warning_header([message]))


POOL_CHANGES = ChangeAnswer(_render, pool_effect, guard=require_top_level_name)
MANY_POOLS = ChangeAnswer(_render_many, _effect_on_many)
POOL_DELETION = ChangeAnswer(_render_deletion, pool_effect, guard=require_top_level_name)


class PoolRename(View):
    """The rename of a pool."""

    @describe_change(RenamePool, answer=PoolAnswer)
    def put(self, request: Request, name: str) -> Response:
        return answer_change(self, RenamePool, rename_pool, POOL_CHANGES, {"name": name})
