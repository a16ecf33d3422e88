"""Two workflows side by side: the page, the REST answer, and what each of them leaves out."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.reason_codes import WaitCause
from scheduling.models import Group, WaitCauseChange, Workflow
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import apply_change, reconcile

PAGE = "/workflows/-/compare"


def facts(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {row["key"]: (row["first"], row["second"]) for row in rows}


@pytest.fixture
def pair(as_person: SignedIn) -> tuple[str, str]:
    """A workflow of 8 GPUs that runs, and one of 4 that was cancelled while it waited."""
    submit_workflow("team--a", gpus=8, name="train", priority="HIGH")
    reconcile()
    submit_workflow("team--b", gpus=4, name="train")
    apply_change(CancelWorkflow(name="train-2", message="not needed"))
    return "train-1", "train-2"


def test_the_answer_has_both_values_and_says_what_differs(as_person: SignedIn, pair: tuple[str, str]) -> None:
    body = as_person("worker").get("/api/workflow/train-1/compare/train-2").json()
    assert (body["first"], body["second"]) == pair
    found = facts(body["facts"])
    assert found["status"] == ("RUNNING", "FAILED_CANCELED")
    assert found["pool"] == ("team--a", "team--b")
    assert found["gpus"] == (8, 4)
    assert found["attempts"] == (1, 0)
    assert found["start_time"][0] is not None and found["start_time"][1] is None
    assert {row["key"] for row in body["facts"] if not row["different"]} >= {"user", "cluster", "preempted_attempts"}
    (gang,) = body["gangs"]
    assert (gang["in_first"], gang["in_second"]) == (True, True)
    assert facts(gang["facts"])["nodes"][0] == "n0" and facts(gang["facts"])["nodes"][1] is None
    changed = [line for line in body["file_changes"] if line[0] in "+-" and not line.startswith(("+++", "---"))]
    assert any("gpu: 8" in line for line in changed if line[0] == "-")
    assert any("gpu: 4" in line for line in changed if line[0] == "+")
    same = as_person("worker").get("/api/workflow/train-2/compare/train-2").json()
    assert same["file_changes"] == []
    assert not [row for part in (same, *same["gangs"]) for row in part["facts"] if row["different"]]


def test_waits_are_divided_by_cause(as_person: SignedIn) -> None:
    for name in ("one", "two", "three", "more"):
        submit_workflow("team--a", gpus=8, name=name)
    reconcile()
    waiting = Group.objects.get(workflow__status="PENDING")
    now = timezone.now()
    Group.objects.filter(pk=waiting.pk).update(ready_at=now - timedelta(seconds=600))
    WaitCauseChange.objects.filter(group_id=waiting.pk).delete()
    since = now - timedelta(seconds=500)
    WaitCauseChange.objects.create(group_id=waiting.pk, since=since, cause=WaitCause.OWN_QUOTA)
    other = Workflow.objects.filter(status="RUNNING").order_by("name")[0].name
    name = Workflow.objects.get(status="PENDING").name
    (gang,) = as_person("worker").get(f"/api/workflow/{name}/compare/{other}").json()["gangs"]
    waited = {key: values[0] for key, values in facts(gang["facts"]).items() if key.startswith("waited")}
    assert 99 < waited["waited_order_seconds"] < 101
    assert 499 < waited["waited_own_quota_seconds"] < 560
    assert waited["waited_seconds"] == pytest.approx(
        waited["waited_order_seconds"] + waited["waited_own_quota_seconds"], abs=0.01
    )


def test_the_page_shows_the_same_facts_and_no_long_file(
    as_person: SignedIn, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = as_person("worker")
    page = " ".join(worker.get(PAGE, {"name": pair}).content.decode().split())
    for text in ("8 GPUs", "4 GPUs", "Side by side", "Group main", "gpu: 4", "differs"):
        assert text in page
    marked = re.findall(
        r'<span class="oa-changed">(.*?)</span></td> <td[^>]*>(?:<span class="oa-changed">)?(.*?)<', page
    )
    assert marked
    assert all(first != second for first, second in marked), "a difference that nobody sees is not marked"
    assert f"{PAGE}?name=train-1" in worker.get("/workflows/train-1").content.decode()
    one = worker.get(PAGE, {"name": "train-1"}).content.decode()
    assert "?name=train-1&amp;name=train-2" in one
    assert "Two workflows" in worker.get(PAGE).content.decode()
    assert worker.get(PAGE, {"name": ["a", "b", "c"]}).status_code == 400
    monkeypatch.setattr("scheduling.selectors.reports.comparison.MAX_LINES", 3)
    assert worker.get("/api/workflow/train-1/compare/train-2").json()["file_changes"] is None
    assert "lines is not compared here" in worker.get(PAGE, {"name": pair}).content.decode()


def test_work_that_the_reader_may_not_see_is_not_compared(as_person: SignedIn, pair: tuple[str, str]) -> None:
    submit_workflow("other--x", gpus=8, name="secret", username="stranger")
    worker = as_person("worker")
    assert worker.get("/api/workflow/train-1/compare/secret-1").status_code == 404
    refused = worker.get(PAGE, {"name": ["train-1", "secret-1"]})
    assert refused.status_code == 404
    assert "or you may not see it" in refused.content.decode()
