"""The tree of a gang in the answer about one workflow, and on its page."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.models import Task
from scheduling.selectors.work.gang_tree_rows import read_gang_tree_rows
from scheduling.selectors.work.workflows import get_full_workflow
from tests.support.world import sign_in, workflow_file
from tests.unit.specs.test_manifest import INFERENCE


def running(**pods: int) -> None:
    """Let the given number of pods of each SubGroup run."""
    for name, count in pods.items():
        chosen = (
            Task.objects.filter(sub_group=name.replace("_", "-"))
            .order_by("position")
            .values_list("pk", flat=True)[:count]
        )
        Task.objects.filter(pk__in=list(chosen)).update(status="RUNNING", node_name="sim-n1")


@pytest.fixture
def gang(alice: Any) -> Any:
    """`inference-service-1` with its first replica at 5 of 8 pods and the other three whole."""
    alice.submit("team", INFERENCE)
    running(prefill_0=5, prefill_1=8, prefill_2=8, prefill_3=8)
    return alice


def test_the_answer_shows_the_state_of_the_gang(gang: Any) -> None:
    (group,) = gang.get("/api/workflow/inference-service-1")["groups"]
    whole = {"threshold": 3, "count": 3, "size": 4, "satisfied": True}
    leaf = {"parent": None, "threshold": 8, "size": 8}
    assert group["gang"] == {
        **whole,
        "sub_groups": [
            {"name": "prefill-0", **leaf, "count": 5, "satisfied": False, "optional": True},
            *[{"name": f"prefill-{n}", **leaf, "count": 8, "satisfied": True, "optional": False} for n in (1, 2, 3)],
        ],
    }
    assert group["tasks"][0]["sub_group"] == "prefill-0"


def test_earlier_attempts_are_not_counted(gang: Any) -> None:
    first = Task.objects.get(name="prefill-1-0")
    first.status = "FAILED_PREEMPTED"
    first.save()
    first.pk = uuid.uuid4()
    first.retry_id, first.status, first.node_name = 1, "SCHEDULING", ""
    first.save(force_insert=True)

    for verbose in ("False", "True"):
        (group,) = gang.get("/api/workflow/inference-service-1", verbose=verbose)["groups"]
        assert (group["gang"]["count"], group["gang"]["sub_groups"][1]["count"]) == (2, 7)


def test_other_gangs_have_none(alice: Any) -> None:
    alice.submit("team", workflow_file())
    (group,) = alice.get("/api/workflow/job-1")["groups"]
    assert group["gang"] is None
    assert group["tasks"][0]["sub_group"] is None


def test_the_tree_costs_no_query(gang: Any) -> None:
    (group,) = get_full_workflow(gang.actor, "inference-service-1").loaded_groups
    with CaptureQueriesContext(connection) as queries:
        assert len(read_gang_tree_rows(group)) == 5
    assert len(queries) == 0


def test_an_impossible_optional_pod_does_not_block_the_gang(alice: Any) -> None:
    alice.submit("team", INFERENCE.replace("osmo/gpus-per-pod: 1", "osmo/gpus-per-pod: {prefill-0: 64, prefill-1: 1}"))
    client = sign_in(alice.user)
    text = client.get("/workflows/inference-service-1").content.decode()
    assert "Why it waits" in text
    assert "can never start" not in text


def test_the_page_draws_it(gang: Any) -> None:
    client = sign_in(gang.user)
    page = client.get("/workflows/inference-service-1")
    text = " ".join(page.content.decode().split())
    assert page.status_code == 200
    assert 'aria-label="prefill-0: 5 of 8 running, 8 required"' in text
    assert 'aria-label="inference-service: 3 of 4 running, 3 required"' in text
    for word in ("minimum met", "optional, not running", "1 SubGroup", "8 pods"):
        assert word in text
    assert text.count("oa-level") == 5
