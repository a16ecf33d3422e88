"""The queues and the connection of a Kubernetes backend: their status, and requests to a worker to sync or test them
now. No request waits for a cluster."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, body_object, reject_unknown_keys
from pools.api.schema import ANY_VALUE, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import Fault
from pools.services.configuration.backends import read_backend
from scheduling.api.work.work_schemas import NOTES_BODY
from scheduling.selectors.cluster.queue_sync_state import QueueSyncAnswer, queue_sync_body
from scheduling.services.kubernetes.connection_test import request_connection_test, require_cluster
from scheduling.services.kubernetes.syncing.queue_sync import request_sync


class QueueSyncStatus(View):
    """The queues of one cluster."""

    @describe_operation(
        "Show how far a cluster's queues follow the ledger, and the changes that other clients made there.",
        answer=QueueSyncAnswer,
        extra_statuses=[409],
    )
    def get(self, request: Request, backend: str) -> Response:
        row = read_backend(self.actor, backend)
        require_cluster(row)
        return Response(queue_sync_body(row))

    @describe_operation(
        "Request a sync now, also of a cluster whose last sync has failed. `reapply` names queues (or is true for all) "
        "that are written even if the sync mode is to report only.",
        body=object_with({"reapply": ANY_VALUE}, required=[], additional=True),
        answer=QueueSyncAnswer,
    )
    def post(self, request: Request, backend: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("reapply",))
        reapply = _read_reapply(reader)
        reader.raise_faults()
        row = request_sync(actor=self.actor, backend=backend, reapply=reapply)
        return Response(queue_sync_body(row))


class ConnectionTestRequest(View):
    """The test of the connection to a cluster."""

    @describe_operation(
        "Ask a worker to test the connection; the report is in `connection` of the answer of GET .../sync.",
        body=NOTES_BODY,
        answer=QueueSyncAnswer,
    )
    def post(self, request: Request, backend: str) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        return Response(queue_sync_body(request_connection_test(actor=self.actor, backend=backend).backend))


def _read_reapply(reader: BodyReader) -> list[str] | bool:
    """The queues to write: the named queues, all queues, or (False) those that the sync mode permits."""
    value = reader.body.get("reapply")
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    reader.add_fault("reapply", Fault.BAD_VALUE, "must be true or a list of names of queues.")
    return False
