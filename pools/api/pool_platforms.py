"""Platforms of a pool: kinds of machines and what work may do on them (OSMO contract, section 8)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version
from pools.api.pool_requests import configuration, effect_on_pool, new_name, remarks, top_level
from pools.api.schema import DRY_RUN, OBJECT, TEXT, documented, fields
from pools.api.views import View
from pools.domain.platforms import platform_body, platforms_of
from pools.domain.roles import Action
from pools.models import Pool
from pools.permissions import require, visible_root
from pools.services.pool_writing import PoolResult, not_found_platform
from pools.services.pools import put_platform, rename_platform


class PlatformList(View):
    """The platforms of a pool."""

    @documented("List a pool's platforms.", answer=fields({"platforms": OBJECT}))
    def get(self, request: Request, name: str) -> Response:
        row = visible_root(self.actor, name)
        return Response({"platforms": {each: platform_body(body) for each, body in platforms_of(row.config).items()}})


class PlatformDetail(View):
    """One platform."""

    @documented("Show one platform of a pool.", answer=OBJECT)
    def get(self, request: Request, name: str, platform: str) -> Response:
        row = visible_root(self.actor, name)
        return Response(_body(row, platform), headers=etag(row.version))

    @documented(
        "Make or replace one platform of a pool.",
        query=[DRY_RUN],
        body=fields({"configs": OBJECT, "description": TEXT}, required=[], more=True),
        answer=OBJECT,
    )
    def put(self, request: Request, name: str, platform: str) -> Response:
        top_level(self.actor, name)
        require(self.actor, Action.POOL_CONFIGURE, name)
        body, description, tags = configuration(request)
        version = expected_version(request)

        def deed() -> PoolResult:
            return put_platform(
                actor=self.actor,
                name=name,
                platform=platform,
                body=body,
                description=description,
                tags=tags,
                expected_version=version,
            )

        if boolean(request, "dry_run"):
            return Response(effect_on_pool(name, deed, actor=self.actor))
        row = deed().row
        return Response(_body(row, platform), headers=etag(row.version))


class PlatformRename(View):
    """Another name for a platform."""

    @documented(
        "Rename a platform of a pool; the default platform follows.",
        query=[DRY_RUN],
        body=fields({"new_name": TEXT}, more=True),
        answer=OBJECT,
    )
    def put(self, request: Request, name: str, platform: str) -> Response:
        top_level(self.actor, name)
        require(self.actor, Action.POOL_CONFIGURE, name)
        change = remarks(request, "new_name")
        to, version = new_name(change), expected_version(request)

        def deed() -> PoolResult:
            return rename_platform(
                actor=self.actor,
                name=name,
                platform=platform,
                new_name=to,
                description=change.description,
                tags=change.tags,
                expected_version=version,
            )

        if boolean(request, "dry_run"):
            return Response(effect_on_pool(name, deed, actor=self.actor))
        row = deed().row
        return Response(_body(row, to), headers=etag(row.version))


def _body(row: Pool, platform: str) -> dict[str, object]:
    found = platforms_of(row.config).get(platform)
    if found is None:
        raise not_found_platform(row.name, platform)
    return platform_body(found)
