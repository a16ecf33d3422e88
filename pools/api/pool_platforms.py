"""Platforms of a pool: types of nodes, and the rights of work on them (OSMO contract, section 8)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.pool_requests import (
    read_change,
    read_configuration,
    read_new_name,
    require_top_level_name,
)
from pools.api.request_parsing import etag_header, expected_version, query_boolean
from pools.api.schema import DRY_RUN, OBJECT, TEXT, describe_operation, object_with
from pools.api.views import View
from pools.domain.platforms import platform_body, platforms_of
from pools.domain.roles import Permission
from pools.models import Pool
from pools.permissions import get_visible_root, require_permission
from pools.services.cohort_effects import effect_on_pool
from pools.services.pool_configuration import PoolResult, unknown_platform
from pools.services.pools import put_platform, rename_platform


class PlatformList(View):
    """The platforms of a pool."""

    @describe_operation("List a pool's platforms.", answer=object_with({"platforms": OBJECT}))
    def get(self, request: Request, name: str) -> Response:
        row = get_visible_root(self.actor, name)
        return Response({"platforms": {each: platform_body(body) for each, body in platforms_of(row.config).items()}})


class PlatformDetail(View):
    """One platform."""

    @describe_operation("Show one platform of a pool.", answer=OBJECT)
    def get(self, request: Request, name: str, platform: str) -> Response:
        row = get_visible_root(self.actor, name)
        return Response(_body(row, platform), headers=etag_header(row.version))

    @describe_operation(
        "Create or replace one platform of a pool.",
        query_parameters=[DRY_RUN],
        body=object_with({"configs": OBJECT, "description": TEXT}, required=[], additional=True),
        answer=OBJECT,
    )
    def put(self, request: Request, name: str, platform: str) -> Response:
        require_top_level_name(self.actor, {"name": name})
        require_permission(self.actor, Permission.POOL_CONFIGURE, name)
        body, description, tags = read_configuration(request)
        version = expected_version(request)

        def operation() -> PoolResult:
            return put_platform(
                actor=self.actor,
                name=name,
                platform=platform,
                body=body,
                description=description,
                tags=tags,
                expected_version=version,
            )

        if query_boolean(request, "dry_run"):
            return Response(effect_on_pool(name, operation, actor=self.actor))
        row = operation().row
        return Response(_body(row, platform), headers=etag_header(row.version))


class PlatformRename(View):
    """The rename of a platform."""

    @describe_operation(
        "Rename a platform of a pool; the default platform follows.",
        query_parameters=[DRY_RUN],
        body=object_with({"new_name": TEXT}, additional=True),
        answer=OBJECT,
    )
    def put(self, request: Request, name: str, platform: str) -> Response:
        require_top_level_name(self.actor, {"name": name})
        require_permission(self.actor, Permission.POOL_CONFIGURE, name)
        change = read_change(request, "new_name")
        to, version = read_new_name(change), expected_version(request)

        def operation() -> PoolResult:
            return rename_platform(
                actor=self.actor,
                name=name,
                platform=platform,
                new_name=to,
                description=change.description,
                tags=change.tags,
                expected_version=version,
            )

        if query_boolean(request, "dry_run"):
            return Response(effect_on_pool(name, operation, actor=self.actor))
        row = operation().row
        return Response(_body(row, to), headers=etag_header(row.version))


def _body(row: Pool, platform: str) -> dict[str, object]:
    found = platforms_of(row.config).get(platform)
    if found is None:
        raise unknown_platform(row.name, platform)
    return platform_body(found)
