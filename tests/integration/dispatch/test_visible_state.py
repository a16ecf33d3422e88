"""The visible state of work in a cluster: its pods and its waiting reasons."""

from __future__ import annotations

from typing import Any

from django.test import Client

from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group


def entry(browser: Client) -> dict[str, Any]:
    (found,) = browser.get("/api/queue").json()["entries"]
    return dict(found)


def test_the_pod_of_a_task_is_named_once_it_is_created(fake_harness: AgentHarness, browser: Client) -> None:
    workflow = fake_harness.submit()

    def task() -> dict[str, Any]:
        return dict(browser.get(f"/api/workflow/{workflow.name}").json()["groups"][0]["tasks"][0])

    assert (task()["pod_name"], task()["pod_ip"]) == (None, None)
    fake_harness.run_agent()
    assert (task()["pod_name"], task()["pod_ip"]) == (fake_harness.list_pods()[0]["metadata"]["name"], None)
    fake_harness.run_pods(*fake_harness.list_pods())
    fake_harness.run_agent()
    assert (task()["pod_ip"], task()["status"]) == ("10.0.0.7", "RUNNING")


def test_the_queue_shows_the_reason_of_the_scheduler(fake_harness: AgentHarness, browser: Client) -> None:
    fake_harness.submit(gpus=8)
    fake_harness.run_agent()
    assert entry(browser)["reason"]["code"] == "waiting_for_cluster"
    fake_harness.mark_unschedulable(
        fake_harness.list_pod_groups()[0],
        "NonPreemptibleOverQuota",
        "Non-preemptible workload is over quota",
        name="osmo-pool-osmo-team---shared",
        podGroupRequestedNonPreemptibleResources={"gpu": "8"},
        queueDeservedResources={"gpu": "100"},
        queueAllocatedNonPreemptibleResources={"gpu": "95"},
    )
    fake_harness.run_agent()
    found = entry(browser)
    assert found["reason"] == {
        "code": "over_quota",
        "message": "Non-preemptible workload is over quota",
        "short": "Too little free quota",
        "queue": "osmo-pool-osmo-team--_shared",
        "limit": "quota",
        "requested": 8,
        "free": 5,
        "missing": 3,
    }
    assert found["unblock"] == [
        "Work on this queue ends, its quota grows, or the workflow is submitted with priority LOW."
    ]


def test_the_cluster_decides_about_free_capacity(fake_harness: AgentHarness, browser: Client) -> None:
    fake_harness.submit()
    fake_harness.run_agent()
    fake_harness.mark_unschedulable(
        fake_harness.list_pod_groups()[0], "PodSchedulingErrors", "no nodes with enough resources were found"
    )
    fake_harness.run_agent()
    found = entry(browser)
    assert (found["reason"]["code"], found["reason"]["requested"]) == ("no_room", None)
    assert found["reason"]["message"] == "no nodes with enough resources were found"
    assert found["reason"]["queue"] == "osmo-pool-osmo-team--_shared"


DATA = """workflow:
  name: job
  resources: {r: {gpu: 1}}
  tasks:
  - name: read
    image: ubuntu
    command: [sh]
    resource: r
    outputs: [{url: 's3://bucket/out'}]
  - name: train
    image: ubuntu
    command: [sh]
    resource: r
    inputs: [{task: read}]
"""


def test_a_submission_warns_that_data_is_not_moved(fake_harness: AgentHarness, browser: Client) -> None:
    body = {"file": DATA, "set_variables": [], "set_string_variables": []}
    for query in ("", "?dry_run=true", "?validation_only=true"):
        answer = browser.post(f"/api/pool/team/workflow{query}", body, "application/json")
        assert answer.status_code == 200, answer.content
        (warning,) = answer.json()["warnings"]
        assert warning.startswith("Data is not moved on cluster lab: the inputs and outputs of read, train are neither")


def test_without_inputs_and_outputs_there_is_no_warning(fake_harness: AgentHarness, browser: Client) -> None:
    assert fake_harness.submit().warnings == []
    world.make_pool("elsewhere", 4, on=world.make_backend())
    body = {"file": DATA, "set_variables": [], "set_string_variables": []}
    answer = browser.post("/api/pool/elsewhere/workflow", body, "application/json")
    assert answer.json()["warnings"] == [], "a simulated backend runs nothing that could read"


def test_what_the_cluster_says_of_a_pod_is_the_reason(fake_harness: AgentHarness) -> None:
    """Where the PodGroup says nothing: a gate of another controller, or another scheduler."""
    workflow = fake_harness.submit()
    fake_harness.run_agent()
    said = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Held by a gate."}
    fake_harness.set_pod_status(*fake_harness.list_pods(workflow), phase="Pending", conditions=[said])
    fake_harness.run_agent()
    reason = find_group(workflow).waiting_reason
    assert reason is not None
    assert reason["message"] == "Held by a gate."
    fake_harness.run_pods(*fake_harness.list_pods(workflow))
    fake_harness.run_agent()
    assert find_group(workflow).waiting_reason is None
