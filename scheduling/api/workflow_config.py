"""How the house runs workflows: `/api/configs/workflow`. Everybody signed in may read, `osmo-admin` writes."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version, unknown_keys, unwrapped
from pools.api.schema import DRY_RUN, WHOLE, documented, fields
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.permissions import require_house
from pools.services.dry_run import effect_of
from scheduling.models import WorkflowConfig
from scheduling.services.workflow_config import (
    DRAIN_INTERVAL,
    LEAST_MINUTES,
    MAX_RETRY,
    MOST_MINUTES,
    MOST_RETRIES,
    bad_values,
    config_body,
    current,
    update_workflow_config,
)

INTERVAL = {"type": "integer", "minimum": LEAST_MINUTES, "maximum": MOST_MINUTES}
RETRIES = {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES}
CONFIG = fields({DRAIN_INTERVAL: INTERVAL, MAX_RETRY: RETRIES, "version": WHOLE})
CHANGE = fields({DRAIN_INTERVAL: INTERVAL, MAX_RETRY: RETRIES})


class WorkflowConfigView(View):
    """The workflow configuration."""

    @documented("Show the workflow configuration.", answer=CONFIG)
    def get(self, request: Request) -> Response:
        return self._shown(current())

    @documented("Change the workflow configuration.", query=[DRY_RUN], body=CHANGE, answer=CONFIG)
    def patch(self, request: Request) -> Response:
        return self._change(request)

    @documented("Replace the workflow configuration.", query=[DRY_RUN], body=CHANGE, answer=CONFIG)
    def put(self, request: Request) -> Response:
        return self._change(request, "version")

    def _change(self, request: Request, *ignored: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        found = unknown_keys(body, DRAIN_INTERVAL, MAX_RETRY, *ignored)
        found += bad_values(body.get(DRAIN_INTERVAL), body.get(MAX_RETRY))
        if body.get(DRAIN_INTERVAL) is None and body.get(MAX_RETRY) is None:
            sentence = f"{DRAIN_INTERVAL} is missing, and so is {MAX_RETRY}; give one of them."
            found.append(Violation(DRAIN_INTERVAL, "missing", sentence))
        if found:
            raise BadInput.of(found)
        version = expected_version(request)

        def deed() -> WorkflowConfig:
            return update_workflow_config(
                actor=self.actor,
                drain_interval_minutes=body.get(DRAIN_INTERVAL),
                max_retry_per_task=body.get(MAX_RETRY),
                description=description,
                expected_version=version,
            )

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: config_body(current())))
        return self._shown(deed())

    @staticmethod
    def _shown(row: WorkflowConfig) -> Response:
        answer: dict[str, Any] = config_body(row)
        return Response(answer, headers=etag(row.version))
