"""Configuration of top-level pools (OSMO contract, section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, unwrap_as
from pools.api.pool_requests import (
    apply_or_preview,
    read_change,
    read_configuration,
    read_new_name,
    require_top_level_name,
)
from pools.api.request_parsing import etag_header, expected_version, query_boolean, unwrap_body
from pools.api.schema import (
    DRY_RUN,
    INCLUDE_ARCHIVED,
    NULL,
    OBJECT,
    TEXT,
    QueryParameter,
    Schema,
    describe_operation,
    object_with,
    without_type_lists,
)
from pools.api.subpools import subpool_response
from pools.api.views import View
from pools.api.warnings_header import warning_header
from pools.domain import names
from pools.domain.changes.pools import DeletePool, PatchPool, PoolChange, PutPool
from pools.domain.errors import BadInput, Violation
from pools.domain.pool_fields import pool_properties
from pools.domain.roles import Actor, Permission
from pools.filtersets.pools import PoolFilterSet
from pools.models import Pool
from pools.permissions import get_visible_root, require_permission, require_platform
from pools.representations.pool import pool_body, pool_list_body
from pools.services.cohort_effects import effect_on_pool, effect_on_pools
from pools.services.dry_run import warnings_of
from pools.services.pool_configuration import PoolResult
from pools.services.pools import delete_pool, patch_pool, put_pool, put_pools, rename_pool

VERBOSE_PARAMETER = QueryParameter(
    "verbose", {"type": "boolean"}, "With the values that follow from the configuration."
)
CONFIGURATION = object_with(without_type_lists(pool_properties()), required=[], additional=True)
POOL = object_with({**CONFIGURATION["properties"], "platforms": OBJECT}, required=[], additional=True)
"""A pool in answers, where platforms have further keys."""


def _wrapped(wrapper: str, inner: Schema) -> Schema:
    """A body with the reason and tags beside the configuration; a plain configuration has the keys of a pool."""
    return object_with(
        {wrapper: inner, "description": TEXT, "tags": {"type": "array", "items": TEXT}}, required=[], additional=True
    )


class PoolConfigs(View):
    """All pools that the caller may see, and many pools in one request."""

    @describe_operation(
        "Show the configuration of pools.",
        query_parameters=[
            VERBOSE_PARAMETER,
            QueryParameter("backend", TEXT, "Only pools on this backend."),
            INCLUDE_ARCHIVED,
        ],
        answer=object_with({"pools": {"type": "object", "additionalProperties": POOL}}),
    )
    def get(self, request: Request) -> Response:
        roots = Pool.objects.visible_to(self.actor).roots().select_related("backend", "cohort").order_by("name")
        filters = PoolFilterSet(request.query_params, roots, actor=self.actor)
        rows, verbose = filters.matching_rows(), bool(filters.value("verbose"))
        return Response({"pools": {row.name: pool_list_body(row, verbose=verbose) for row in rows}})

    @describe_operation(
        "Create or replace many pools, all or none; other pools stay.",
        query_parameters=[DRY_RUN],
        body=_wrapped("configs", {"type": "object", "additionalProperties": CONFIGURATION}),
        answer=NULL,
    )
    def put(self, request: Request) -> Response:
        require_platform(self.actor, Permission.POOL_CONFIGURE)
        bodies, description, tags = unwrap_body(request, wrappers=["configs"])
        if not bodies:
            raise BadInput.of(
                [Violation("configs", "missing", "configs is missing: give the configuration of each pool by name.")]
            )
        wrong = [
            Violation(name[:60], "bad_value", f"The configuration of {name[:60]!r} must be an object.")
            for name, body in bodies.items()
            if not isinstance(body, dict)
        ]
        if wrong:
            raise BadInput.of(wrong)

        def operation() -> object:
            return put_pools(actor=self.actor, bodies=bodies, description=description, tags=tags)

        if query_boolean(request, "dry_run"):
            return Response(effect_on_pools(operation, names=lambda: list(bodies), actor=self.actor))
        warnings = warnings_of(operation())
        return Response(None, headers=warning_header(warnings))


class PoolConfig(View):
    """One pool. The canonical name of a subpool answers the same as the subpool's own address (D9)."""

    @describe_operation("Show one pool or subpool.", query_parameters=[VERBOSE_PARAMETER], answer=POOL)
    def get(self, request: Request, name: str) -> Response:
        parent, subpool = names.split_name(name)
        if subpool is not None:
            return subpool_response(self.actor, parent, subpool)
        row = get_visible_root(self.actor, name)
        return Response(pool_body(row, verbose=query_boolean(request, "verbose")), headers=etag_header(row.version))

    @describe_change(PutPool, answer=POOL, body=_wrapped("configs", CONFIGURATION))
    def put(self, request: Request, name: str) -> Response:
        return answer_change(
            self, PutPool, put_pool, POOL_CHANGES, {"name": name}, unwrap=unwrap_as("body", read_configuration)
        )

    @describe_change(PatchPool, answer=POOL, body=_wrapped("configs_dict", CONFIGURATION))
    def patch(self, request: Request, name: str) -> Response:
        return answer_change(
            self, PatchPool, patch_pool, POOL_CHANGES, {"name": name}, unwrap=unwrap_as("patch", read_configuration)
        )

    @describe_change(DeletePool, answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        return answer_change(self, DeletePool, delete_pool, POOL_DELETION, {"name": name})


def _effect(command: PoolChange, run: Callable[[], object], actor: Actor) -> dict[str, Any]:
    return effect_on_pool(command.name, run, actor=actor)


def _render(result: PoolResult) -> Response:
    body = pool_body(result.row, warnings=result.warnings) | {"reactivated": result.reactivated}
    return Response(body, headers=etag_header(result.row.version))


def _render_deletion(archived: Pool | None) -> Response:
    if archived is None:
        return Response(None)
    message = (
        f"Pool {archived.name} had subpools or workflows, so it was archived, not deleted. PUT it again to restore it."
    )
    return Response(None, headers=warning_header([message]))


POOL_CHANGES = ChangeAnswer(_render, _effect, guard=require_top_level_name)
POOL_DELETION = ChangeAnswer(_render_deletion, _effect, guard=require_top_level_name)


class PoolRename(View):
    """The rename of a pool."""

    @describe_operation(
        "Rename a pool with its roles and archived subpools.",
        query_parameters=[DRY_RUN],
        body=object_with({"new_name": TEXT}, additional=True),
        answer=POOL,
    )
    def put(self, request: Request, name: str) -> Response:
        require_top_level_name(self.actor, {"name": name})
        require_permission(self.actor, Permission.POOL_CONFIGURE, name)
        change = read_change(request, "new_name")
        to, version = read_new_name(change), expected_version(request)
        return apply_or_preview(
            self,
            name,
            lambda: rename_pool(
                actor=self.actor,
                name=name,
                new_name=to,
                description=change.description,
                tags=change.tags,
                expected_version=version,
            ),
            renamed_to=to,
        )
