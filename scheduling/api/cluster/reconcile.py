"""The reconciliation of a simulated backend on request (design, A3)."""

from __future__ import annotations

from functools import partial

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import body_object, reject_unknown_keys
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.permissions import require_platform
from scheduling.api.work.work_schemas import NOTES_BODY
from scheduling.services.simulated.reconcile import ReconcileAnswer, reconcile_now


class ReconcileRequest(View):
    """Run scheduling now. `osmo-admin` only. Scheduling also runs after each change and as a periodic task."""

    @describe_operation("Run scheduling on a simulated backend now.", body=NOTES_BODY, answer=ReconcileAnswer)
    def post(self, request: Request, backend: str) -> Response:
        reject_unknown_keys(body_object(request), "description", "tags")
        return self.run_once(partial(self._run, backend), require=partial(require_platform, self.actor))

    def _run(self, backend: str) -> Response:
        return Response(reconcile_now(actor=self.actor, backend=backend))
