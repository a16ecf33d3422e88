"""The limit of the workflows that a user submits within a minute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from scheduling.models import Workflow
from tests.support.world import workflow_file


@pytest.fixture
def pace(settings: Any) -> Callable[[int], None]:
    def change(limit: int) -> None:
        settings.OSMO = dataclasses.replace(settings.OSMO, max_submissions_per_minute=limit)

    return change


def test_one_more_than_the_limit_is_refused_until_a_minute_has_passed(alice: Any, pace: Callable[[int], None]) -> None:
    pace(3)
    both = {"workflows": [{"file": workflow_file("a")}, {"file": workflow_file("b")}]}
    alice.post("/api/pool/team/workflows", both)
    assert alice.status == 200
    Workflow.objects.update(submit_time=F("submit_time") - timedelta(seconds=20))

    answer = alice.post("/api/pool/team/workflows", both)
    fault = answer["details"][0]
    assert (alice.status, fault["code"]) == (429, "too_many_submissions")
    assert (fault["submitted"], fault["requested"], fault["limit"]) == (2, 2, 3)
    assert 30 < int(alice.last.headers["Retry-After"]) <= 40
    assert f"try again in {alice.last.headers['Retry-After']} s" in answer["message"]

    alice.submit("team", workflow_file("c"))
    assert alice.status == 200  # one has room
    alice.submit("team", workflow_file("d"))
    assert (alice.status, Workflow.objects.count()) == (429, 3)
    Workflow.objects.update(submit_time=F("submit_time") - timedelta(seconds=41))
    alice.submit("team", workflow_file("d"))
    assert alice.status == 200


def test_submissions_before_the_clock_was_set_back_do_not_count(alice: Any, pace: Callable[[int], None]) -> None:
    pace(1)
    alice.submit("team", workflow_file("a"))
    Workflow.objects.update(submit_time=F("submit_time") + timedelta(hours=1))
    alice.submit("team", workflow_file("b"))
    assert alice.status == 200


def test_each_user_has_a_limit_of_their_own(
    alice: Any, caller: Callable[..., Any], pace: Callable[[int], None]
) -> None:
    pace(1)
    for user in (alice, caller("carl", "osmo-team-user")):
        user.submit("team", workflow_file())
        assert user.status == 200
        user.submit("team", workflow_file())
        assert user.status == 429


def test_a_request_above_the_limit_is_refused_for_good(alice: Any, pace: Callable[[int], None]) -> None:
    pace(1)
    answer = alice.post(
        "/api/pool/team/workflows", {"workflows": [{"file": workflow_file()}, {"file": workflow_file()}]}
    )
    assert (alice.status, answer["details"][0]["code"]) == (400, "too_many_in_request")
    assert "Retry-After" not in alice.last.headers
