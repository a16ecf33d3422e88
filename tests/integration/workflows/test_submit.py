"""Submitting over HTTP: answers, refusals and rights (design, O7.1, A1, D5, D6, D10)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.models import AuditEntry, LeafUsage, Pool, Reservation
from scheduling.models import Workflow
from tests.support.world import make_pool, workflow_file

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


def test_an_accepted_file_answers_id_queue_and_status(alice: Any) -> None:
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


def test_a_subpool_puts_the_work_into_its_own_queue(alice: Any) -> None:
    assert alice.submit("team--a", workflow_file(gpus=30))["queue"] == "osmo-pool-ns-team--a"
    assert Reservation.objects.get().needed_gpus == 30


def test_ids_count_up_by_name(alice: Any) -> None:
    names = [alice.submit("team", workflow_file(name))["name"] for name in ("x", "y", "x")]

    assert names == ["x-1", "y-1", "x-2"]


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


def test_the_stock_client_s_second_post_keeps_the_template(alice: Any) -> None:
    rendered = alice.post("/api/pool/team/workflow", {"file": TEMPLATE}, query="dry_run=True")["spec"]
    body = {
        "file": rendered,
        "set_variables": [],
        "set_string_variables": [],
        "uploaded_templated_spec": TEMPLATE,
    }
    answer = alice.post("/api/pool/team/workflow", body, query="dry_run=False")

    assert answer["name"] == "fromdefaults-1"
    assert alice.get("/api/workflow/fromdefaults-1/spec") == rendered
    assert alice.get("/api/workflow/fromdefaults-1/spec", use_template="True") == TEMPLATE


def test_braces_of_a_rendered_file_are_not_rendered_again(alice: Any) -> None:
    file = 'workflow:\n  name: raw\n  tasks:\n  - {name: t, image: i, command: [sh, "{{ not_a_variable }}"]}\n'
    answer = alice.post("/api/pool/team/workflow", {"file": file, "uploaded_templated_spec": "{% raw %}"})

    assert (alice.status, answer["name"]) == (200, "raw-1")


def test_validation_answers_a_message(alice: Any) -> None:
    answer = alice.submit("team", workflow_file("hello"), query="validation_only=True")

    assert "valid" in answer["logs"]
    assert answer["spec"] is None
    assert not Workflow.objects.exists()


def test_every_fault_of_a_file_at_once_with_its_line(alice: Any) -> None:
    answer = alice.submit("team", TWO_FAULTS)

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    lines = {fault["line"] for fault in answer["details"]}
    assert {6, 7} <= lines
    assert "line" in answer["message"]
    assert answer["message"].endswith(f"({len(answer['details']) - 1} more in details)")
    assert all(fault["path"] and fault["code"] for fault in answer["details"])


def test_unknown_body_keys_are_named(alice: Any) -> None:
    answer = alice.post("/api/pool/team/workflow", {"file": workflow_file(), "fiel": "x", "colour": 1})

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert [fault["path"] for fault in answer["details"]] == ["fiel", "colour"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"file": 7}, "file"),
        ({"file": "x", "set_variables": "a=b"}, "set_variables"),
        ({"file": "x", "set_string_variables": [1]}, "set_string_variables"),
        ({"file": "x", "uploaded_templated_spec": []}, "uploaded_templated_spec"),
        ({"set_variables": []}, "file"),
        (None, "file"),
    ],
)
def test_a_body_of_the_wrong_form(alice: Any, body: Any, path: str) -> None:
    answer = alice.post("/api/pool/team/workflow", body)

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert path in [fault["path"] for fault in answer["details"]]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("priority=URGENT", "priority"),
        ("label=nothing", "label"),
        ("env_vars=nothing", "env_vars"),
        ("env_vars=9x=1", "env_vars"),
        ("label=team=%20x%20", "label.team"),
        ("label=osmo/simulated-runtime=soon", "label.osmo/simulated-runtime"),
    ],
)
def test_a_query_of_the_wrong_form(alice: Any, query: str, path: str) -> None:
    answer = alice.submit("team", workflow_file(), query=query)

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert [fault["path"] for fault in answer["details"]] == [path]


def test_an_invalid_boolean(alice: Any) -> None:
    alice.submit("team", workflow_file(), query="dry_run=perhaps")

    assert alice.status == 400


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
    assert "31" in answer["message"]
    assert "30" in answer["message"]
    assert not Workflow.objects.exists()


def test_low_may_ask_for_more_than_the_quota(alice: Any) -> None:
    assert alice.submit("team--a", workflow_file(gpus=60), query="priority=LOW")["status"] == "PENDING"


def test_low_above_the_maximum_can_never_run(alice: Any, team: Pool) -> None:
    Pool.objects.filter(pk=team.pk).update(maximum=100)

    answer = alice.submit("team", workflow_file(gpus=101), query="priority=LOW")

    assert (alice.status, answer["error_code"]) == (400, "RESOURCE")


def test_current_usage_never_refuses(alice: Any) -> None:
    for _ in range(3):
        assert alice.submit("team", workflow_file(gpus=70), query="priority=HIGH")["status"] == "PENDING"


@pytest.mark.parametrize("state", ["DELETING", "ARCHIVED"])
def test_a_subpool_that_is_not_active_accepts_nothing(alice: Any, team: Pool, state: str) -> None:
    Pool.objects.filter(name="team--a").update(subpool_state=state)

    answer = alice.submit("team--a", workflow_file(), query="priority=LOW")

    assert (alice.status, answer["error_code"]) == (400, "USAGE")
    assert state in answer["message"]


def test_maintenance_accepts_work_of_osmo_admin_only(alice: Any, admin: Any, team: Pool) -> None:
    Pool.objects.filter(pk=team.pk).update(enable_maintenance=True)

    refused = alice.submit("team", workflow_file())
    assert (alice.status, refused["error_code"]) == (400, "USAGE")
    assert "MAINTENANCE" in refused["message"]
    admin.submit("team--a", workflow_file())
    assert admin.status == 200


def test_an_offline_backend_accepts_work_that_waits(alice: Any, team: Pool, reconcile_pool: Any) -> None:
    assert team.backend is not None
    team.backend.offline = True
    team.backend.save()

    assert alice.submit("team", workflow_file())["status"] == "PENDING"
    assert reconcile_pool() == []


@pytest.mark.parametrize("name", ["nowhere", "team--nowhere", "team--_shared", "team--", "--a", "TEAM"])
def test_unknown_and_shared_pools_are_not_found(alice: Any, admin: Any, name: str) -> None:
    for each_caller in (alice, admin):
        answer = each_caller.submit(name, workflow_file())
        assert (each_caller.status, answer["error_code"]) == (404, "NOTFOUND")


def test_roles_on_the_pool_and_only_on_that_pool(caller: Any, team: Pool) -> None:
    for other in ("team2", "team-x", "a-admin", "a"):
        make_pool(other, 10)
    may = {
        "osmo-team-user": ["team", "team--a"],
        "osmo-team-admin": ["team", "team--a"],
        "osmo-team2-user": ["team2"],
        "osmo-team-x-user": ["team-x"],
        "osmo-a-admin": ["a"],
        "osmo-a-admin-admin": ["a-admin"],
    }
    everywhere = ["team", "team--a", "team2", "team-x", "a-admin", "a"]
    for number, (role, allowed) in enumerate(may.items()):
        person = caller(f"person{number}", role)
        for name in everywhere:
            person.submit(name, workflow_file())
            assert person.status == (200 if name in allowed else 404), (role, name)


def test_a_viewer_sees_the_pool_but_may_not_submit(caller: Any, team: Pool) -> None:
    viewer = caller("vera", "osmo-viewer")

    viewer.submit("team", workflow_file())
    assert viewer.status == 403
    viewer.submit("nowhere", workflow_file())
    assert viewer.status == 404


def test_without_a_login_every_request_is_refused(client: Any, team: Pool) -> None:
    assert client.post("/api/pool/team/workflow", "{}", content_type="application/json").status_code == 401


def test_a_repeated_key_submits_once(alice: Any) -> None:
    first = alice.submit("team", workflow_file(), **{"Idempotency-Key": "k1"})
    second = alice.submit("team", workflow_file(), **{"Idempotency-Key": "k1"})
    assert first == second
    assert Workflow.objects.count() == 1

    alice.submit("team", workflow_file(gpus=2), **{"Idempotency-Key": "k1"})
    assert alice.status == 409
    alice.submit("team", workflow_file(gpus=2), **{"Idempotency-Key": "k2"})
    assert Workflow.objects.count() == 2


def test_a_refusal_is_not_stored_under_its_key(alice: Any, team: Pool) -> None:
    Pool.objects.filter(pk=team.pk).update(enable_maintenance=True)
    alice.submit("team", workflow_file(), **{"Idempotency-Key": "k1"})
    assert alice.status == 400
    Pool.objects.filter(pk=team.pk).update(enable_maintenance=False)

    alice.submit("team", workflow_file(), **{"Idempotency-Key": "k1"})
    assert alice.status == 200


def test_submitting_the_file_of_an_old_workflow(alice: Any) -> None:
    alice.submit("team", workflow_file("hello", project="one"), query="priority=HIGH&env_vars=A=1")

    again = alice.post("/api/pool/team--a/workflow", query="workflow_id=hello-1&priority=LOW&label=project=two")

    assert (again["name"], again["pool"]) == ("hello-2", "team--a")
    row = Workflow.objects.get(name="hello-2")
    assert (row.priority, row.labels, row.env_vars) == ("LOW", {"project": "two"}, {"A": "1"})
    assert row.parent is not None
    assert row.parent.name == "hello-1"


def test_a_file_or_an_id_but_not_both(alice: Any) -> None:
    alice.submit("team", workflow_file("hello"))

    alice.submit("team", workflow_file(), query="workflow_id=hello-1")
    assert alice.status == 400
    alice.post("/api/pool/team/workflow", query="workflow_id=hello-99")
    assert alice.status == 404


def test_counters_move_with_the_submission(alice: Any, team: Pool) -> None:
    alice.submit("team", workflow_file(gpus=4))
    alice.submit("team", workflow_file(gpus=6), query="priority=LOW")

    usage = LeafUsage.objects.get(pool=team)
    assert (usage.used, usage.total_usage, usage.live_workflows, usage.committed) == (0, 0, 2, 4)


def test_the_number_of_statements_does_not_depend_on_waiting_work(alice: Any) -> None:
    alice.submit("team", workflow_file())  # warm
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            alice.submit("team", workflow_file())
        counts.append(len(queries))
        for _ in range(5):
            alice.submit("team", workflow_file())
    assert counts[0] == counts[1]
    assert counts[0] <= 16, [query["sql"][:100] for query in queries]
