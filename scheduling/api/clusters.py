"""A Kubernetes backend's queues and connection: how they stand, and asking a worker to see to them now. No request ever
waits for a cluster."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, only
from pools.api.schema import ANYTHING, documented, fields
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.services.backends import read_backend
from scheduling.api.shapes import NOTES
from scheduling.selectors.sync_state import sync_body
from scheduling.services.kubernetes.connection_test import ask_for_test, cluster_row
from scheduling.services.kubernetes.queue_sync import ask_for_sync

STATE = fields(dict.fromkeys(("backend", "generation_wanted", "generation_applied", "condition", "drift"), ANYTHING))


class QueueSyncState(View):
    """The queues of one cluster."""

    @documented(
        "Show how far a cluster's queues follow the ledger, and what somebody else changed there.",
        answer=STATE,
        more=[409],
    )
    def get(self, request: Request, backend: str) -> Response:
        row = read_backend(self.actor, backend)
        cluster_row(row)
        return Response(sync_body(row))

    @documented(
        "Ask for a sync now, also of a cluster that failed a moment ago. `reapply` names queues (or is true for all) "
        "that are written also where the sync only reports.",
        body=fields({"reapply": ANYTHING}, required=[], more=True),
        answer=STATE,
    )
    def post(self, request: Request, backend: str) -> Response:
        body = body_object(request)
        only(body, "reapply", "description", "tags")
        row = ask_for_sync(actor=self.actor, backend=backend, reapply=_reapply(body.get("reapply")))
        return Response(sync_body(row))


class ConnectionTest(View):
    """Whether the cluster can be worked with."""

    @documented(
        "Ask a worker to try the cluster out; the report is in `connection` of the answer of GET .../sync.",
        body=NOTES,
        answer=STATE,
    )
    def post(self, request: Request, backend: str) -> Response:
        only(body_object(request), "description", "tags")
        return Response(sync_body(ask_for_test(actor=self.actor, backend=backend).backend))


def _reapply(asked: object) -> list[str] | bool:
    """Which queues to write: some by name, all, or what the mode of the sync says."""
    if asked is None or isinstance(asked, bool):
        return bool(asked)
    if isinstance(asked, list) and all(isinstance(each, str) for each in asked):
        return asked
    sentence = "reapply must be true or a list of names of queues."
    raise BadInput(sentence, [Violation("reapply", "bad_value", sentence)])
