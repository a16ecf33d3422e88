"""Scheduler settings: `/api/configs/workflow`. Every user may read them, `osmo-admin` may change them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, etag_header, expected_version, query_boolean, unwrap_body
from pools.api.schema import DRY_RUN, describe_operation, object_with
from pools.api.views import View
from pools.permissions import require_platform
from pools.services.dry_run import read_effect
from scheduling.models import WorkflowConfig
from scheduling.services.workflow_config import (
    DRAIN_INTERVAL,
    MAX_MINUTES,
    MAX_RETRIES,
    MAX_RETRY,
    MIN_MINUTES,
    WorkflowConfigAnswer,
    config_body,
    config_violations,
    current_config,
    update_workflow_config,
)

INTERVAL = {"type": "integer", "minimum": MIN_MINUTES, "maximum": MAX_MINUTES}
RETRIES = {"type": "integer", "minimum": 0, "maximum": MAX_RETRIES}
CONFIG_CHANGE = object_with({DRAIN_INTERVAL: INTERVAL, MAX_RETRY: RETRIES})


class WorkflowConfigView(View):
    """The scheduler settings."""

    @describe_operation("Show the workflow configuration.", answer=WorkflowConfigAnswer)
    def get(self, request: Request) -> Response:
        return self._config_response(current_config())

    @describe_operation(
        "Change the workflow configuration.",
        query_parameters=[DRY_RUN],
        body=CONFIG_CHANGE,
        answer=WorkflowConfigAnswer,
    )
    def patch(self, request: Request) -> Response:
        return self._change(request)

    @describe_operation(
        "Replace the workflow configuration.",
        query_parameters=[DRY_RUN],
        body=CONFIG_CHANGE,
        answer=WorkflowConfigAnswer,
    )
    def put(self, request: Request) -> Response:
        return self._change(request, "version")

    def _change(self, request: Request, *ignored: str) -> Response:
        require_platform(self.actor)
        body, description, _ = unwrap_body(request)
        reader = BodyReader(body)
        reader.reject_unknown_keys((DRAIN_INTERVAL, MAX_RETRY), ignored)
        reader.faults.extend(config_violations(body.get(DRAIN_INTERVAL), body.get(MAX_RETRY)))
        if not reader.is_given(DRAIN_INTERVAL) and not reader.is_given(MAX_RETRY):
            reader.add_fault(DRAIN_INTERVAL, "missing", f"is missing, and so is {MAX_RETRY}; give one of them.")
        reader.raise_faults()
        version = expected_version(request)

        def operation() -> WorkflowConfig:
            return update_workflow_config(
                actor=self.actor,
                drain_interval_minutes=body.get(DRAIN_INTERVAL),
                max_retry_per_task=body.get(MAX_RETRY),
                description=description,
                expected_version=version,
            )

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=lambda: config_body(current_config())))
        return self._config_response(operation())

    @staticmethod
    def _config_response(row: WorkflowConfig) -> Response:
        return Response(config_body(row), headers=etag_header(row.version))
