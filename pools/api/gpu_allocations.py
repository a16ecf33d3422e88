"""Workers in a namespace, by name: allocate, adjust, commit, release (api.md, "GPU quota by namespace")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of
from pools.api.rendering import utc_text
from pools.api.request_parsing import query_boolean, reject_unknown_keys, unwrap_body
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    INTEGER,
    TEXT,
    QueryParameter,
    UtcText,
    describe_operation,
    object_with,
    without_type_lists,
)
from pools.api.views import View
from pools.domain.errors import BadInput, NotFound
from pools.domain.gpu_quota.spec import AMOUNTS_SCHEMA
from pools.domain.gpu_quota.workers import GpuAmountsBody, parse_allocation
from pools.domain.lists import GpuAllocationQuery
from pools.domain.roles import Permission
from pools.filtersets.gpu_quota import GpuAllocationFilterSet
from pools.models import GpuAllocation
from pools.permissions import require_namespace
from pools.selectors.gpu_namespace import worker_from_row
from pools.services.dry_run import read_effect
from pools.services.gpu_allocations import adjust, allocate, commit, release

GPU_AMOUNTS = without_type_lists(AMOUNTS_SCHEMA)
ASSUME_PARAMETER = QueryParameter(
    "assume", BOOLEAN, "Only reserve the worker; a reservation expires after 30 minutes unless it is committed."
)


class AllocationAnswer(TypedDict):
    """One worker of a namespace; the amounts are per GPU."""

    id: str
    namespace: str
    workload: str
    request: GpuAmountsBody
    limit: GpuAmountsBody
    count: int
    uncounted: list[str]
    state: Annotated[str, GpuAllocation.State]
    source: Annotated[str, GpuAllocation.Source]
    created: UtcText
    expires: UtcText | None
    released: UtcText | None


class AllocationListAnswer(TypedDict):
    """A page of workers, the newest first."""

    allocations: list[AllocationAnswer]
    more_entries: bool


class GpuAllocationList(View):
    """The workers of a namespace."""

    @describe_operation(
        "List the workers of a namespace, the newest first.",
        query_parameters=parameters_of(GpuAllocationQuery),
        answer=AllocationListAnswer,
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        newest_first = GpuAllocation.objects.filter(namespace=namespace).order_by("-id")
        filters = GpuAllocationFilterSet(request.query_params, newest_first, actor=self.actor)
        rows, more = filters.read_page()
        allocations = [allocation_body(row) for row in rows]
        return Response(AllocationListAnswer(allocations=allocations, more_entries=more))

    @describe_operation(
        "Allocate one worker if every cap allows it; an id that is in use already is answered as it is.",
        query_parameters=[DRY_RUN, ASSUME_PARAMETER],
        body=object_with(
            {"id": TEXT, "workload": TEXT, "request": GPU_AMOUNTS, "limit": GPU_AMOUNTS, "count": INTEGER},
            required=["id"],
            additional=True,
        ),
        answer=AllocationAnswer,
        extra_statuses=(409,),
    )
    def post(self, request: Request, namespace: str) -> Response:
        body, description, _ = unwrap_body(request)
        requested, faults = parse_allocation(body)
        if faults:
            raise BadInput.of(faults)
        note: dict[str, Any] = {"actor": self.actor, "namespace": namespace, "description": description}
        operation = partial(allocate, request=requested, assume=query_boolean(request, "assume"), **note)
        return _run_once(self, namespace, requested.name, operation)


class GpuAllocationDetail(View):
    """One worker."""

    @describe_operation("Show one worker; a released one too.", answer=AllocationAnswer)
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
        answer=AllocationAnswer,
        extra_statuses=(409,),
    )
    def patch(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrap_body(request)
        note: dict[str, Any] = {"actor": self.actor, "namespace": namespace, "description": description}
        return _run_or_preview(request, namespace, name, partial(adjust, name=name, body=body, **note))

    @describe_operation(
        "Release a worker; releasing it again is allowed.",
        query_parameters=[DRY_RUN],
        answer=AllocationAnswer,
        extra_statuses=(409,),
    )
    def delete(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        note: dict[str, Any] = {"actor": self.actor, "namespace": namespace, "description": description}
        return _run_or_preview(request, namespace, name, partial(release, name=name, **note))


class GpuAllocationCommit(View):
    """The commit of a reservation."""

    @describe_operation(
        "Commit a reservation.", query_parameters=[DRY_RUN], answer=AllocationAnswer, extra_statuses=(409,)
    )
    def post(self, request: Request, namespace: str, name: str) -> Response:
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body)
        operation = partial(commit, actor=self.actor, namespace=namespace, name=name, description=description)
        return _run_once(self, namespace, name, operation)


def _run_once(view: View, namespace: str, name: str, operation: Callable[[], GpuAllocation]) -> Response:
    return view.run_once(
        partial(_run_or_preview, view.request, namespace, name, operation),
        require=partial(require_namespace, view.actor, namespace, Permission.POOL_MANAGE_WORK),
        is_preview=query_boolean(view.request, "dry_run"),
    )


def _run_or_preview(request: Request, namespace: str, name: str, operation: Callable[[], GpuAllocation]) -> Response:
    """Run the operation, or with `dry_run` answer the effect."""
    if query_boolean(request, "dry_run"):
        return Response(read_effect(operation, read_state=partial(_find_body, namespace, name)))
    return Response(allocation_body(operation()))


def _find_body(namespace: str, name: str) -> AllocationAnswer | None:
    row = GpuAllocation.objects.filter(namespace=namespace, name=name).order_by("-id").first()
    return None if row is None else allocation_body(row)


def allocation_body(row: GpuAllocation) -> AllocationAnswer:
    """One allocation with times as texts, because an answer may be stored and sent again."""
    worker = worker_from_row(row)
    return {
        "id": row.name,
        "namespace": row.namespace,
        "workload": row.workload,
        "request": worker.request.as_dict(),
        "limit": worker.limit.as_dict(),
        "count": worker.count,
        "uncounted": row.uncounted.split(),
        "state": row.state,
        "source": row.source,
        "created": utc_text(row.created_at),
        "expires": utc_text(row.expires_at),
        "released": utc_text(row.released_at),
    }
