"""Lists, one workflow, its texts, tags and tasks (design, O7.2), and the rights to read them (design, D10)."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from pools.models import AuditEntry, Backend
from scheduling.models import Task, Workflow
from tests.support import stock_client_keys
from tests.support.world import make_pool, sign_in, workflow_file

CHAIN = """workflow:
  name: chain
  resources: {default: {gpu: 2, cpu: 3, memory: 4Gi, storage: 1536Mi}}
  groups:
  - name: first
    tasks:
    - {name: lead, image: i, command: [sh], lead: true}
    - {name: side, image: i, command: [sh]}
  - name: second
    tasks:
    - {name: after, image: i, command: [sh], inputs: [{task: lead}]}
"""


def names(answer: Any) -> list[str]:
    return [entry["name"] for entry in answer["workflows"]]


@pytest.fixture
def busy(alice: Any, caller: Any, team: Any) -> Any:
    """Work of alice (HIGH x-1, LOW y-1 on the subpool) and of bob (x-2), and work of another user on another pool."""
    alice.submit("team", workflow_file("x", project="sim_a"), query="priority=HIGH")
    alice.submit("team--a", workflow_file("y", project="hil_b"), query="priority=LOW")
    caller("bob", "osmo-team-user").submit("team", workflow_file("x"))
    make_pool("other", 10)
    caller("olga", "osmo-other-user").submit("other", workflow_file("z"))
    return alice


def test_without_filters_the_list_has_my_work_newest_first(busy: Any) -> None:
    answer = busy.get("/api/workflow", limit=20, offset=0, order="DESC")

    assert names(answer) == ["y-1", "x-1"]
    assert answer["more_entries"] is False
    entry = answer["workflows"][1]
    assert entry.keys() >= stock_client_keys.LIST_KEYS | {"queue", "k8s_queue"}
    assert stock_client_keys.TIME_PATTERN.match(entry["submit_time"])
    assert entry["start_time"] is None
    assert entry["queued_time"] >= 0
    assert (entry["user"], entry["pool"], entry["priority"]) == ("alice", "team", "HIGH")
    assert entry["labels"] == {"project": "sim_a"}
    assert (entry["queue"], entry["k8s_queue"]) == ("osmo-pool-ns-team--_shared", "osmo-pool-ns-team---shared")


def test_filters(busy: Any) -> None:
    busy.post("/api/workflow/x-1/tag", query="add=keep")
    cases: list[tuple[dict[str, Any], list[str], bool]] = [
        ({"all_users": "True"}, ["x-2", "y-1", "x-1"], False),
        ({"all_users": "True", "order": "ASC"}, ["x-1", "y-1", "x-2"], False),
        ({"all_users": "True", "limit": 2}, ["x-2", "y-1"], True),
        ({"all_users": "True", "limit": 2, "offset": 2}, ["x-1"], False),
        ({"limit": 2}, ["y-1", "x-1"], False),
        ({"users": ["bob"]}, ["x-2"], False),
        ({"users": ["bob", "alice"]}, ["x-2", "y-1", "x-1"], False),
        ({"users": ["nobody"]}, [], False),
        ({"name": "x-"}, ["x-1"], False),
        ({"pools": ["team--a"]}, ["y-1"], False),
        ({"pools": ["team", "team--a"]}, ["y-1", "x-1"], False),
        ({"pools": ["other"]}, [], False),
        ({"all_pools": "True"}, ["y-1", "x-1"], False),
        ({"priority": ["LOW", "NORMAL"]}, ["y-1"], False),
        ({"statuses": ["PENDING"]}, ["y-1", "x-1"], False),
        ({"statuses": ["RUNNING", "COMPLETED"]}, [], False),
        ({"statuses": ["FAILED_SUBMISSION"]}, [], False),
        ({"label": ["project=sim_a"]}, ["x-1"], False),
        ({"label": ["project=(sim_*|hil_*)"]}, ["y-1", "x-1"], False),
        ({"label": ["project=*_b"]}, ["y-1"], False),
        ({"label": ["project=sim"]}, [], False),
        ({"no_label": ["project"]}, [], False),
        ({"all_users": "True", "no_label": ["project"]}, ["x-2"], False),
        ({"tags": ["keep"]}, ["x-1"], False),
        ({"app": "nothing"}, [], False),
        ({"submitted_after": "2020-01-01"}, ["y-1", "x-1"], False),
        ({"submitted_before": "2020-01-01"}, [], False),
    ]
    for query, expected, has_more in cases:
        answer = busy.get("/api/workflow", **query)
        assert (busy.status, names(answer), answer["more_entries"]) == (200, expected, has_more), query


def test_queries_that_cannot_be_read(alice: Any) -> None:
    for name, value in (
        ("limit", 1001), ("limit", "x"), ("offset", -1), ("order", "UP"), ("statuses", "BUSY"), ("priority", "URGENT"),
        ("label", "project"), ("label", "project=(a"), ("submitted_after", "yesterday"), ("all_users", "perhaps"),
    ):  # fmt: skip
        answer = alice.get("/api/workflow", **{name: value})
        assert (alice.status, answer["details"][0]["path"]) == (400, name), value


def test_users_see_their_pools_and_their_own_work(busy: Any, caller: Any, admin: Any) -> None:
    make_pool("team-x", 10)
    everything = ["z-1", "x-2", "y-1", "x-1"]
    see = {
        caller("bob"): ["x-2", "y-1", "x-1"],
        caller("tom", "osmo-team-admin"): ["x-2", "y-1", "x-1"],
        caller("stranger", "osmo-team-x-admin"): [],
        caller("olga"): ["z-1"],
        caller("vera", "osmo-viewer"): everything,
        admin: everything,
        caller("nobody"): [],
    }
    for person, expected in see.items():
        assert names(person.get("/api/workflow", all_users="True")) == expected, person.user.username
        for name in everything:
            person.get(f"/api/workflow/{name}")
            assert person.status == (200 if name in expected else 404), (person.user.username, name)
        tasks = person.get("/api/task", all_users="True")["tasks"]
        assert {task["workflow_id"] for task in tasks} == set(expected)
    busy.user.groups.clear()
    assert names(caller("alice").get("/api/workflow", all_users="True")) == ["y-1", "x-1"], "without the role"


def test_the_same_list_again_has_new_work_and_new_roles(busy: Any, caller: Any) -> None:
    """The query of a list is kept; its rows, and the roles of the caller, are not."""
    query = {"all_users": "True", "order": "ASC"}
    before = names(busy.get("/api/workflow", **query))
    bob = caller("bob", "osmo-team-user")
    assert names(bob.get("/api/workflow", **query)) == before

    bob.post("/api/pool/team/workflow", {"file": workflow_file("new")})

    assert names(busy.get("/api/workflow", **query)) == names(bob.get("/api/workflow", **query)) == [*before, "new-1"]
    bob.user.groups.clear()
    assert names(caller("bob").get("/api/workflow", **query)) == ["x-2", "new-1"], "only the work of the caller"
    assert busy.get("/api/workflow", total="True", **query)["total"] == len(before) + 1


def test_a_workflow_with_groups_and_tasks(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    reconcile_pool()

    detail = alice.get("/api/workflow/chain-1", verbose="True")

    assert detail.keys() >= stock_client_keys.DETAIL_KEYS | {"queue", "k8s_queue"}
    assert (detail["status"], detail["pool"], detail["backend"]) == ("RUNNING", "team", "sim")
    first, second = detail["groups"]
    assert first.keys() >= stock_client_keys.GROUP_KEYS | {"queue", "k8s_queue"}
    assert (first["status"], second["status"]) == ("RUNNING", "WAITING")
    assert first["downstream_groups"] == [second["name"]]
    assert second["remaining_upstream_groups"] == ["first"]
    task = first["tasks"][0]
    assert task.keys() >= stock_client_keys.TASK_KEYS
    assert (task["name"], task["status"], task["retry_id"], task["lead"]) == ("lead", "RUNNING", 0, True)
    assert task["node_name"].startswith("sim-n")
    times = [detail["submit_time"], detail["start_time"], first["start_time"], task["start_time"]]
    assert all(stock_client_keys.TIME_PATTERN.match(each) for each in times)
    assert alice.get(f"/api/workflow/{detail['uuid']}")["name"] == "chain-1"


def test_one_workflow_costs_the_same_however_large(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    alice.submit("team", workflow_file("small"))
    alice.get("/api/queue")  # the pending queue is built once for all readers
    counts = []
    for name in ("chain-1", "small-1"):
        with CaptureQueriesContext(connection) as queries:
            alice.get(f"/api/workflow/{name}")
        counts.append(len(queries))

    assert counts[0] == counts[1]
    assert counts[0] <= 9


def test_lists_cost_the_same_however_long(alice: Any) -> None:
    def count(path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            alice.get(path, all_users="True", limit=100)
        return len(queries)

    alice.submit("team", workflow_file("x"))
    before = [count("/api/workflow"), count("/api/task")]
    for _ in range(10):
        alice.submit("team--a", CHAIN)
    assert [count("/api/workflow"), count("/api/task")] == before
    assert max(before) <= 6


def test_unknown_ids_are_404_in_every_call(alice: Any) -> None:
    for call in ("", "/spec", "/logs", "/error_logs", "/events"):
        alice.get(f"/api/workflow/nothing-1{call}")
        assert alice.status == 404, call
    for call in ("/cancel", "/tag"):
        alice.post(f"/api/workflow/nothing-1{call}")
        assert alice.status == 404, call
    alice.get("/api/workflow/00000000-0000-0000-0000-000000000000")
    assert alice.status == 404


def test_the_addresses_and_the_file_of_a_workflow(alice: Any, settings: Any) -> None:
    name = "a1234567-1234-1234-1234-12345678901"
    file = "# mine\n" + workflow_file(name)
    page = alice.submit("team", file)["overview"].removeprefix("http://testserver")
    assert page == reverse("admin:scheduling_workflow_change", args=[Workflow.objects.get().pk])
    assert sign_in("alice").get(page).status_code == 200
    assert alice.get(f"/api/workflow/{name}-1")["status"] == "PENDING", "a name that is like a UUID"

    assert alice.get(f"/api/workflow/{name}-1/spec") == file
    assert alice.last.headers["Content-Type"].startswith("text/plain")
    assert alice.get(f"/api/workflow/{name}-1/spec", use_template="True") == file
    Backend.objects.update(kind=Backend.Kind.KUBERNETES)
    logs = alice.get(f"/api/workflow/{name}-1/logs")
    assert "No pod of these tasks has been created" in logs
    assert "imulated" not in logs

    settings.OSMO = dataclasses.replace(settings.OSMO, public_url="https://osmo.example")
    answer = alice.submit("team", workflow_file("hello"))
    assert answer["overview"].startswith("https://osmo.example/")
    assert answer["logs"] == "https://osmo.example/api/workflow/hello-1/logs"


def test_texts_contain_the_recorded_facts(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    reconcile_pool()
    admin.post("/api/workflow/chain-1/end", {"status": "FAILED", "description": "out of memory"})

    logs = alice.get("/api/workflow/chain-1/logs")
    assert alice.last.headers["Content-Type"].startswith("text/plain")
    assert "[lead] started on node sim-n" in logs
    assert "[lead] ended as FAILED, exit code 1: out of memory" in logs
    assert "prints nothing" in logs
    assert alice.get("/api/workflow/chain-1/logs", last_n_lines="1").count("\n") == 1
    only = alice.get("/api/workflow/chain-1/logs", task_name="side", retry_id="0")
    assert "[side]" in only
    assert "[lead]" not in only
    errors = alice.get("/api/workflow/chain-1/error_logs")
    assert "[after] ended as FAILED_UPSTREAM, exit code 3000" in errors
    assert "started" not in errors
    events = alice.get("/api/workflow/chain-1/events")
    assert re.search(r"^\S+ \S+ \[chain-1\] submitted by \S+, now PENDING\n", events), "the first that happened"
    assert "[first] waits for 4 GPUs" in events
    Task.objects.filter(name="lead").update(start_time=AuditEntry.objects.get(action="workflow.started").time)
    words = ("submitted by", "[first] waits", "[lead] started on", "started by system, now RUNNING")
    places = [alice.get("/api/workflow/chain-1/events").index(each) for each in words]
    assert places == sorted(places), "at one instant, too, a cause is before its effect"
    assert "[chain-1] ended by root, now FAILED: out of memory" in events
    alice.get("/api/workflow/chain-1/logs", task_name="nobody")
    assert alice.status == 404
    alice.get("/api/workflow/chain-1/logs", task_name="lead", retry_id="3")
    assert alice.status == 404


def test_an_invalid_attempt_is_refused(alice: Any) -> None:
    alice.submit("team", CHAIN)
    cases: tuple[tuple[dict[str, str], set[str]], ...] = (
        ({"retry_id": "x"}, {"retry_id"}),
        ({"retry_id": "1"}, {"retry_id"}),
        ({"task_name": "lead", "retry_id": "-1"}, {"retry_id"}),
        ({"task_name": "nobody", "retry_id": "x"}, {"retry_id"}),
        ({"retry_id": "x", "last_n_lines": "all"}, {"retry_id", "last_n_lines"}),
    )
    for call in ("logs", "error_logs", "events"):
        for query, paths in cases:
            refused = alice.get(f"/api/workflow/chain-1/{call}", **query)
            assert alice.status == 400, (call, query)
            assert {detail["path"] for detail in refused["details"]} == paths, (call, query)


def test_tags(alice: Any, caller: Any) -> None:
    alice.submit("team", workflow_file("hello"))

    assert alice.post("/api/workflow/hello-1/tag", query="add=one&add=two") is None
    assert alice.status == 200
    alice.post("/api/workflow/hello-1/tag", query="add=three&remove=one")
    assert alice.get("/api/workflow/hello-1")["tags"] == ["two", "three"]
    assert alice.get("/api/tag") == {"tags": ["three", "two"]}
    assert caller("nobody").get("/api/tag") == {"tags": []}
    alice.post("/api/workflow/hello-1/tag", query="add=%20")
    assert alice.status == 400
    bob = caller("bob", "osmo-team-user")
    bob.post("/api/workflow/hello-1/tag", query="add=mine")
    assert bob.status == 403


def test_task_list(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    reconcile_pool()

    tasks = alice.get("/api/task", order="ASC")["tasks"]
    assert [task["task_name"] for task in tasks] == ["lead", "side", "after"]
    entry = tasks[0]
    assert entry.keys() >= stock_client_keys.TASK_LIST_KEYS
    assert (entry["gpu"], entry["cpu"], entry["memory"], entry["storage"]) == (2, 3, 4, 1.5)
    assert stock_client_keys.TIME_PATTERN.match(entry["start_time"])
    running = alice.get("/api/task", statuses=["RUNNING"], nodes=[entry["node"]], workflow_id="chain")["tasks"]
    assert {task["status"] for task in running} == {"RUNNING"}
    assert alice.get("/api/task", workflow_id="nothing")["tasks"] == []
    assert alice.get("/api/task", pools=["team--a"])["tasks"] == []
    soon = (timezone.now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S")
    assert alice.get("/api/task", started_after=soon)["tasks"] == []
    assert len(alice.get("/api/task", started_before=soon)["tasks"]) == 2
    alice.get("/api/task", statuses=["BUSY"])
    assert alice.status == 400


def test_task_sums(alice: Any, reconcile_pool: Any) -> None:
    for _ in range(2):
        alice.submit("team", CHAIN)
    reconcile_pool()

    (row,) = alice.get("/api/task", statuses=["RUNNING"], summary="True")["summaries"]
    numbers = {"gpu": 8, "cpu": 12, "memory": 16, "storage": 6}
    assert row == {"user": "alice", "pool": "team", "priority": "NORMAL", **numbers}
    rows = alice.get("/api/task", summary="True", aggregate_by_workflow="True", statuses=["RUNNING"])["summaries"]
    assert [(each["workflow_id"], each["gpu"]) for each in rows] == [("chain-1", 4), ("chain-2", 4)]
