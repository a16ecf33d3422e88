"""A Kubernetes backend's queues and connection: how they stand, and asking a worker to see to them now. No request ever
waits for a cluster."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import body_object, reject_unknown_keys
from pools.api.schema import ANY_VALUE, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.services.backends import read_backend
from scheduling.api.work_schemas import NOTES_BODY
from scheduling.selectors.queue_sync_state import queue_sync_body
from scheduling.services.kubernetes.connection_test import queue_sync_row, request_connection_test
from scheduling.services.kubernetes.queue_sync import request_sync

SYNC_STATUS = object_with(
    dict.fromkeys(("backend", "generation_wanted", "generation_applied", "condition", "drift"), ANY_VALUE)
)


class QueueSyncStatus(View):
    """The queues of one cluster."""

    @describe_operation(
        "Show how far a cluster's queues follow the ledger, and what somebody else changed there.",
        answer=SYNC_STATUS,
        extra_statuses=[409],
    )
    def get(self, request: Request, backend: str) -> Response:
        row = read_backend(self.actor, backend)
        queue_sync_row(row)
        return Response(queue_sync_body(row))

    @describe_operation(
        "Ask for a sync now, also of a cluster that failed a moment ago. `reapply` names queues (or is true for all) "
        "that are written also where the sync only reports.",
        body=object_with({"reapply": ANY_VALUE}, required=[], additional=True),
        answer=SYNC_STATUS,
    )
    def post(self, request: Request, backend: str) -> Response:
        body = body_object(request)
        reject_unknown_keys(body, "reapply", "description", "tags")
        row = request_sync(actor=self.actor, backend=backend, reapply=_reapply(body.get("reapply")))
        return Response(queue_sync_body(row))


class ConnectionTestRequest(View):
    """Whether the cluster can be worked with."""

    @describe_operation(
        "Ask a worker to try the cluster out; the report is in `connection` of the answer of GET .../sync.",
        body=NOTES_BODY,
        answer=SYNC_STATUS,
    )
    def post(self, request: Request, backend: str) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        return Response(queue_sync_body(request_connection_test(actor=self.actor, backend=backend).backend))


def _reapply(asked: object) -> list[str] | bool:
    """Which queues to write: some by name, all, or what the mode of the sync says."""
    if asked is None or isinstance(asked, bool):
        return bool(asked)
    if isinstance(asked, list) and all(isinstance(each, str) for each in asked):
        return asked
    sentence = "reapply must be true or a list of names of queues."
    raise BadInput(sentence, [Violation("reapply", "bad_value", sentence)])
