"""Starting, ending, cancelling, timeouts, drain and restart, as the rules say (design, D3, D4, D5, D6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.models import Backend, LeafUsage, Node, Pool, Reservation
from scheduling import locking
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.models import Group, Task, Workflow
from scheduling.services.simulated import reconcile as reconciliation
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from tests.support.world import apply_change, make_subpool, workflow_file

CHAIN = """workflow:
  name: chain
  resources: {default: {gpu: 4}}
  groups:
  - {name: first, tasks: [{name: one, image: i, command: [sh]}]}
  - {name: aside, tasks: [{name: two, image: i, command: [sh]}]}
  - {name: second, tasks: [{name: three, image: i, command: [sh], inputs: [{task: one}]}]}
  - {name: third, tasks: [{name: four, image: i, command: [sh], inputs: [{task: three}]}]}
"""
TIMED = "workflow:\n  name: timed\n  timeout: {%s}\n  tasks:\n  - {name: t, image: i, command: [sh]}\n"


def statuses() -> dict[str, str]:
    """Workflow → status."""
    return dict(Workflow.objects.values_list("name", "status"))


def groups(workflow: str) -> dict[str, str]:
    """Group → status."""
    return dict(Group.objects.filter(workflow__name=workflow).order_by("position").values_list("name", "status"))


def usage(pool: str) -> tuple[int, int, int]:
    """(used, total, live) of a leaf."""
    row = LeafUsage.objects.get(pool__name=pool)
    return row.used, row.total_usage, row.live_workflows


def end(name: str, group: str | None = None) -> None:
    """Report that the running gangs of a workflow have completed."""
    apply_change(EndWorkflow(name=name, group=group, status=EndStatus.COMPLETED))


def later(**ago: int) -> None:
    """Move the times of all due work and of all running workflows into the past."""
    for group in Group.objects.exclude(due_at=None):
        span = timedelta(**ago)
        group.due_at = group.due_at - span if group.due_at else None
        group.ready_at = group.ready_at - span if group.ready_at else None
        group.ends_at = group.ends_at - span if group.ends_at else None
        group.save()
    for workflow in Workflow.objects.exclude(start_time=None):
        assert workflow.start_time is not None
        Workflow.objects.filter(pk=workflow.pk).update(start_time=workflow.start_time - timedelta(**ago))


@pytest.fixture(autouse=True)
def clean_ledger(db: None) -> Any:
    """After each test the counters and the statuses agree."""
    yield
    assert verify() == []


def test_a_gang_starts_whole_and_counts_on_its_leaf(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("hello", gpus=8), query="priority=HIGH&label=osmo/simulated-runtime=1s")
    alice.submit("team--a", workflow_file("low", gpus=32), query="priority=LOW")
    steps = reconcile_pool()

    assert [(step["action"], step["workflow"]) for step in steps] == [("start", "hello-1"), ("start", "low-1")]
    assert statuses() == {"hello-1": "RUNNING", "low-1": "RUNNING"}
    assert usage("team--a") == (8, 40, 2)
    assert usage("team") == (0, 0, 0)
    assert Group.objects.filter(due_at=None, ends_at=None).count() == 2
    later(days=100)
    assert reconcile_pool() == [], "nothing ends by itself"
    end("hello-1")
    row = Workflow.objects.get(name="hello-1")
    assert row.start_time is not None
    assert row.end_time is not None
    assert row.start_time <= row.end_time <= timezone.now()


def test_a_bulk_submission_is_served_in_its_order(alice: Any, reconcile_pool: Any) -> None:
    items = [{"file": workflow_file(f"w{number}", gpus=30)} for number in range(9)]
    alice.post("/api/pool/team--a/workflows", {"workflows": items})

    order = []
    for _ in range(3):
        order += [step["workflow"] for step in reconcile_pool()]
        end(order[-1])
    assert order == ["w0-1", "w1-1", "w2-1"]


def test_a_gang_of_tasks_starts_together_or_not_at_all(alice: Any, reconcile_pool: Any) -> None:
    tasks = "".join(f"    - {{name: t{n}, image: i, command: [sh], lead: {str(n == 0).lower()}}}\n" for n in range(5))
    file = (
        f"workflow:\n  name: gang\n  resources: {{default: {{gpu: 32}}}}\n  groups:\n  - name: g\n    tasks:\n{tasks}"
    )
    Pool.objects.filter(name="team").update(guarantee=200)
    alice.submit("team", file)
    assert reconcile_pool() == []
    assert set(Task.objects.values_list("status", flat=True)) == {"SCHEDULING"}

    Node.objects.create(backend=Backend.objects.get(name="sim"), name="sim-n5", gpus=32)
    reconcile_pool()
    assert set(Task.objects.values_list("status", flat=True)) == {"RUNNING"}


def test_the_whole_pool_s_guarantee_binds_firm_work(alice: Any, reconcile_pool: Any, team: Pool) -> None:
    """Work that was there before a subpool was cut still holds the container's quota (design, A2)."""
    Node.objects.update(gpus=100)
    alice.submit("team", workflow_file("old", gpus=70))
    reconcile_pool()
    make_subpool("team", "b", 60)
    alice.submit("team--b", workflow_file("new", gpus=60))
    reconcile_pool()

    assert statuses() == {"old-1": "RUNNING", "new-1": "PENDING"}
    end("old-1")
    reconcile_pool()
    assert statuses()["new-1"] == "RUNNING"


def test_groups_follow_their_upstream(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    reconcile_pool()
    assert list(groups("chain-1").values()) == ["RUNNING", "RUNNING", "WAITING", "WAITING"]
    assert usage("team") == (8, 8, 1)

    answer = admin.post("/api/workflow/chain-1/end", {"status": "COMPLETED", "group": "first"})
    assert (admin.status, answer["status"]) == (200, "RUNNING")
    assert list(groups("chain-1").values()) == ["COMPLETED", "RUNNING", "SCHEDULING", "WAITING"]
    reconcile_pool()
    assert list(groups("chain-1").values()) == ["COMPLETED", "RUNNING", "RUNNING", "WAITING"]
    admin.post("/api/workflow/chain-1/end", {"status": "COMPLETED"})
    assert statuses() == {"chain-1": "PENDING"}
    reconcile_pool()
    answer = admin.post("/api/workflow/chain-1/end", {"status": "COMPLETED"})
    assert answer["status"] == "COMPLETED"
    assert usage("team") == (0, 0, 0)
    assert not Reservation.objects.exists()


def test_a_failed_upstream_fails_all_groups_that_depend_on_it(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    reconcile_pool()
    admin.post("/api/workflow/chain-1/end", {"status": "FAILED", "group": "first"})
    assert list(groups("chain-1").values()) == ["FAILED", "RUNNING", "FAILED_UPSTREAM", "FAILED_UPSTREAM"]
    assert statuses() == {"chain-1": "RUNNING"}
    assert set(Task.objects.filter(group__name="third").values_list("exit_code", flat=True)) == {3000}

    admin.post("/api/workflow/chain-1/end", {"status": "COMPLETED"})
    assert statuses() == {"chain-1": "FAILED"}


def test_end_refuses_work_that_does_not_run(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN)
    path = "/api/workflow/chain-1/end"
    admin.post(path, {"status": "COMPLETED"})
    assert admin.status == 409
    reconcile_pool()
    for body, status in (
        ({"status": "COMPLETED", "group": "second"}, 409),
        ({"status": "COMPLETED", "group": "nothing"}, 404),
        ({"status": "DONE"}, 400),
        ({}, 400),
        ({"status": "COMPLETED", "group": 3}, 400),
        ({"status": "COMPLETED", "colour": 3}, 400),
    ):
        admin.post(path, body)
        assert admin.status == status, body
    alice.post(path, {"status": "COMPLETED"})
    assert alice.status == 403


def test_auto_end_ends_work_when_its_time_is_over(alice: Any, team: Pool) -> None:
    Backend.objects.update(auto_end=True)
    alice.submit("team", workflow_file("short", gpus=1), query="label=osmo/simulated-runtime=30s")
    alice.submit("team", workflow_file("usual", gpus=1))
    timed = workflow_file("timed", gpus=1).replace("  tasks", "  timeout: {exec_timeout: 60s}\n  tasks")
    alice.submit("team", timed, query="label=osmo/simulated-runtime=40s")
    reconcile_backend(team.backend_id)
    assert Group.objects.filter(ends_at=None).count() == 0

    later(seconds=31)
    steps = reconcile_backend(team.backend_id)["steps"]
    assert [(step["action"], step["workflow"], step["status"]) for step in steps] == [("end", "short-1", "COMPLETED")]
    later(seconds=3600)
    reconcile_backend(team.backend_id)
    assert set(statuses().values()) == {"COMPLETED"}, "also what had ended before its timeout, seen later"


def test_queue_timeout_ends_work_that_waited_too_long(alice: Any, reconcile_pool: Any) -> None:
    Node.objects.all().delete()
    alice.submit("team", TIMED % "queue_timeout: 60s")
    assert reconcile_pool() == []
    later(seconds=61)
    reconcile_pool()

    assert statuses() == {"timed-1": "FAILED_QUEUE_TIMEOUT"}
    assert "queue_timeout" in alice.get("/api/workflow/timed-1")["failure_message"]
    assert usage("team") == (0, 0, 0)


def test_exec_timeout_ends_the_whole_workflow(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team", CHAIN.replace("  resources", "  timeout: {exec_timeout: 60s}\n  resources"))
    reconcile_pool()
    later(seconds=61)
    reconcile_pool()

    assert statuses() == {"chain-1": "FAILED_EXEC_TIMEOUT"}
    assert list(groups("chain-1").values()) == ["FAILED_EXEC_TIMEOUT"] * 2 + ["FAILED_UPSTREAM"] * 2


def test_cancel(alice: Any, caller: Any, reconcile_pool: Any) -> None:
    for name in ("one", "two", "three"):
        alice.submit("team", workflow_file(name, gpus=2))
    reconcile_pool()
    for person, status in ((caller("bob", "osmo-team-user"), 403), (caller("nobody"), 404)):
        person.post("/api/workflow/one-1/cancel")
        assert person.status == status

    assert alice.post("/api/workflow/one-1/cancel", query="force=False&message=wrong+data") == {"name": "one-1"}
    teresa = caller("teresa", "osmo-team-admin")
    assert teresa.post("/api/workflow/two-1/cancel") == {"name": "two-1"}
    detail = alice.get("/api/workflow/one-1")
    assert (detail["status"], detail["cancelled_by"], detail["failure_message"]) == (
        "FAILED_CANCELED",
        "alice",
        "wrong data",
    )
    assert detail["groups"][0]["tasks"][0]["status"] == "FAILED_CANCELED"
    assert usage("team") == (2, 2, 1)
    end("three-1")
    alice.post("/api/workflow/three-1/cancel")
    assert alice.status == 400
    assert alice.post("/api/workflow/three-1/cancel", query="force=True") == {"name": "three-1"}
    assert statuses()["three-1"] == "COMPLETED"


def test_dry_runs_report_and_change_nothing(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit("team", workflow_file("one"))
    reconcile_pool()
    effect = alice.post("/api/workflow/one-1/cancel", query="dry_run=True")
    assert (effect["dry_run"], effect["before"]["status"], effect["after"]["status"]) == (
        True,
        "RUNNING",
        "FAILED_CANCELED",
    )
    effect = admin.post("/api/workflow/one-1/end", {"status": "FAILED"}, query="dry_run=True")
    assert effect["after"]["status"] == "FAILED"
    effect = admin.post("/api/workflow/one-1/end", {"status": "FAILED", "group": "x"}, query="dry_run=True")
    assert admin.status == 404
    effect = alice.post("/api/workflow/one-1/tag", query="dry_run=True&add=x")
    assert effect["after"]["tags"] == ["x"]
    assert statuses() == {"one-1": "RUNNING"}
    assert alice.get("/api/workflow/one-1")["tags"] == []


def test_restart_is_for_failed_workflows(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("hello", gpus=2), query="priority=HIGH&label=project=x")
    answer = alice.post("/api/pool/team--a/workflow/hello-1/restart")
    assert (alice.status, answer["error_code"], answer["workflow_id"]) == (400, "USAGE", "hello-1")
    alice.post("/api/workflow/hello-1/cancel")

    answer = alice.post("/api/pool/team--a/workflow/hello-1/restart")
    assert (answer["name"], answer["status"], answer["pool"]) == ("hello-2", "PENDING", "team--a")
    detail = alice.get("/api/workflow/hello-2")
    assert (detail["parent_name"], detail["priority"], detail["labels"]) == ("hello-1", "HIGH", {"project": "x"})
    assert alice.post("/api/pool/team/workflow/hello-1/restart", query="dry_run=True")["spec"]
    assert len(statuses()) == 2
    alice.post("/api/pool/team/workflow/nothing-1/restart")
    assert alice.status == 404


def test_the_last_workflow_that_ends_archives_a_draining_subpool(alice: Any, reconcile_pool: Any) -> None:
    """The leaf keeps the quota that its active work needs, and the shared leaf gets only the rest (design, D4)."""
    Node.objects.update(gpus=100)
    alice.submit("team--a", CHAIN.replace("gpu: 4", "gpu: 14"))
    reconcile_pool()
    alice.submit("team--a", workflow_file("waits", gpus=10))
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    end("chain-1")
    alice.submit("team", workflow_file("greedy", gpus=100), query="priority=HIGH")
    reconcile_pool()

    assert groups("chain-1")["second"] == "RUNNING"
    assert statuses()["greedy-1"] == "PENDING"
    end("chain-1")
    reconcile_pool()
    end("chain-1")
    assert Pool.objects.get(name="team--a").subpool_state == "DELETING"
    alice.post("/api/workflow/waits-1/cancel")
    assert Pool.objects.get(name="team--a").subpool_state == "ARCHIVED"
    reconcile_pool()
    assert statuses()["chain-1"] == "COMPLETED"
    assert statuses()["greedy-1"] == "RUNNING"


def test_a_smaller_quota_changes_no_running_work(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("one", gpus=30))
    reconcile_pool()
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=5))
    alice.submit("team--a", workflow_file("two", gpus=5))
    reconcile_pool()
    assert statuses() == {"one-1": "RUNNING", "two-1": "PENDING"}
    end("one-1")
    reconcile_pool()
    assert statuses()["two-1"] == "RUNNING"


def test_deleting_with_cancel_pending_ends_waiting_work(alice: Any, admin: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("one", gpus=30))
    reconcile_pool()
    alice.submit("team--a", workflow_file("two", gpus=30))
    answer = admin("DELETE", "/api/configs/pool/team/subpool/a", {"cancel_pending": True})
    assert answer.body["cancelled_workflows"] == 1
    assert statuses() == {"one-1": "RUNNING", "two-1": "FAILED_CANCELED"}
    assert Pool.objects.get(name="team--a").subpool_state == "DELETING"


def test_reconcile_on_request(alice: Any, admin: Any, monkeypatch: Any) -> None:
    alice.submit("team", workflow_file("one"))
    path = "/api/backend/sim/settle"
    answer = admin.post(path)
    assert answer["settled"] is True
    assert [(step["pass"], step["action"], step["workflow"]) for step in answer["steps"]] == [(1, "start", "one-1")]
    assert admin.post(path) == {"steps": [], "settled": True}
    admin.post("/api/backend/nothing/settle")
    assert admin.status == 404
    Backend.objects.create(name="real", kind=Backend.Kind.KUBERNETES, namespace="k")
    admin.post("/api/backend/real/settle")
    assert admin.status == 409

    monkeypatch.setattr(reconciliation, "MANUAL_LOCK_TIMEOUT", 0.2)
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_lock(%s, %s)", [locking.CYCLE_LOCK_SPACE, Backend.objects.get(name="sim").pk]
            )
        answer = admin.post(path)
    finally:
        other.close()
    assert (admin.status, answer["error_code"]) == (503, "SERVER")
    assert admin.last.headers["Retry-After"]


def test_starting_and_ending_many_costs_the_statements_of_one(alice: Any, team: Pool) -> None:
    Backend.objects.update(auto_end=True)

    def statements(number: int) -> tuple[int, int]:
        body = {"workflows": [{"file": workflow_file("x", gpus=1), "label": ["osmo/simulated-runtime=10s"]}] * number}
        alice.post("/api/pool/team/workflows", body)
        counts = []
        for wait in (0, 11):
            later(seconds=wait)
            with CaptureQueriesContext(connection) as queries:
                reconcile_backend(team.backend_id)
            counts.append(len(queries))
        assert not Reservation.objects.exists()
        return counts[0], counts[1]

    statements(1)
    assert statements(2) == statements(60)
