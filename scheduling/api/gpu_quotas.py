"""GPU quota and clusters: the review of a worker's pod (`/webhooks/gpu_quota/…`), and rebuilding from pods."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, only
from pools.api.schema import OBJECT, TEXT, array, documented, fields
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.permissions import require_house
from scheduling.services.gpu_quota.admission import review_gpu
from scheduling.services.gpu_quota.rebuild import rebuild_now

REVIEW = fields({"apiVersion": TEXT, "kind": TEXT, "request": OBJECT}, required=["apiVersion", "request"], more=True)
ANSWER = fields({"apiVersion": TEXT, "kind": TEXT, "response": OBJECT})


class GpuReview(View):
    """May this worker's pod be made, or bound? An API server has no login; only one that knows the backend's mark,
    which stands in its webhook configuration, reserves anything by asking."""

    authentication_classes = ()
    permission_classes = ()

    @documented("Judge a GPU worker's pod for a Kubernetes API server.", body=REVIEW, answer=ANSWER, anonymous=True)
    def post(self, request: Request, backend: str | None = None, mark: str = "") -> Response:
        return Response(review_gpu(body_object(request), backend=backend, mark=mark))


class GpuRebuild(View):
    """Bringing the ledger of GPU quota in line with the pods there are."""

    @documented(
        "Replace what was recorded of pods by what the clusters say now, and recount. Needs osmo-admin.",
        body=fields({"namespace": TEXT}, required=[], more=True),
        answer=fields({"differences": array(OBJECT)}),
    )
    def post(self, request: Request) -> Response:
        require_house(self.actor)
        body = body_object(request)
        body.pop("description", None)
        body.pop("tags", None)
        only(body, "namespace")
        namespace: Any = body.get("namespace")
        if namespace is not None and not isinstance(namespace, str):
            raise BadInput.of([Violation("namespace", "bad_value", "namespace must be a text.")])
        repairs = rebuild_now(actor=self.actor, namespace=namespace)
        return Response({"differences": [repair.as_dict() for repair in repairs]})
