"""Platforms of a pool: types of nodes, and the rights of work on them (design, O8)."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change
from pools.api.configuration.pool_requests import read_configuration, require_top_level_name
from pools.api.configuration.pools import pool_effect
from pools.api.request_parsing import etag_header, unwrap_as
from pools.api.schema import OBJECT, describe_operation, object_with
from pools.api.views import View
from pools.domain.changes.pools import PutPlatform, RenamePlatform
from pools.domain.configuration.platforms import platform_body, platforms_of
from pools.domain.configuration.pool_fields import PLATFORM_ANSWER
from pools.models import Pool
from pools.permissions import get_visible_root
from pools.services.configuration.pool_configuration import PoolResult, unknown_platform
from pools.services.configuration.pools import put_platform, rename_platform

_BODY = object_with({"configs": OBJECT}, required=[], additional=True)


PlatformAnswer = Annotated[dict[str, Any], PLATFORM_ANSWER]


class PlatformListAnswer(TypedDict):
    """The platforms of a pool by name."""

    platforms: dict[str, PlatformAnswer]


class PlatformList(View):
    """The platforms of a pool."""

    @describe_operation("List a pool's platforms.", answer=PlatformListAnswer)
    def get(self, request: Request, name: str) -> Response:
        row = get_visible_root(self.actor, name)
        found = platforms_of(row.config)
        return Response(PlatformListAnswer(platforms={each: platform_body(body) for each, body in found.items()}))


class PlatformDetail(View):
    """One platform."""

    @describe_operation("Show one platform of a pool.", answer=PlatformAnswer)
    def get(self, request: Request, name: str, platform: str) -> Response:
        row = get_visible_root(self.actor, name)
        return Response(_body(row, platform), headers=etag_header(row.version))

    @describe_change(PutPlatform, body=_BODY, answer=PlatformAnswer)
    def put(self, request: Request, name: str, platform: str) -> Response:
        address, unwrap = {"name": name, "platform": platform}, unwrap_as("body", read_configuration)
        return answer_change(self, PutPlatform, put_platform, PLATFORM_CHANGES, address, unwrap=unwrap)


class PlatformRename(View):
    """The rename of a platform."""

    @describe_change(RenamePlatform, answer=PlatformAnswer)
    def put(self, request: Request, name: str, platform: str) -> Response:
        address = {"name": name, "platform": platform}
        return answer_change(self, RenamePlatform, rename_platform, PLATFORM_CHANGES, address)


def _body(row: Pool, platform: str) -> PlatformAnswer:
    found = platforms_of(row.config).get(platform)
    if found is None:
        raise unknown_platform(row.name)
    return platform_body(found)


def _render(result: PoolResult) -> Response:
    return Response(_body(result.row, result.platform), headers=etag_header(result.row.version))


PLATFORM_CHANGES = ChangeAnswer(_render, pool_effect, guard=require_top_level_name)
