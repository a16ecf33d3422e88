"""Workers in a namespace, by name: allocate, adjust, commit, release (design, A7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on, schema_of
from pools.api.questions import parameters_of
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.domain.changes.command import body_fields
from pools.domain.changes.gpu_allocations import (
    AdjustWorker,
    AllocateWorker,
    CommitWorker,
    ReleaseWorker,
    WorkerChange,
)
from pools.domain.errors import NotFound
from pools.domain.gpu_quota.workers import GpuAmountsBody
from pools.domain.lists import GpuAllocationQuery
from pools.domain.people.roles import Actor, Permission
from pools.filtersets.gpu_quota import GpuAllocationFilterSet
from pools.models import GpuAllocation
from pools.permissions import require_namespace
from pools.selectors.gpu_namespace import worker_from_row
from pools.services.gpu_quota.gpu_allocations import adjust, allocate, commit, release


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
    created: ZonedText
    expires: ZonedText | None
    released: ZonedText | None


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

    @describe_change(AllocateWorker, body=schema_of(body_fields(AllocateWorker), ["id"]), answer=AllocationAnswer)
    def post(self, request: Request, namespace: str) -> Response:
        return answer_change(self, AllocateWorker, allocate, ALLOCATION_CHANGES, {"namespace": namespace})


class GpuAllocationDetail(View):
    """One worker."""

    @describe_operation("Show one worker; a released one too.", answer=AllocationAnswer)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        require_namespace(self.actor, namespace)
        body = _find_body(namespace, name)
        if body is None:
            raise NotFound(f"There is no allocation {name[:100]} in namespace {namespace[:100]}.")
        return Response(body)

    @describe_change(AdjustWorker, answer=AllocationAnswer)
    def patch(self, request: Request, namespace: str, name: str) -> Response:
        return answer_change(self, AdjustWorker, adjust, ALLOCATION_CHANGES, {"namespace": namespace, "id": name})

    @describe_change(ReleaseWorker, answer=AllocationAnswer)
    def delete(self, request: Request, namespace: str, name: str) -> Response:
        return answer_change(self, ReleaseWorker, release, ALLOCATION_CHANGES, {"namespace": namespace, "id": name})


class GpuAllocationCommit(View):
    """The commit of a reservation."""

    @describe_change(CommitWorker, answer=AllocationAnswer)
    def post(self, request: Request, namespace: str, name: str) -> Response:
        return answer_change(self, CommitWorker, commit, ALLOCATION_CHANGES, {"namespace": namespace, "id": name})


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
        "created": zoned_text(row.created_at),
        "expires": zoned_text(row.expires_at),
        "released": zoned_text(row.released_at),
    }


def _require(actor: Actor, address: Mapping[str, Any]) -> None:
    require_namespace(actor, address["namespace"], Permission.POOL_MANAGE_WORK)


def _state(command: AllocateWorker | WorkerChange, _: Actor) -> AllocationAnswer | None:
    return _find_body(command.namespace, command.id)


ALLOCATION_CHANGES: ChangeAnswer[Any, GpuAllocation] = ChangeAnswer(
    allocation_body, effect_on(_state), guard=_require, guards_repetitions=True
)
