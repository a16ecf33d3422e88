"""Settling a simulated backend by hand (api.md, "Simulated backend, and starting it for a test")."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, only
from pools.api.schema import documented
from pools.api.views import View
from scheduling.api.shapes import NOTES, SETTLED
from scheduling.services.simulated.reconcile import settle_now


class Settle(View):
    """Run scheduling now. `osmo-admin` only; without it passes run on events and on a beat tick."""

    @documented("Run scheduling on a simulated backend now.", body=NOTES, answer=SETTLED)
    def post(self, request: Request, backend: str) -> Response:
        only(body_object(request), "description", "tags")
        return self.once(lambda: Response(settle_now(actor=self.actor, backend=backend)))
