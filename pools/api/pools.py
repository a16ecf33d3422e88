"""Configuration of top-level pools (OSMO contract, section 8)."""

from __future__ import annotations

import base64

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version, unwrapped
from pools.api.pool_requests import (
    answered,
    configuration,
    effect_on_pool,
    new_name,
    picture,
    remarks,
    top_level,
)
from pools.api.schema import DRY_RUN, INCLUDE_ARCHIVED, NULL, OBJECT, TEXT, Query, documented, fields
from pools.api.subpools import read_subpool
from pools.api.views import View
from pools.api.warnings_header import HEADER
from pools.domain import names
from pools.domain.errors import BadInput, Violation
from pools.domain.roles import Action
from pools.models import Pool
from pools.permissions import require, require_house, visible_root
from pools.representations.pool import listed_body, pool_body
from pools.services.cohort_effects import effect_with_debts
from pools.services.pools import delete_pool, patch_pool, put_pool, put_pools, rename_pool

VERBOSE = Query("verbose", {"type": "boolean"}, "With what follows from the configuration.")
CONFIGS = fields(
    {"configs": OBJECT, "description": TEXT, "tags": {"type": "array", "items": TEXT}}, required=[], more=True
)


class PoolConfigs(View):
    """All pools that one sees, and many pools at once."""

    @documented(
        "Show the configuration of pools.",
        query=[VERBOSE, Query("backend", TEXT, "Only pools on this backend."), INCLUDE_ARCHIVED],
        answer=fields({"pools": OBJECT}),
    )
    def get(self, request: Request) -> Response:
        rows = Pool.objects.visible_to(self.actor).roots().select_related("backend", "cohort").order_by("name")
        if not boolean(request, "include_archived"):
            rows = rows.listed()
        if backend := request.query_params.get("backend"):
            rows = rows.filter(backend__name=backend)
        verbose = boolean(request, "verbose")
        return Response({"pools": {row.name: listed_body(row, verbose=verbose) for row in rows}})

    @documented("Put many pools, all or none; the others stay.", query=[DRY_RUN], body=CONFIGS, answer=NULL)
    def put(self, request: Request) -> Response:
        require_house(self.actor, Action.POOL_CONFIGURE)
        bodies, description, tags = unwrapped(request, wrapper=["configs"])
        if not bodies:
            raise BadInput.of(
                [Violation("configs", "missing", "configs is missing: name pools and what they shall be.")]
            )
        wrong = [
            Violation(name[:60], "bad_value", f"The configuration of {name[:60]!r} must be an object.")
            for name, body in bodies.items()
            if not isinstance(body, dict)
        ]
        if wrong:
            raise BadInput.of(wrong)

        def deed() -> object:
            return put_pools(actor=self.actor, bodies=bodies, description=description, tags=tags)

        if boolean(request, "dry_run"):
            return Response(
                effect_with_debts(deed, read=lambda: {name: picture(name) for name in bodies}, actor=self.actor)
            )
        deed()
        return Response(None)


class PoolConfig(View):
    """One pool. A slice's canonical name answers what its own address answers (D9)."""

    @documented("Show one pool or subpool.", query=[VERBOSE], answer=OBJECT)
    def get(self, request: Request, name: str) -> Response:
        parent, subpool = names.split(name)
        if subpool is not None:
            return read_subpool(self.actor, parent, subpool)
        row = visible_root(self.actor, name)
        return Response(pool_body(row, verbose=boolean(request, "verbose")), headers=etag(row.version))

    @documented(
        "Make a pool, replace its configuration, or bring an archived one back.",
        query=[DRY_RUN],
        body=CONFIGS,
        answer=OBJECT,
    )
    def put(self, request: Request, name: str) -> Response:
        top_level(self.actor, name)
        require(self.actor, Action.POOL_CONFIGURE, name)
        body, description, tags = configuration(request)
        version = expected_version(request)
        return answered(
            self,
            name,
            lambda: put_pool(
                actor=self.actor, name=name, body=body, description=description, tags=tags, expected_version=version
            ),
        )

    @documented(
        "Merge a part into a pool's configuration.",
        query=[DRY_RUN],
        body=fields({"configs_dict": OBJECT, "description": TEXT}, required=[], more=True),
        answer=OBJECT,
    )
    def patch(self, request: Request, name: str) -> Response:
        top_level(self.actor, name)
        require(self.actor, Action.POOL_CONFIGURE, name)
        body, description, tags = configuration(request)
        version = expected_version(request)
        return answered(
            self,
            name,
            lambda: patch_pool(
                actor=self.actor, name=name, patch=body, description=description, tags=tags, expected_version=version
            ),
        )

    @documented("Remove a pool; one with a history is archived instead.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, name: str) -> Response:
        top_level(self.actor, name)
        require(self.actor, Action.POOL_CONFIGURE, name)
        _, description, tags = remarks(request)
        version = expected_version(request)

        def deed() -> Pool | None:
            return delete_pool(
                actor=self.actor, name=name, description=description, tags=tags, expected_version=version
            )

        if boolean(request, "dry_run"):
            return Response(effect_on_pool(name, deed, actor=self.actor))
        archived = deed()
        if archived is None:
            return Response(None)
        told = f"Pool {name} had slices or workflows, so it was archived, not deleted. PUT it again to bring it back."
        return Response(None, headers={HEADER: base64.b64encode(told.encode()).decode()})


class PoolRename(View):
    """Another name for a pool."""

    @documented(
        "Rename a pool; its roles and archived slices go along.",
        query=[DRY_RUN],
        body=fields({"new_name": TEXT}, more=True),
        answer=OBJECT,
    )
    def put(self, request: Request, name: str) -> Response:
        top_level(self.actor, name)
        require(self.actor, Action.POOL_CONFIGURE, name)
        change = remarks(request, "new_name")
        to, version = new_name(change), expected_version(request)
        return answered(
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
            becomes=to,
        )
