"""The output and the Events of pods, read from their cluster while an answer is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from scheduling.kube.connection import errors, resource_kinds
from scheduling.models import Task, Workflow
from scheduling.services.kubernetes import connections, pod_output
from tests.support.agent_harness import AgentHarness, gang_file
from tests.support.rbac_cluster import RbacCluster

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class WatchedCluster:
    """Passes calls on with only the rights of the manifests, and records what is open in the database meanwhile."""

    real: RbacCluster
    failure: errors.ClusterError | None = None
    open_transactions: list[bool] = field(default_factory=list)

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self.real, verb)

        def record(*arguments: Any, **options: Any) -> Any:
            self.open_transactions.append(connection.in_atomic_block)
            if self.failure is not None:
                raise self.failure
            return call(*arguments, **options)

        return record


@pytest.fixture
def cluster(fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> WatchedCluster:
    watched = WatchedCluster(RbacCluster(fake_harness.cluster, "osmo"))
    monkeypatch.setattr(connections, "connect", lambda _: watched)
    return watched


@pytest.fixture
def running(fake_harness: AgentHarness) -> Workflow:
    """A gang of `lead` and `other` that runs; `lead` has printed three lines."""
    workflow = fake_harness.submit(gang_file("lead", "other"))
    fake_harness.start_work(workflow)
    pod = fake_harness.find_pod(workflow, "lead")["metadata"]["name"]
    text = "epoch 1\r\nepoch 2 ä\nepoch 3".encode()
    fake_harness.cluster.print_log(pod, text, namespace="osmo", container="lead")  # type: ignore[attr-defined]
    return workflow


def read(browser: Client, workflow: Workflow, call: str = "logs", **query: str) -> list[str]:
    answer = browser.get(f"/api/workflow/{workflow.name}/{call}", query)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    return answer.getvalue().decode().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_the_log_has_the_output_of_every_task(browser: Client, cluster: WatchedCluster, running: Workflow) -> None:
    lines = read(browser, running)
    assert lines[-4:-1] == ["[lead] epoch 1", "[lead] epoch 2 ä", "[lead] epoch 3"]
    assert lines[-1].startswith("[other] The container has printed nothing yet")
    assert any(line.endswith("[lead] started on node ") for line in lines), "the recorded facts come first"


def test_only_the_last_lines_of_the_requested_task(browser: Client, cluster: WatchedCluster, running: Workflow) -> None:
    lines = read(browser, running, task_name="lead", last_n_lines="1")
    assert lines[-1] == "[lead] epoch 3"
    assert not any("epoch 2" in line or "[other]" in line for line in lines)


def test_a_deleted_pod_has_no_output_left(
    fake_harness: AgentHarness, browser: Client, cluster: WatchedCluster, running: Workflow
) -> None:
    fake_harness.force_delete_pod(fake_harness.find_pod(running, "lead"))
    assert "[lead] The cluster has deleted the pod, and its output with it." in read(browser, running)


def test_work_without_a_pod_asks_no_cluster(
    fake_harness: AgentHarness, browser: Client, cluster: WatchedCluster
) -> None:
    waiting = fake_harness.submit()
    assert read(browser, waiting)[-1].startswith("No pod of these tasks has been created")
    read(browser, waiting, "events")
    assert not cluster.open_transactions


def test_a_cluster_that_does_not_answer_is_named(browser: Client, cluster: WatchedCluster, running: Workflow) -> None:
    cluster.failure = errors.Unreachable("No connection in time.")
    assert "[lead] The output could not be read: The cluster does not answer" in "\n".join(read(browser, running))
    events = read(browser, running, "events")
    assert events[-1].startswith("Events of the cluster are missing: The cluster does not answer")
    assert len(events) > 2, "what is recorded is shown all the same"


def test_further_readers_are_asked_to_come_back(browser: Client, cluster: WatchedCluster, running: Workflow) -> None:
    outputs: list[Iterator[str]] = []
    for _ in range(pod_output.MAX_READERS):
        outputs.append(pod_output.read_output(running.root_pool.backend, list(Task.objects.all())))  # type: ignore[arg-type]
        next(outputs[-1])
    assert read(browser, running)[-1].startswith("Other people are reading from clusters at this moment")
    for each in outputs:
        each.close()  # type: ignore[attr-defined]
    assert "[lead] epoch 3" in read(browser, running)


@pytest.mark.parametrize("call", ["logs", "events"])
def test_no_transaction_is_open_while_the_cluster_is_asked(
    browser: Client, cluster: WatchedCluster, running: Workflow, call: str
) -> None:
    read(browser, running, call)
    assert cluster.open_transactions
    assert not any(cluster.open_transactions)


def test_events_of_the_cluster_are_among_ours(
    fake_harness: AgentHarness, browser: Client, cluster: WatchedCluster, running: Workflow
) -> None:
    pod = fake_harness.find_pod(running, "lead")["metadata"]["name"]
    group = fake_harness.list_pod_groups()[0]["metadata"]["name"]
    for number, (kind, about, reason, time) in enumerate(
        [("Pod", pod, "Pulled", "2099-01-01T00:00:01Z"), ("PodGroup", group, "NotReady", "2001-01-01T00:00:00Z"),
         ("Pod", "another", "Foreign", "2099-01-01T00:00:00Z")]
    ):  # fmt: skip
        body = {
            "metadata": {"name": f"e{number}", "namespace": "osmo"},
            "involvedObject": {"kind": kind, "name": about, "namespace": "osmo"},
            "reason": reason,
            "message": "pulled\nthe image",
            "count": number + 1,
            "lastTimestamp": time,
        }
        fake_harness.cluster.create(resource_kinds.EVENT, body, field_manager="kubelet")
    lines = read(browser, running, "events")
    assert lines[0] == "2001-01-01 00:00:00 [gang] NotReady: pulled the image (2 times)"
    assert lines[-1] == "2099-01-01 00:00:01 [lead] Pulled: pulled the image"
    assert not any("Foreign" in line for line in lines)
    assert read(browser, running, "events", task_name="lead", last_n_lines="1") == lines[-1:]
    assert not any("gang" in line for line in read(browser, running, "events", task_name="lead"))
