"""GPU quota and clusters: the review of a worker's pod (`/webhooks/gpu_quota/…`), and the rebuild from pods."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, body_object
from pools.api.schema import TEXT, describe_operation, object_with
from pools.api.views import View
from pools.permissions import require_platform
from pools.services.gpu_quota.gpu_rebuild import GpuRepairAnswer
from scheduling.api.webhooks import describe_review
from scheduling.services.gpu_quota.admission import review_gpu_request
from scheduling.services.gpu_quota.rebuild import rebuild_from_all_clusters


class GpuReview(View):
    """The review of a worker's pod before its creation or change, or of its binding. An API server has no login; the
    mark in the address proves which cluster calls. Without it every request is allowed and the answer tells nothing."""

    authentication_classes = ()
    permission_classes = ()

    @describe_review("Review a GPU worker's pod for a Kubernetes API server.")
    def post(self, request: Request, backend: str | None = None, mark: str = "") -> Response:
        return Response(review_gpu_request(body_object(request), backend=backend, mark=mark))


class GpuRebuildAnswer(TypedDict):
    """What the rebuild repaired."""

    differences: list[GpuRepairAnswer]


class GpuRebuild(View):
    """The rebuild of the GPU quota records from the pods of the clusters."""

    @describe_operation(
        "Replace the records of pods by the pods that the clusters have now, and recount. Needs osmo-admin.",
        body=object_with({"namespace": TEXT}, required=[], additional=True),
        answer=GpuRebuildAnswer,
    )
    def post(self, request: Request) -> Response:
        require_platform(self.actor)
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("namespace",))
        namespace = reader.any_text("namespace") if reader.is_given("namespace") else None
        reader.raise_faults()
        repairs = rebuild_from_all_clusters(actor=self.actor, namespace=namespace)
        return Response(GpuRebuildAnswer(differences=[repair.as_dict() for repair in repairs]))
