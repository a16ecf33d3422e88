"""Workers in a namespace, by name: allocate, adjust, commit, release (api.md, "GPU quota by namespace")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.gpu_quotas import GPU_AMOUNTS
from pools.api.rendering import utc_text
from pools.api.request_parsing import collect_faults, query_boolean, query_page, reject_unknown_keys, unwrap_body
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    DRY_RUN,
    INTEGER,
    LIMIT,
    OFFSET,
    TEXT,
    QueryParameter,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound
from pools.domain.gpu_quota.workers import parse_allocation
from pools.domain.roles import Permission
from pools.filtersets.gpu_quota import GpuAllocationFilterSet
from pools.models import GpuAllocation
from pools.permissions import require_namespace
from pools.representations.gpu_quota import allocation_body
from pools.services.dry_run import read_effect
from pools.services.gpu_allocations import adjust, allocate, commit, release

ALLOCATION = object_with(
    {
        "id": TEXT,
        "namespace": TEXT,
        "workload": TEXT,
        "request": GPU_AMOUNTS,
        "limit": GPU_AMOUNTS,
        "count": INTEGER,
        "uncounted": array_of(TEXT),
        "state": {"type": "string", "enum": [str(state) for state in GpuAllocation.State.values]},
        "created": DATETIME,
        "expires": nullable(DATETIME),
    },
    additional=True,
)
ASSUME_PARAMETER = QueryParameter(
    "assume", BOOLEAN, "Only reserve the worker; a reservation expires after 30 minutes unless it is committed."
)
INCLUDE_RELEASED = QueryParameter("include_released", BOOLEAN, "Show what was released, too.")


class GpuAllocationList(View):
    """The workers of a namespace."""

    @describe_operation(
        "List the workers of a namespace, the newest first.",
        query_parameters=[INCLUDE_RELEASED, LIMIT, OFFSET],
        answer=object_with({"allocations": array_of(ALLOCATION), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        newest_first = GpuAllocation.objects.filter(namespace=namespace).order_by("-id")
        filters = GpuAllocationFilterSet(request.query_params, newest_first, actor=self.actor)
        (limit, offset), rows = collect_faults(lambda: query_page(request), filters.matching_rows)
        found = list(rows[offset : offset + limit + 1])
        return Response(
            {"allocations": [_storable_body(row) for row in found[:limit]], "more_entries": len(found) > limit}
        )

    @describe_operation(
        "Allocate one worker if every cap allows it; an id that is in use already is answered as it is.",
        query_parameters=[DRY_RUN, ASSUME_PARAMETER],
        body=object_with(
            {"id": TEXT, "workload": TEXT, "request": GPU_AMOUNTS, "limit": GPU_AMOUNTS, "count": INTEGER},
            required=["id"],
            additional=True,
        ),
        answer=ALLOCATION,
        extra_statuses=(409,),
    )
    def post(self, request: Request, namespace: str) -> Response:
        body, description, _ = unwrap_body(request)
        requested, faults = parse_allocation(body)
        if faults:
            raise BadInput.of(faults)
        assume = query_boolean(request, "assume")

        def operation() -> GpuAllocation:
            return allocate(
                actor=self.actor, namespace=namespace, request=requested, assume=assume, description=description
            )

        return self.run_once(
            lambda: _run_or_preview(request, namespace, requested.name, operation),
            require=lambda: require_namespace(self.actor, namespace, Permission.POOL_MANAGE_WORK),
            is_preview=query_boolean(request, "dry_run"),
        )


class GpuAllocationDetail(View):
    """One worker."""

    @describe_operation("Show one worker; a released one too.", answer=ALLOCATION)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        require_namespace(self.actor, namespace)
        body = _find_body(namespace, name)
        if body is None:
            raise NotFound(f"There is no allocation {name[:100]} in namespace {namespace[:100]}.")
        return Response(body)

    @describe_operation(
        "Change the amounts of a worker per GPU; only an increase is checked.",
        query_parameters=[DRY_RUN],
        body=object_with({"request": GPU_AMOUNTS, "limit": GPU_AMOUNTS}, required=[], additional=True),
        answer=ALLOCATION,
        extra_statuses=(409,),
    )
    def patch(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrap_body(request)
        return _run_or_preview(
            request,
            namespace,
            name,
            lambda: adjust(actor=self.actor, namespace=namespace, name=name, body=body, description=description),
        )

    @describe_operation(
        "Release a worker; releasing it again is allowed.",
        query_parameters=[DRY_RUN],
        answer=ALLOCATION,
        extra_statuses=(409,),
    )
    def delete(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        return _run_or_preview(
            request,
            namespace,
            name,
            lambda: release(actor=self.actor, namespace=namespace, name=name, description=description),
        )


class GpuAllocationCommit(View):
    """The commit of a reservation."""

    @describe_operation("Commit a reservation.", query_parameters=[DRY_RUN], answer=ALLOCATION, extra_statuses=(409,))
    def post(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)

        def operation() -> GpuAllocation:
            return commit(actor=self.actor, namespace=namespace, name=name, description=description)

        return self.run_once(
            lambda: _run_or_preview(request, namespace, name, operation),
            require=lambda: require_namespace(self.actor, namespace, Permission.POOL_MANAGE_WORK),
            is_preview=query_boolean(request, "dry_run"),
        )


def _run_or_preview(request: Request, namespace: str, name: str, operation: Callable[[], GpuAllocation]) -> Response:
    """Run the operation, or with `dry_run` answer the effect."""
    if query_boolean(request, "dry_run"):
        return Response(read_effect(operation, read_state=lambda: _find_body(namespace, name)))
    return Response(_storable_body(operation()))


def _find_body(namespace: str, name: str) -> dict[str, Any] | None:
    row = GpuAllocation.objects.filter(namespace=namespace, name=name).order_by("-id").first()
    return None if row is None else _storable_body(row)


def _storable_body(row: GpuAllocation) -> dict[str, Any]:
    """The allocation with times as texts, because an answer may be stored and sent again."""
    body = allocation_body(row)
    return body | {name: utc_text(body[name]) for name in ("created", "expires", "released")}
