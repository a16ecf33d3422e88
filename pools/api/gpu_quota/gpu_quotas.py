"""GPU quotas by namespace: list, read, put, delete, free capacity and history (design, A7)."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on
from pools.api.questions import parameters_of
from pools.api.request_parsing import Unwrapped, etag_header, unwrap_body
from pools.api.schema import INTEGER, NULL, TEXT, QueryParameter, describe_operation, object_with, without_type_lists
from pools.api.views import View
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, GpuQuotaChange, PutGpuQuota
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.gpu_quota.spec import spec_schema
from pools.domain.gpu_quota.workers import parse_worker
from pools.domain.lists import GpuSampleQuery
from pools.domain.people.roles import Actor
from pools.filtersets.gpu_quota import GpuSampleFilterSet
from pools.models import GpuUsage, GpuUsageSample
from pools.permissions import namespaces_for, require_namespace, unknown_namespace
from pools.representations.gpu_quota import (
    GpuQuotaAnswer,
    HeadroomAnswer,
    UsageHistory,
    current_gpu_quota_body,
    gpu_quota_bodies,
    gpu_quota_body,
    headroom_body,
    usage_history_body,
)
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces
from pools.services.gpu_quota.gpu_quotas import delete_gpu_quota, put_gpu_quota

SPEC = without_type_lists(spec_schema())
WORKER_PARAMETERS = (
    QueryParameter("request_tflops", TEXT, "Requested TFLOPS, per GPU."),
    QueryParameter("request_vram", TEXT, "Requested memory, per GPU."),
    QueryParameter("limit_tflops", TEXT, "The most TFLOPS, per GPU."),
    QueryParameter("limit_vram", TEXT, "The most memory, per GPU."),
    QueryParameter("count", INTEGER, "GPUs of one worker, 1 if not given."),
)
READ_KEYS = ("namespace", "status", "assumed", "source", "alerting", "alert_since", "alerts", "version")


class GpuQuotaListAnswer(TypedDict):
    """GPU quotas by namespace."""

    quotas: list[GpuQuotaAnswer]


class UsageHistoryAnswer(UsageHistory):
    """A page of the use of a namespace over time."""

    more_entries: bool


class GpuQuotaList(View):
    """All quotas the caller may see."""

    @describe_operation("List GPU quotas with their status.", answer=GpuQuotaListAnswer)
    def get(self, request: Request) -> Response:
        return Response(GpuQuotaListAnswer(quotas=gpu_quota_bodies(namespaces_for(self.actor))))


class GpuQuotaDetail(View):
    """The quota of one namespace."""

    @describe_operation("Show the GPU quota of a namespace with its status.", answer=GpuQuotaAnswer)
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        body = current_gpu_quota_body(namespace)
        if body is None:
            raise unknown_namespace(namespace)
        return Response(body, headers=etag_header(body["version"]))

    @describe_change(PutGpuQuota, answer=GpuQuotaAnswer, body=object_with({"spec": SPEC}, required=[], additional=True))
    def put(self, request: Request, namespace: str) -> Response:
        return answer_change(
            self, PutGpuQuota, put_gpu_quota, QUOTA_CHANGES, {"namespace": namespace}, unwrap=_unwrap_read_back
        )

    @describe_change(DeleteGpuQuota, answer=NULL)
    def delete(self, request: Request, namespace: str) -> Response:
        return answer_change(self, DeleteGpuQuota, delete_gpu_quota, QUOTA_CHANGES, {"namespace": namespace})


def _unwrap_read_back(request: Request, faults: list[Violation]) -> Unwrapped:
    """The body of a put, which may be the answer of a read with the caps changed."""
    body, description, tags = unwrap_body(request, faults)
    namespace = request.parser_context["kwargs"]["namespace"]
    if body.get("namespace", namespace) != namespace:
        said = f"namespace differs from the {namespace[:100]} of the address; leave it out, or give the same name."
        faults.append(Violation("namespace", Fault.BAD_VALUE, said))
    return {key: given for key, given in body.items() if key not in READ_KEYS}, description, tags


def _render(facts: GpuNamespace | None) -> Response:
    if facts is None:
        return Response(None)
    answer = gpu_quota_body(facts)
    return Response(answer, headers=etag_header(answer["version"]))


def _state(command: GpuQuotaChange, _: Actor) -> GpuQuotaAnswer | None:
    return current_gpu_quota_body(command.namespace)


QUOTA_CHANGES: ChangeAnswer[GpuQuotaChange, GpuNamespace | None] = ChangeAnswer(_render, effect_on(_state))


class GpuHeadroom(View):
    """The number of further workers of one size that fit."""

    @describe_operation(
        "Show the number of further workers of a size that fit in a namespace (null: no cap counts them), and the caps "
        "that stop the next one.",
        query_parameters=WORKER_PARAMETERS,
        answer=HeadroomAnswer,
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        given = {query.name: request.query_params.get(query.name) for query in WORKER_PARAMETERS}
        worker, faults = parse_worker(given)
        if faults:
            raise BadInput.of(faults)
        return Response(headroom_body(read_namespaces([namespace])[namespace], worker))


class GpuUsageHistory(View):
    """The use of a namespace over time."""

    @describe_operation(
        "Show the use of GPUs in a namespace over time, oldest first; the last sample is now.",
        query_parameters=parameters_of(GpuSampleQuery),
        answer=UsageHistoryAnswer,
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        oldest_first = GpuUsageSample.objects.filter(namespace=namespace).order_by("at")
        filters = GpuSampleFilterSet(request.query_params, oldest_first, actor=self.actor)
        rows, more = filters.read_page()
        usage = None if more else GpuUsage.objects.filter(namespace=namespace).first()
        history = usage_history_body(namespace, rows, usage)
        return Response(UsageHistoryAnswer(**history, more_entries=more))
