"""Admission webhooks: the reviews for Kubernetes API servers (`/webhooks/…`), and the settings (`/api/configs/…`)."""

from __future__ import annotations

from functools import partial
from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on
from pools.api.request_parsing import body_object, etag_header, unwrap_without
from pools.api.schema import OBJECT, TEXT, QueryParameter, describe_operation, object_with
from pools.api.views import View
from pools.domain.people.roles import Actor
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.domain.cluster.admission_review import ReviewAnswer
from scheduling.domain.cluster.queue_access import WorkloadKind
from scheduling.models import QueueGuard
from scheduling.services.webhooks.queue_guard import (
    BypassAnswer,
    QueueGuardAnswer,
    bypass_body,
    list_bypasses,
    put_queue_guard,
    queue_guard_body,
    read_queue_guard,
)
from scheduling.services.webhooks.reviews import review_object

_REVIEW = object_with(
    {"apiVersion": TEXT, "kind": TEXT, "request": OBJECT}, required=["apiVersion", "request"], additional=True
)
_REVIEW_TIMEOUT = QueryParameter(
    "timeout", TEXT, "How long the API server waits, as in `10s`; it adds this itself. A review takes no notice of it."
)
describe_review = partial(
    describe_operation, query_parameters=[_REVIEW_TIMEOUT], body=_REVIEW, answer=ReviewAnswer, is_anonymous=True
)


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

    @describe_review("Review a pod for a Kubernetes API server.")
    def post(self, request: Request, backend: str | None = None, mark: str = "") -> Response:
        return self.review_response(request, backend, mark)


class PodGroupReview(_AdmissionReview):
    """The review of a PodGroup: are its minimums consistent, and may it use the queue that it names?"""

    kind = WorkloadKind.POD_GROUP

    @describe_review("Review a PodGroup for a Kubernetes API server.")
    def post(self, request: Request, backend: str | None = None, mark: str = "") -> Response:
        return self.review_response(request, backend, mark)


class WebhookSettings(View):
    """The mode of a backend's admission webhooks, and the accounts that they allow."""

    @describe_operation("Show the settings of a backend's admission webhooks.", answer=QueueGuardAnswer)
    def get(self, request: Request, backend: str) -> Response:
        return _render(read_queue_guard(self.actor, backend))

    @describe_change(PutQueueGuard, answer=QueueGuardAnswer)
    def put(self, request: Request, backend: str) -> Response:
        unwrap = unwrap_without("backend", "version")
        return answer_change(self, PutQueueGuard, put_queue_guard, CHANGES, {"backend": backend}, unwrap=unwrap)


def _render(row: QueueGuard) -> Response:
    return Response(queue_guard_body(row), headers=etag_header(row.version))


def _state(command: PutQueueGuard, actor: Actor) -> QueueGuardAnswer:
    return queue_guard_body(read_queue_guard(actor, command.backend))


CHANGES: ChangeAnswer[PutQueueGuard, QueueGuard] = ChangeAnswer(_render, effect_on(_state))


class BypassList(View):
    """The attempts to use queues without OSMO."""

    @describe_operation("List the attempts to use a backend's queues without OSMO.", answer=BypassListAnswer)
    def get(self, request: Request, backend: str) -> Response:
        rows = list_bypasses(self.actor, backend)
        return Response(BypassListAnswer(bypasses=[bypass_body(row) for row in rows]))
