"""Admission webhooks: the reviews for Kubernetes API servers (`/webhooks/…`), and the settings (`/api/configs/…`)."""

from __future__ import annotations

from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import (
    body_object,
    etag_header,
    expected_version,
    query_boolean,
    reject_unknown_keys,
    unwrap_body,
)
from pools.api.schema import BOOLEAN, DRY_RUN, OBJECT, TEXT, QueryParameter, array_of, describe_operation, object_with
from pools.api.views import View
from pools.permissions import require_platform
from pools.services.dry_run import read_effect
from scheduling.domain.cluster.queue_access import WorkloadKind
from scheduling.services.webhooks.queue_guard import (
    GUARD_KEYS,
    GUARD_MODES,
    BypassAnswer,
    QueueGuardAnswer,
    bypass_body,
    list_bypasses,
    put_queue_guard,
    queue_guard_body,
    read_queue_guard,
)
from scheduling.services.webhooks.reviews import review_object

REVIEW = object_with(
    {"apiVersion": TEXT, "kind": TEXT, "request": OBJECT}, required=["apiVersion", "request"], additional=True
)
REVIEW_TIMEOUT = QueryParameter(
    "timeout", TEXT, "How long the API server waits, as in `10s`; it adds this itself. A review takes no notice of it."
)
SETTINGS = {
    "mode": {"type": "string", "enum": list(GUARD_MODES)},
    "identity": TEXT,
    "accounts": array_of(TEXT),
    "strict_minimums": BOOLEAN,
}


class ReviewAnswer(TypedDict):
    """An AdmissionReview with our answer in `response`."""

    apiVersion: str
    kind: str
    response: dict[str, Any]


class BypassListAnswer(TypedDict):
    """The attempts to use queues without OSMO, the latest first."""

    bypasses: list[BypassAnswer]


class _AdmissionReview(View):
    """An API server has no login here; the mark in the address proves which cluster calls. Without it the answer
    contains only data from the request."""

    authentication_classes = ()
    permission_classes = ()
    kind: WorkloadKind

    def review_response(self, request: Request, backend: str | None, mark: str) -> Response:
        """The AdmissionReview with our answer."""
        return Response(review_object(self.kind, body_object(request), backend=backend, mark=mark))


class PodReview(_AdmissionReview):
    """The review of a pod: may it use the queue that it names?"""

    kind = WorkloadKind.POD

    @describe_operation(
        "Review a pod for a Kubernetes API server.",
        query_parameters=[REVIEW_TIMEOUT],
        body=REVIEW,
        answer=ReviewAnswer,
        is_anonymous=True,
    )
    def post(self, request: Request, backend: str | None = None, mark: str = "") -> Response:
        return self.review_response(request, backend, mark)


class PodGroupReview(_AdmissionReview):
    """The review of a PodGroup: are its minimums consistent, and may it use the queue that it names?"""

    kind = WorkloadKind.POD_GROUP

    @describe_operation(
        "Review a PodGroup for a Kubernetes API server.",
        query_parameters=[REVIEW_TIMEOUT],
        body=REVIEW,
        answer=ReviewAnswer,
        is_anonymous=True,
    )
    def post(self, request: Request, backend: str | None = None, mark: str = "") -> Response:
        return self.review_response(request, backend, mark)


class WebhookSettings(View):
    """The mode of a backend's admission webhooks, and the accounts that they allow."""

    @describe_operation("Show the settings of a backend's admission webhooks.", answer=QueueGuardAnswer)
    def get(self, request: Request, backend: str) -> Response:
        row = read_queue_guard(self.actor, backend)
        return Response(queue_guard_body(row), headers=etag_header(row.version))

    @describe_operation(
        "Set mode, identity or allowed accounts of a backend's admission webhooks.",
        query_parameters=[DRY_RUN],
        body=object_with(SETTINGS, required=[]),
        answer=QueueGuardAnswer,
    )
    def put(self, request: Request, backend: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        reject_unknown_keys(body, *GUARD_KEYS, "backend", "version")
        version = expected_version(request)

        def operation() -> Response:
            row = put_queue_guard(
                actor=self.actor, backend=backend, body=body, description=description, expected_version=version
            )
            return Response(queue_guard_body(row), headers=etag_header(row.version))

        if query_boolean(request, "dry_run"):
            return Response(
                read_effect(operation, read_state=lambda: queue_guard_body(read_queue_guard(self.actor, backend)))
            )
        return operation()


class BypassList(View):
    """The attempts to use queues without OSMO."""

    @describe_operation("List the attempts to use a backend's queues without OSMO.", answer=BypassListAnswer)
    def get(self, request: Request, backend: str) -> Response:
        rows = list_bypasses(self.actor, backend)
        return Response(BypassListAnswer(bypasses=[bypass_body(row) for row in rows]))
