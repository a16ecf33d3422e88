"""Many workflows in one request: all or none (`POST /api/pool/{pool}/workflows`)."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.models import Group, Task, Workflow
from tests.support.world import workflow_file

PATH = "/api/pool/team/workflows"


def test_all_are_accepted_in_their_order(alice: Any) -> None:
    items = [
        {"file": workflow_file("x", gpus=1)},
        {"file": workflow_file("y", gpus=2), "priority": "HIGH"},
        {"file": workflow_file("x", gpus=3)},
    ]
    answer = alice.post(PATH, {"workflows": items})

    assert alice.status == 200
    assert [each["name"] for each in answer["workflows"]] == ["x-1", "y-1", "x-2"]
    assert [each["status"] for each in answer["workflows"]] == ["PENDING"] * 3
    assert list(Workflow.objects.order_by("submit_time").values_list("name", "priority")) == [
        ("x-1", "NORMAL"),
        ("y-1", "HIGH"),
        ("x-2", "NORMAL"),
    ]
    assert Group.objects.count() == Task.objects.count() == 3


def test_an_item_takes_the_parameters_of_a_single_submission(alice: Any) -> None:
    item = {
        "file": "workflow:\n  name: '{{ n }}'\n  tasks:\n  - {name: t, image: i, command: [sh]}\n",
        "set_string_variables": ["n=mine"],
        "label": ["project=x"],
        "env_vars": ["A=1"],
        "priority": "low",
    }
    alice.post(PATH, {"workflows": [item]})

    row = Workflow.objects.get()
    assert (row.name, row.priority, row.labels, row.env_vars) == ("mine-1", "LOW", {"project": "x"}, {"A": "1"})


def test_one_fault_refuses_all_and_every_fault_has_its_path(alice: Any) -> None:
    bad = "workflow:\n  name: x\n  tasks:\n  - {name: t, image: i}\n"
    answer = alice.post(
        PATH, {"workflows": [{"file": workflow_file()}, {"file": bad}, {"file": workflow_file()}, {"file": bad}]}
    )

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert {fault["path"].split(".")[0] for fault in answer["details"]} == {"workflows[1]", "workflows[3]"}
    assert "2 of 4" in answer["message"]
    assert not Workflow.objects.exists()


def test_each_quota_refusal_has_its_path_and_numbers(alice: Any) -> None:
    items = [{"file": workflow_file("x", gpus=gpus)} for gpus in (10, 71, 70, 80)]
    answer = alice.post(PATH, {"workflows": items})

    assert (alice.status, answer["error_code"]) == (400, "RESOURCE")
    assert [(fault["path"], fault["requested"], fault["limit"]) for fault in answer["details"]] == [
        ("workflows[1].workflow", 71, 70),
        ("workflows[3].workflow", 80, 70),
    ]
    assert not Workflow.objects.exists()


def test_a_dry_run_checks_all_and_stores_nothing(alice: Any) -> None:
    answer = alice.post(
        PATH, {"workflows": [{"file": workflow_file("x")}, {"file": workflow_file("y")}]}, query="dry_run=True"
    )

    assert [each["name"] for each in answer["workflows"]] == ["x", "y"]
    assert all(each["spec"] for each in answer["workflows"])
    assert not Workflow.objects.exists()


def test_a_closed_pool_refuses_with_one_message(alice: Any, team: Any) -> None:
    team.enable_maintenance = True
    team.save()
    answer = alice.post(PATH, {"workflows": [{"file": workflow_file()}] * 3})

    assert alice.status == 400
    assert [fault["code"] for fault in answer["details"]] == ["pool_closed"]


def test_a_body_of_the_wrong_form(alice: Any) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"workflows": []},
        {"workflows": "x"},
        {"workflows": [{"file": "x"}] * 501},
        {"workflows": ["x"]},
        {"workflows": [{}]},
        {"workflows": [{"file": "x", "colour": 1}]},
        {"workflows": [{"file": "x", "priority": 3}]},
        {"workflows": [{"file": "x", "label": ["a"]}]},
        {"workflows": [], "colour": 1},
    )
    for body in bodies:
        answer = alice.post(PATH, body)
        assert (alice.status, answer["error_code"]) == (400, "USAGE"), body
        assert answer["details"], body


def test_a_repeated_key_submits_once(alice: Any) -> None:
    body = {"workflows": [{"file": workflow_file("x")}, {"file": workflow_file("x")}]}
    first = alice.post(PATH, body, **{"Idempotency-Key": "k"})

    assert alice.post(PATH, body, **{"Idempotency-Key": "k"}) == first
    assert Workflow.objects.count() == 2


def test_a_hundred_cost_the_statements_of_one(alice: Any) -> None:
    def statements(number: int) -> int:
        body = {"workflows": [{"file": workflow_file("x")}] * number}
        with CaptureQueriesContext(connection) as queries:
            alice.post(PATH, body)
        assert alice.status == 200
        return len(queries)

    statements(1)
    assert statements(1) == statements(100)
