"""PodGroup manifests sent to a pool as work (design, A6, D5, D6, D13)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pools.models import Reservation
from scheduling.models import Group, Task, Workflow
from tests.support.world import sign_in, workflow_file
from tests.unit.specs.test_manifest import INFERENCE, TRAINING


def test_a_manifest_becomes_one_gang_with_its_tree(alice: Any) -> None:
    answer = alice.submit("team", INFERENCE)

    assert (alice.status, answer["name"], answer["status"]) == (200, "inference-service-1", "PENDING")
    assert answer["warnings"] == []
    gang = Group.objects.get()
    assert (gang.name, gang.gpus) == ("inference-service", 24)
    assert gang.gang["min_sub_group"] == 3
    assert [sub["name"] for sub in gang.gang["sub_groups"]] == [f"prefill-{number}" for number in range(4)]
    pods = Task.objects.order_by("position").values_list("name", "sub_group", "gpu_count", "lead")
    assert list(pods) == [(f"prefill-{i}-{n}", f"prefill-{i}", 1, False) for i in range(4) for n in range(8)]
    assert Reservation.objects.get().needed_gpus == 24


def test_json_is_accepted_and_stored_unchanged(alice: Any) -> None:
    body = {"kind": "PodGroup", "metadata": {"name": "x"}, "spec": {"minMember": 3}}
    text = json.dumps(body, indent=2)
    answer = alice.submit("team", text)

    assert answer["name"] == "x-1"
    assert alice.get("/api/workflow/x-1/spec") == text + "\n"
    assert alice.get("/api/workflow/x-1/spec", use_template="True") == text


def test_a_dry_run_returns_the_manifest_and_stores_nothing(alice: Any) -> None:
    answer = alice.submit("team", INFERENCE, query="dry_run=True")

    assert (alice.status, answer["spec"], answer["name"]) == (200, INFERENCE, "inference-service")
    assert "would accept it" in alice.submit("team", INFERENCE, query="validation_only=True")["logs"]
    assert not Workflow.objects.exists()


def test_the_required_minimum_must_fit_the_quota(alice: Any) -> None:
    alice.submit("team--a", INFERENCE)  # 24 of 30, though all four replicas would be 32
    assert alice.status == 200
    whole = INFERENCE.replace("minSubGroup: 3", "minSubGroup: 4")
    answer = alice.submit("team--a", whole)
    assert (alice.status, answer["error_code"], answer["details"][0]["code"]) == (400, "RESOURCE", "above_quota")
    assert answer["details"][0]["limit"] == 30
    alice.submit("team--a", whole, query="priority=LOW")
    assert alice.status == 200


@pytest.mark.parametrize(
    ("named", "query", "priority", "warned"),
    [
        ("osmo-high", "", "HIGH", False),
        ("osmo-low", "priority=LOW", "LOW", False),
        ("osmo-low", "priority=HIGH", "HIGH", True),
        ("", "priority=HIGH", "HIGH", False),
    ],
)
def test_parameters_override_the_manifest(alice: Any, named: str, query: str, priority: str, warned: bool) -> None:
    file = INFERENCE.replace("spec:\n", f"spec:\n  priorityClassName: {named}\n") if named else INFERENCE
    answer = alice.submit("team", file, query=query)

    row = Workflow.objects.get()
    assert (alice.status, row.priority, Reservation.objects.get().priority) == (200, priority, priority)
    assert answer["warnings"] == row.warnings
    assert len(row.warnings) == warned


def test_it_can_be_submitted_again_and_restarted(alice: Any) -> None:
    text = INFERENCE.replace("spec:\n", "spec:\n  priorityClassName: osmo-low\n").replace(
        "  name: inference-service\n", "  name: inference-service\n  labels: {team: x}\n"
    )
    alice.submit("team", text)
    again = alice.post("/api/pool/team/workflow", query="workflow_id=inference-service-1")
    assert (alice.status, again["name"]) == (200, "inference-service-2")
    alice.post("/api/workflow/inference-service-1/cancel")
    third = alice.post("/api/pool/team/workflow/inference-service-1/restart")
    assert (alice.status, third["name"]) == (200, "inference-service-3")

    rows = Workflow.objects.order_by("name")
    assert [row.priority for row in rows] == ["LOW"] * 3
    assert [row.labels for row in rows] == [{"team": "x"}] * 3
    assert [Group.objects.get(workflow=row).gpus for row in rows] == [24] * 3


def test_a_batch_may_contain_both_kinds(alice: Any) -> None:
    files = [workflow_file("hello"), INFERENCE, TRAINING.replace("minSubGroup: 2\n", "minSubGroup: 9\n")]
    answer = alice.post("/api/pool/team/workflows", {"workflows": [{"file": file} for file in files]})
    assert alice.status == 400
    assert [each["path"] for each in answer["details"]] == ["workflows[2].spec.minSubGroup"]

    made = alice.post("/api/pool/team/workflows", {"workflows": [{"file": file} for file in files[:2]]})
    assert [each["name"] for each in made["workflows"]] == ["hello-1", "inference-service-1"]


def test_a_kubernetes_pool_requires_the_image(alice: Any, team: Any) -> None:
    team.backend.kind = "kubernetes"
    team.backend.save()
    answer = alice.submit("team", INFERENCE)
    assert (alice.status, answer["details"][0]["path"]) == (400, "metadata.annotations.osmo/image")

    alice.submit("team", INFERENCE.replace("{osmo/gpus-per-pod: 1}", "{osmo/gpus-per-pod: 1, osmo/image: ubuntu}"))
    assert alice.status == 200


def test_the_page_accepts_a_manifest_with_its_own_priority(alice: Any) -> None:
    page = "/submit"
    client = sign_in(alice.user)
    text = INFERENCE.replace("spec:\n", "spec:\n  priorityClassName: osmo-low\n")
    form = {"pool": "team", "priority": "", "file": text, "variables": ""}

    checked = client.post(page, form | {"step": "check"})
    expected = "inference-service would be accepted by team: 1 group, which needs at least 24 GPUs at once"
    assert expected in checked.content.decode()
    refused = client.post(page, form | {"file": text.replace("minSubGroup: 3", "minSubGroup: 5")})
    assert (refused.status_code, "spec.minSubGroup" in refused.content.decode()) == (400, True)
    assert client.post(page, form | {"step": "submit"}).status_code == 302
    assert Workflow.objects.get().priority == "LOW"
