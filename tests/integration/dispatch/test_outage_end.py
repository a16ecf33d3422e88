"""The end of an outage ends every pause that began in it, of the loop that notices it and of all others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.informer import Informer, InformerTiming
from scheduling.models import QueueSync
from scheduling.services import notifications
from scheduling.services.gpu_quota.controller import GpuQuotaController
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from tests.support.agent_harness import AgentHarness
from tests.support.fake_cluster import FakeCluster
from tests.support.flaky_cluster import FlakyCluster
from tests.support.kube_server import wait_for


def is_down(call: str, number: int) -> BaseException | None:
    return errors.Unreachable("No connection in time.")


def is_up(call: str, number: int) -> BaseException | None:
    return None


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The notifications that were sent, in order."""
    sent: list[tuple[str, int]] = []

    def record(name: str) -> Callable[[int], None]:
        return lambda backend_id: sent.append((name, backend_id))

    for name in ("enqueue_queue_sync", "cluster_answers"):
        monkeypatch.setattr(notifications, name, record(name))
    return sent


def flaky_agent(harness: AgentHarness) -> tuple[FlakyCluster, ClusterAgent]:
    flaky = FlakyCluster(harness.cluster)
    intervals = AgentIntervals(recount=0, heartbeat=0)
    return flaky, ClusterAgent(harness.backend.pk, connect=lambda _: flaky, intervals=intervals)  # type: ignore[arg-type, return-value]


def test_the_agent_ends_the_pause_of_the_queue_sync(
    fake_harness: AgentHarness, messages: list[tuple[str, int]]
) -> None:
    """A change of quotas does not wait out a pause of minutes after the cluster is back."""
    flaky, agent = flaky_agent(fake_harness)
    agent.relist_and_reconcile()
    flaky.failure = is_down
    agent.relist_and_reconcile()
    backend, later = fake_harness.backend, timezone.now() + timedelta(minutes=5)
    QueueSync.objects.create(backend=backend, retry_at=later, failures=9, reason="Unreachable", synced="False")
    messages.clear()
    agent._due.clear()
    agent.relist_and_reconcile()
    assert QueueSync.objects.get().retry_at == later, "while the outage lasts"
    flaky.failure = is_up
    agent._due.clear()
    agent.relist_and_reconcile()
    assert QueueSync.objects.get().retry_at is None
    assert ("enqueue_queue_sync", backend.pk) in messages
    assert ("cluster_answers", backend.pk) in messages


def test_a_run_that_began_in_the_outage_does_not_pause_either(
    fake_harness: AgentHarness, messages: list[tuple[str, int]]
) -> None:
    """Its failure is recorded after the agent has heard the cluster: the next heartbeat ends that pause, too. A pause
    that the API server requested stays."""
    flaky, agent = flaky_agent(fake_harness)
    flaky.failure = is_down
    agent.relist_and_reconcile()
    flaky.failure = is_up
    agent._due.clear()
    agent.relist_and_reconcile()
    later = timezone.now() + timedelta(minutes=5)
    row = QueueSync.objects.create(backend=fake_harness.backend, retry_at=later, failures=1, reason="Unreachable")
    agent._due.clear()
    agent.relist_and_reconcile()
    row.refresh_from_db()
    assert row.retry_at is None
    QueueSync.objects.update(retry_at=later, reason="TooManyRequests")
    agent._due.clear()
    agent.relist_and_reconcile()
    row.refresh_from_db()
    assert row.retry_at == later


def test_the_queue_sync_tells_the_agent(
    fake_harness: AgentHarness, messages: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky = FlakyCluster(fake_harness.cluster, is_down)
    monkeypatch.setattr(connections, "connect", lambda _: flaky)
    assert sync_backend_queues(fake_harness.backend.pk, manual=True).reason == "Unreachable"
    assert messages == []
    flaky.failure = is_up
    assert sync_backend_queues(fake_harness.backend.pk, manual=True).synced == "True"
    assert messages == [("cluster_answers", fake_harness.backend.pk)]
    messages.clear()
    assert sync_backend_queues(fake_harness.backend.pk, manual=True).synced == "True"
    assert messages == []


def test_an_agent_that_gets_the_message_connects_at_once(fake_harness: AgentHarness) -> None:
    flaky, agent = flaky_agent(fake_harness)
    flaky.failure = is_down
    agent.relist_and_reconcile()
    flaky.failure = is_up
    agent._due["heartbeat"] = float("inf")  # as after a long outage
    agent.end_pauses()
    agent.reconcile(everything=False)
    assert agent._error is None


@pytest.mark.parametrize("make", [ClusterAgent, GpuQuotaController])
def test_a_loop_that_gets_the_message_follows_its_cluster_at_once(fake_harness: AgentHarness, make: Any) -> None:
    """Every informer of the loop gets the message."""
    loop = make(fake_harness.backend.pk, connect=lambda _: fake_harness.cluster)
    if make is ClusterAgent:
        loop.relist_and_reconcile()
        informers = loop._informers._all
    else:
        informers = (loop._quotas, loop._pods)
    loop.end_pauses()
    assert all(informer._retry.is_set() for informer in informers)


def test_an_informer_that_gets_the_message_ends_its_pause() -> None:
    """Its pause would last an hour."""
    flaky, stop = FlakyCluster(FakeCluster(), is_down), threading.Event()
    informer = Informer(
        resource_kinds.POD,
        connect=lambda: flaky,  # type: ignore[arg-type, return-value]
        key_of=lambda item: str(item["metadata"]["name"]),
        on_change=lambda key: None,
        timing=InformerTiming(watch_seconds=0.2, first_pause=3600, max_pause=3600),
    )
    thread = threading.Thread(target=informer.run, args=[stop], daemon=True)
    thread.start()
    try:
        wait_for(lambda: informer.error is not None)
        flaky.failure = is_up
        wait_for(lambda: informer.retry_now() or informer.has_synced)  # type: ignore[func-returns-value]
    finally:
        stop.set()
        thread.join(30)


def test_the_message_reaches_another_process() -> None:
    """Over the broker, like the messages that wake agents."""
    heard: list[tuple[str, int]] = []
    stop = threading.Event()
    arguments = [lambda pk: heard.append(("wake", pk)), lambda pk: heard.append(("answers", pk)), stop]
    thread = threading.Thread(target=notifications.listen_for_wakeups, args=arguments, daemon=True)
    thread.start()
    try:
        wait_for(lambda: notifications.cluster_answers(7) or ("answers", 7) in heard)  # type: ignore[func-returns-value]
        wait_for(lambda: notifications.wake_agent(8) or ("wake", 8) in heard)  # type: ignore[func-returns-value]
    finally:
        stop.set()
        thread.join(30)
    assert {each for each in heard if each[1] in (7, 8)} == {("answers", 7), ("wake", 8)}  # others: of an earlier test
