"""Workers in a namespace, by name: allocate, adjust, commit, release (api.md, "GPU quota by namespace")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.gpu_quotas import AMOUNTS
from pools.api.http import boolean, only, page, unwrapped
from pools.api.rendering import naive
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    LIMIT,
    OFFSET,
    TEXT,
    TIME,
    WHOLE,
    Query,
    array,
    documented,
    fields,
    nullable,
)
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound
from pools.domain.gpu_quota.workers import parse_allocation
from pools.models import GpuAllocation
from pools.permissions import require_namespace
from pools.representations.gpu_quota import allocation_body
from pools.services.dry_run import effect_of
from pools.services.gpu_allocations import adjust, allocate, commit, release

ALLOCATION = fields(
    {
        "id": TEXT,
        "namespace": TEXT,
        "workload": TEXT,
        "request": AMOUNTS,
        "limit": AMOUNTS,
        "count": WHOLE,
        "state": {"type": "string", "enum": [str(state) for state in GpuAllocation.State.values]},
        "created": TIME,
        "expires": nullable(TIME),
    },
    more=True,
)
ASSUME = Query("assume", BOOLEAN, "Only reserve it; it expires after 30 minutes unless it is committed.")
RELEASED = Query("include_released", BOOLEAN, "Show what was released, too.")


class GpuAllocationList(View):
    """The workers of a namespace."""

    @documented(
        "List the workers of a namespace, the newest first.",
        query=[RELEASED, LIMIT, OFFSET],
        answer=fields({"allocations": array(ALLOCATION), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        limit, offset = page(request)
        rows = GpuAllocation.objects.filter(namespace=namespace).order_by("-id")
        if not boolean(request, "include_released"):
            rows = rows.exclude(state=GpuAllocation.State.RELEASED)
        found = list(rows[offset : offset + limit + 1])
        return Response({"allocations": [_rendered(row) for row in found[:limit]], "more_entries": len(found) > limit})

    @documented(
        "Allocate one worker if every cap allows it; the same live id again is answered as it is.",
        query=[DRY_RUN, ASSUME],
        body=fields(
            {"id": TEXT, "workload": TEXT, "request": AMOUNTS, "limit": AMOUNTS, "count": WHOLE},
            required=["id"],
            more=True,
        ),
        answer=ALLOCATION,
        more=(409,),
    )
    def post(self, request: Request, namespace: str) -> Response:
        body, description, _ = unwrapped(request)
        asked, faults = parse_allocation(body)
        if faults:
            raise BadInput.of(faults)
        assume = boolean(request, "assume")

        def deed() -> GpuAllocation:
            return allocate(actor=self.actor, namespace=namespace, asked=asked, assume=assume, description=description)

        return self.once(lambda: _answer(request, namespace, asked.name, deed))


class GpuAllocationDetail(View):
    """One worker."""

    @documented("Show one worker; a released one too.", answer=ALLOCATION)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        require_namespace(self.actor, namespace)
        body = _shown(namespace, name)
        if body is None:
            raise NotFound(f"There is no allocation {name[:100]} in namespace {namespace[:100]}.")
        return Response(body)

    @documented(
        "Give a worker new amounts per GPU; only what grows is checked.",
        query=[DRY_RUN],
        body=fields({"request": AMOUNTS, "limit": AMOUNTS}, required=[], more=True),
        answer=ALLOCATION,
        more=(409,),
    )
    def patch(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrapped(request)
        return _answer(
            request,
            namespace,
            name,
            lambda: adjust(actor=self.actor, namespace=namespace, name=name, body=body, description=description),
        )

    @documented("Release a worker; again is no error.", query=[DRY_RUN], answer=ALLOCATION, more=(409,))
    def delete(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrapped(request)
        only(body)
        return _answer(
            request,
            namespace,
            name,
            lambda: release(actor=self.actor, namespace=namespace, name=name, description=description),
        )


class GpuAllocationCommit(View):
    """Making a reservation a worker."""

    @documented("Commit a reservation.", query=[DRY_RUN], answer=ALLOCATION, more=(409,))
    def post(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrapped(request)
        only(body)

        def deed() -> GpuAllocation:
            return commit(actor=self.actor, namespace=namespace, name=name, description=description)

        return self.once(lambda: _answer(request, namespace, name, deed))


def _answer(request: Request, namespace: str, name: str, deed: Callable[[], GpuAllocation]) -> Response:
    """Do it, or with `dry_run` say what it would do."""
    if boolean(request, "dry_run"):
        return Response(effect_of(deed, read=lambda: _shown(namespace, name)))
    return Response(_rendered(deed()))


def _shown(namespace: str, name: str) -> dict[str, Any] | None:
    row = GpuAllocation.objects.filter(namespace=namespace, name=name).order_by("-id").first()
    return None if row is None else _rendered(row)


def _rendered(row: GpuAllocation) -> dict[str, Any]:
    """With times as texts, for an answer may be kept to be given again."""
    body = allocation_body(row)
    return body | {name: naive(body[name]) for name in ("created", "expires", "released")}
