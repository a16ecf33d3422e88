"""The limit of a user's live workflows, as the API answers it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.support import world
from tests.support.api_client import ApiClient


def test_one_workflow_too_many_is_asked_to_come_again(admin: ApiClient, settings: Any) -> None:
    world.make_pool("team", 10)
    settings.OSMO = dataclasses.replace(settings.OSMO, max_live_workflows=1)
    address, body = "/api/pool/team/workflow", {"file": world.workflow_file("hello")}
    assert admin("POST", address, body).status == 200
    answer = admin("POST", address, body)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "60")
    assert answer.body["error_code"] == "RESOURCE"
    assert answer.codes == {("workflow", "too_many_live_workflows")}
    assert "more than 1, the most of one user" in answer.body["message"]
