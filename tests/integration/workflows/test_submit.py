"""Submitting over HTTP: answers, refusals and rights (design, O7.1, A1, D5, D6, D10)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.models import AuditEntry, LeafUsage, Pool, Reservation
from scheduling.models import Workflow
from tests.support.world import workflow_file

TEMPLATE = """workflow:
  name: "{{ name }}"
  resources: {default: {gpu: {{ gpus }}}}
  tasks:
  - {name: train, image: ubuntu, command: [sh]}
default-values:
  name: fromdefaults
  gpus: 2
"""
TWO_FAULTS = """workflow:
  name: hello
  tasks:
  - name: one
    image: ubuntu
    comand: [sh]
  - name: two
    command: [sh]
"""


def test_an_accepted_file_answers_id_queue_and_status(alice: Any, team: Pool) -> None:
    answer = alice.submit("team", workflow_file("hello", gpus=8), query="priority=HIGH")

    assert alice.status == 200
    row = Workflow.objects.get(name="hello-1")
    assert answer["name"] == "hello-1"
    assert answer["status"] == "PENDING"
    assert answer["pool"] == "team"
    assert answer["queue"] == "osmo-pool-ns-team--_shared"
    assert answer["k8s_queue"] == "osmo-pool-ns-team---shared"
    assert answer["workflow_uuid"] == str(row.pk)
    assert answer["overview"].startswith("http://testserver/")
    assert answer["logs"].endswith("/api/workflow/hello-1/logs")
    assert answer["spec"] is None
    assert answer["warnings"] == []
    assert (row.priority, row.submitted_by.username) == ("HIGH", "alice")
    assert Reservation.objects.get().needed_gpus == 8

    assert alice.submit("team", workflow_file("hello", gpus=6), query="priority=LOW")["name"] == "hello-2"
    usage = LeafUsage.objects.get(pool=team)
    assert (usage.used, usage.total_usage, usage.live_workflows, usage.committed) == (0, 0, 2, 8)
    assert alice.submit("team--a", workflow_file("else"))["queue"] == "osmo-pool-ns-team--a"


def test_a_dry_run_renders_and_stores_nothing(alice: Any) -> None:
    body = {"file": TEMPLATE, "set_variables": ["gpus=4"], "set_string_variables": ["name=mine"]}
    answer = alice.post("/api/pool/team/workflow", body, query="dry_run=True")

    assert alice.status == 200
    assert answer["logs"] is None
    assert 'name: "mine"' in answer["spec"]
    assert "{gpu: 4}" in answer["spec"]
    assert "default-values" not in answer["spec"]
    assert answer["name"] == "mine"
    assert answer["status"] is None
    assert not Workflow.objects.exists()


def test_braces_of_a_rendered_file_are_not_rendered_again(alice: Any) -> None:
    file = 'workflow:\n  name: raw\n  tasks:\n  - {name: t, image: i, command: [sh, "{{ not_a_variable }}"]}\n'
    answer = alice.post("/api/pool/team/workflow", {"file": file, "uploaded_templated_spec": "{% raw %}"})

    assert (alice.status, answer["name"]) == (200, "raw-1")


def test_every_fault_of_a_file_at_once_with_its_line(alice: Any) -> None:
    answer = alice.submit("team", TWO_FAULTS)

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    lines = {fault["line"] for fault in answer["details"]}
    assert {6, 7} <= lines
    assert "line" in answer["message"]
    assert answer["message"].endswith(f"({len(answer['details']) - 1} more in details)")
    assert all(fault["path"] and fault["code"] for fault in answer["details"])


@pytest.mark.parametrize(
    ("body", "query", "paths"),
    [
        ({"file": 7}, "", {"file"}),
        ({"file": "x", "set_variables": "a=b"}, "", {"set_variables"}),
        ({"file": "x", "set_string_variables": [1]}, "", {"set_string_variables"}),
        ({"file": "x", "uploaded_templated_spec": []}, "", {"uploaded_templated_spec"}),
        ({"set_variables": []}, "", {"file"}),
        (None, "", {"file"}),
        ({"file": workflow_file(), "fiel": "x", "colour": 1}, "", {"fiel", "colour"}),
        ({"file": workflow_file()}, "priority=URGENT", {"priority"}),
        ({"file": workflow_file()}, "label=nothing", {"label"}),
        ({"file": workflow_file()}, "env_vars=nothing&env_vars=9x=1", {"env_vars"}),
        ({"file": workflow_file()}, "label=team=%20x%20", {"label.team"}),
        ({"file": workflow_file()}, "label=osmo/simulated-runtime=soon", {"label.osmo/simulated-runtime"}),
    ],
)
def test_a_request_of_the_wrong_form(alice: Any, body: Any, query: str, paths: set[str]) -> None:
    answer = alice.post("/api/pool/team/workflow", body, query=query)

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert {fault["path"] for fault in answer["details"]} == paths


def test_labels_and_variables_in_parameters_override_the_file(alice: Any) -> None:
    file = workflow_file("hello", project="one", keep="yes")
    alice.submit("team", file, query="label=project=two&env_vars=A=1&env_vars=B=x=y&label=osmo/simulated-runtime=90s")

    row = Workflow.objects.get()
    assert row.labels == {"project": "two", "keep": "yes", "osmo/simulated-runtime": "90s"}
    assert row.env_vars == {"A": "1", "B": "x=y"}
    entry = AuditEntry.objects.get(object=f"workflow/{row.name}", action="workflow.submitted")
    assert "env_vars" not in entry.after, "which often has passwords"
    assert row.simulated_runtime is not None
    assert row.simulated_runtime.total_seconds() == 90


def test_the_quota_of_the_leaf_refuses_with_both_numbers(alice: Any) -> None:
    answer = alice.submit("team--a", workflow_file("big", gpus=31), query="priority=HIGH")

    assert (alice.status, answer["error_code"], answer["workflow_id"]) == (400, "RESOURCE", "big")
    (fault,) = answer["details"]
    assert (fault["requested"], fault["limit"]) == (31, 30)
    assert not Workflow.objects.exists()
    for query in ("priority=LOW", "priority=LOW", ""):  # LOW may ask for more; work before it refuses nothing
        assert alice.submit("team--a", workflow_file(gpus=30 if not query else 60), query=query)["status"] == "PENDING"


def test_a_closed_pool_accepts_nothing(alice: Any, admin: Any, team: Pool) -> None:
    for state in ("DELETING", "ARCHIVED"):
        Pool.objects.filter(name="team--a").update(subpool_state=state)
        answer = alice.submit("team--a", workflow_file(), query="priority=LOW")
        assert (alice.status, answer["details"][0]["code"]) == (400, "pool_closed"), state
        assert state in answer["message"]

    Pool.objects.filter(pk=team.pk).update(enable_maintenance=True)
    refused = alice.submit("team", workflow_file(), Idempotency_Key="k1")
    assert (alice.status, refused["details"][0]["code"]) == (400, "pool_closed")
    admin.submit("team", workflow_file())
    assert admin.status == 200
    Pool.objects.filter(pk=team.pk).update(enable_maintenance=False)
    alice.submit("team", workflow_file(), Idempotency_Key="k1")
    assert alice.status == 200, "a refusal is not stored under its key"


def test_an_offline_backend_accepts_work_that_waits(alice: Any, team: Pool, reconcile_pool: Any) -> None:
    assert team.backend is not None
    team.backend.offline = True
    team.backend.save()

    assert alice.submit("team", workflow_file())["status"] == "PENDING"
    assert reconcile_pool() == []


def test_unknown_and_shared_pools_are_not_found(alice: Any, admin: Any, viewer: Any) -> None:
    for name in ("nowhere", "team--nowhere", "team--_shared", "team--", "--a", "TEAM"):
        for each_caller in (alice, admin, viewer):
            answer = each_caller.submit(name, workflow_file())
            assert (each_caller.status, answer["error_code"]) == (404, "NOTFOUND"), name
    viewer.submit("team", workflow_file())
    assert viewer.status == 403, "a viewer sees the pool"


def test_a_repeated_key_submits_once(alice: Any) -> None:
    first = alice.submit("team", workflow_file(), Idempotency_Key="k1")
    assert alice.submit("team", workflow_file(), Idempotency_Key="k1") == first
    alice.submit("team", workflow_file(gpus=2), Idempotency_Key="k1")
    assert (alice.status, Workflow.objects.count()) == (409, 1)
    alice.submit("team", workflow_file(gpus=2), Idempotency_Key="k2")
    assert Workflow.objects.count() == 2


def test_submitting_the_file_of_an_old_workflow(alice: Any) -> None:
    alice.submit("team", workflow_file("hello", project="one"), query="priority=HIGH&env_vars=A=1")

    again = alice.post("/api/pool/team--a/workflow", query="workflow_id=hello-1&priority=LOW&label=project=two")

    assert (again["name"], again["pool"]) == ("hello-2", "team--a")
    row = Workflow.objects.get(name="hello-2")
    assert (row.priority, row.labels, row.env_vars) == ("LOW", {"project": "two"}, {"A": "1"})
    assert row.parent is not None
    assert row.parent.name == "hello-1"
    alice.submit("team", workflow_file(), query="workflow_id=hello-1")
    assert alice.status == 400, "a file or a name, not both"
    alice.post("/api/pool/team/workflow", query="workflow_id=hello-99")
    assert alice.status == 404


def test_the_number_of_statements_does_not_depend_on_waiting_work(alice: Any) -> None:
    counts = []
    for _ in range(4):
        with CaptureQueriesContext(connection) as queries:
            alice.submit("team", workflow_file())
        counts.append(len(queries))
    assert counts[1] == counts[3], "the first one warms caches"
    assert counts[3] <= 16, [query["sql"][:100] for query in queries]
