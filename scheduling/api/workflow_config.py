"""Scheduler settings: `/api/configs/workflow`. Every user may read them, `osmo-admin` may change them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on
from pools.api.request_parsing import etag_header, unwrap_without
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.people.roles import Actor
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.models import WorkflowConfig
from scheduling.selectors.cluster.scheduler_settings import WorkflowConfigAnswer, config_body, current_config
from scheduling.services.workflow_config import update_workflow_config


class WorkflowConfigView(View):
    """The scheduler settings."""

    @describe_operation("Show the workflow configuration.", answer=WorkflowConfigAnswer)
    def get(self, request: Request) -> Response:
        return _response(current_config())

    @describe_change(UpdateSettings, answer=WorkflowConfigAnswer)
    def patch(self, request: Request) -> Response:
        return answer_change(self, UpdateSettings, update_workflow_config, CHANGES, {})

    @describe_change(UpdateSettings, answer=WorkflowConfigAnswer)
    def put(self, request: Request) -> Response:
        return answer_change(
            self, UpdateSettings, update_workflow_config, CHANGES, {}, unwrap=unwrap_without("version")
        )


def _response(row: WorkflowConfig) -> Response:
    return Response(config_body(row), headers=etag_header(row.version))


def _state(_: UpdateSettings, __: Actor) -> WorkflowConfigAnswer:
    return config_body(current_config())


CHANGES: ChangeAnswer[UpdateSettings, WorkflowConfig] = ChangeAnswer(_response, effect_on(_state))
