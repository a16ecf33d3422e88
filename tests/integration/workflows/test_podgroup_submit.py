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


def test_a_workflow_file_has_no_tree(alice: Any) -> None:
    alice.submit("team", workflow_file())

    assert Group.objects.get().gang is None
    assert Group.objects.filter(gang__isnull=True).exists()
    assert Task.objects.get().sub_group == ""


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


def test_every_fault_at_once_with_path_line_and_code(alice: Any) -> None:
    text = INFERENCE.replace("minSubGroup: 3 ", "minSubGroup: 5 ").replace("minMember: 8   #", "minMember: 0   #")
    answer = alice.submit("team", text.replace("name: inference-service", "name: 3rd"))

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert [(each["line"], each["path"], each["code"]) for each in answer["details"]] == [
        (4, "metadata.name", "bad_name"),
        (7, "spec.minSubGroup", "min_sub_group_above_children"),
        (10, "spec.subGroups[0].minMember", "min_member_not_positive"),
    ]
    assert not Workflow.objects.exists()


@pytest.mark.parametrize(
    ("file", "pool", "query", "code"),
    [
        (INFERENCE, "team--a", "", None),  # 24 of 30, though all four replicas would be 32
        (INFERENCE.replace("minSubGroup: 3", "minSubGroup: 4"), "team--a", "", "above_quota"),
        (INFERENCE.replace("minSubGroup: 3", "minSubGroup: 4"), "team--a", "priority=LOW", None),
        (TRAINING, "team", "", None),  # 64 of 70
        (TRAINING, "team--a", "", "above_quota"),
    ],
)
def test_the_required_minimum_must_fit_the_quota(alice: Any, file: str, pool: str, query: str, code: str) -> None:
    answer = alice.submit(pool, file, query=query)

    if code is None:
        assert alice.status == 200
    else:
        assert (alice.status, answer["error_code"], answer["details"][0]["code"]) == (400, "RESOURCE", code)
        assert answer["details"][0]["limit"] == 30


def test_the_minimum_must_fit_the_maximum_whatever_the_priority(alice: Any, team: Any) -> None:
    team.maximum = 100
    team.save()
    answer = alice.submit("team", TRAINING.replace("decode-workers: 8", "decode-workers: 18"), query="priority=LOW")

    assert (alice.status, answer["details"][0]["code"]) == (400, "above_maximum")
    assert (answer["details"][0]["requested"], answer["details"][0]["limit"]) == (104, 100)


@pytest.mark.parametrize(
    ("named", "query", "priority", "warned"),
    [
        ("", "", "NORMAL", False),
        ("osmo-high", "", "HIGH", False),
        ("osmo-low", "", "LOW", False),
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
    expected = ["The file asks for priority LOW, the submission for HIGH: it is HIGH."] if warned else []
    assert answer["warnings"] == row.warnings == expected


def test_warnings_pass_through_and_stay_with_the_workflow(alice: Any) -> None:
    answer = alice.submit("team", INFERENCE.replace("minSubGroup: 3 ", "minMember: 32 "))

    (warning,) = answer["warnings"]
    assert warning.startswith("spec.minMember (line 7): The PodGroup has SubGroups")
    assert Workflow.objects.get().warnings == [warning]
    assert Group.objects.get().gpus == 32


def test_a_key_submits_it_once(alice: Any) -> None:
    first = alice.submit("team", INFERENCE, Idempotency_Key="k")
    again = alice.submit("team", INFERENCE, Idempotency_Key="k")

    assert (first, alice.status) == (again, 200)
    assert Workflow.objects.count() == 1
    alice.submit("team", TRAINING, Idempotency_Key="k")
    assert alice.status == 409


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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("kind: PodGroup\nspec: " + "{a: " * 100_000, id="deep"),
        pytest.param("kind: PodGroup\na: &a [x]\nb: [" + "*a, " * 60_000 + "]", id="aliases"),
        pytest.param(json.dumps({"kind": "PodGroup", "spec": {"minMember": float("nan")}}), id="NaN"),
        pytest.param('{"kind": "PodGroup", "spec": {"minMember": 1, "minMember": 2}}', id="a key twice"),
        pytest.param('{"kind": "PodGroup", "metadata": {"name": "a\\u0000"}, "spec": {}}', id="NUL"),
        pytest.param(INFERENCE.replace("minMember: 8", f"minMember: {10**30}"), id="huge numbers"),
        pytest.param(INFERENCE + "    - {name: &n " + "x" * 900_000 + ", parent: *n}\n", id="a long name"),
    ],
)
def test_a_hostile_manifest_is_refused_with_a_message(alice: Any, text: str) -> None:
    answer = alice.submit("team", text)

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert all(each["path"] and each["code"] and len(each["message"]) < 800 for each in answer["details"])
    assert not Workflow.objects.exists()


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
