"""A queue that another client changes is put back at once, and the client cannot cause a storm of runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pools.domain.changes.subpools import ResizeSubpool
from pools.models import KubernetesSettings
from scheduling.kube.connection import errors
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.kube.informer import InformerTiming
from scheduling.models import QueueDrift
from scheduling.selectors.work.pending_manifests import ClusterContext
from scheduling.services import notifications
from scheduling.services.kubernetes import heartbeats
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.informers import ClusterInformers
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from tests.integration.kube.conftest import SyncHarness
from tests.integration.kube.test_queue_sync import pool, subpools
from tests.support.kube_server import with_a_real_one
from tests.support.world import apply_change

UNLIMITED = {"spec": {"resources": {"gpu": {"quota": -1}}}}


@pytest.fixture
def runs(lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The syncs that were requested; each is done at once."""
    requested: list[int] = []

    def enqueue(backend_id: int) -> None:
        requested.append(backend_id)
        sync_backend_queues(backend_id)

    monkeypatch.setattr(notifications, "enqueue_queue_sync", enqueue)
    return requested


@pytest.fixture
def step(lab: SyncHarness, runs: list[int]) -> Callable[[], None]:
    """One round of the agent, after the queues were synced once and all is known to it."""
    pool(lab)
    subpools(a=30)
    lab.sync()
    agent = ClusterAgent(lab.backend.pk, connect=lambda _: lab.cluster.cluster, intervals=AgentIntervals(recount=1000))
    agent.relist_and_reconcile()
    assert runs == []
    return agent.relist_and_reconcile


@pytest.mark.parametrize("change", ["quota", "label", "deleted"])
def test_a_foreign_change_starts_a_run_at_once(
    lab: SyncHarness, runs: list[int], step: Callable[[], None], change: str
) -> None:
    before = lab.queues()
    if change == "deleted":
        lab.cluster.cluster.delete(QUEUE, lab.name("team--a"))
    elif change == "label":
        lab.edit("team--a", {"metadata": {"labels": {"osmo.house": None}}})
    else:
        lab.edit("team--a", UNLIMITED)
    step()
    assert len(runs) == 1
    assert lab.queues() == before
    assert change != "quota" or QueueDrift.objects.get().author == "kim"
    step()
    step()
    assert len(runs) <= 1 + (change != "quota"), "our own repair is not a change by others"


def test_our_own_writes_and_the_status_of_kai_start_no_run(
    lab: SyncHarness, runs: list[int], step: Callable[[], None]
) -> None:
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=50))
    lab.sync()
    runs.clear()
    step()
    status = {"status": {"allocated": {"nvidia.com/gpu": "3"}}}
    lab.cluster.cluster.merge(QUEUE, lab.name("team--a"), status, field_manager="kai-scheduler", status=True)
    step()
    assert runs == []


def test_a_client_that_repeats_its_change_causes_few_runs(
    fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[float] = []
    clock = [1000.0]
    monkeypatch.setattr("scheduling.services.kubernetes.agent.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(notifications, "enqueue_queue_sync", lambda backend: requested.append(clock[0]))
    pool(fake_lab)
    fake_lab.sync()
    requested.clear()
    agent = ClusterAgent(
        fake_lab.backend.pk, connect=lambda _: fake_lab.cluster.cluster, intervals=AgentIntervals(recount=10**6)
    )
    agent.relist_and_reconcile()
    for number in range(75):  # a change every four seconds for five minutes
        clock[0] += 4
        fake_lab.edit("team---shared", {"spec": {"resources": {"gpu": {"quota": number + 1000}}}})
        agent.relist_and_reconcile()
    assert requested[0] == 1004
    assert 10 <= len(requested) <= 30
    clock[0] += 120
    fake_lab.edit("team---shared", UNLIMITED)
    agent.relist_and_reconcile()
    assert requested[-1] == clock[0], "after a quiet time a change is answered at once again"


def test_a_sync_that_is_off_is_not_started(fake_lab: SyncHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    pool(fake_lab)
    fake_lab.sync()
    KubernetesSettings.objects.update(sync_mode="off")
    requested: list[int] = []
    monkeypatch.setattr(notifications, "enqueue_queue_sync", requested.append)
    agent = ClusterAgent(fake_lab.backend.pk, connect=lambda _: fake_lab.cluster.cluster)
    agent.relist_and_reconcile()
    fake_lab.edit("team---shared", UNLIMITED)
    agent.relist_and_reconcile()
    assert requested == []


def test_without_the_right_to_watch_queues_the_rest_works(fake_lab: SyncHarness) -> None:
    class Narrow:
        def __getattr__(self, name: str) -> Any:
            return getattr(fake_lab.cluster.cluster, name)

        def list(self, kind: Any, **more: Any) -> Any:
            if kind == QUEUE:
                raise errors.AccessDenied("queues is forbidden", status=403)
            return fake_lab.cluster.cluster.list(kind, **more)

    pool(fake_lab)
    agent = ClusterAgent(fake_lab.backend.pk, connect=lambda _: Narrow())  # type: ignore[arg-type, return-value]
    agent.relist_and_reconcile()
    state = heartbeats.cluster_state(fake_lab.backend)
    state.refresh_from_db()
    assert (state.error, state.heartbeat_at is not None) == ("", True)


@pytest.fixture
def watching(lab: SyncHarness) -> Iterator[tuple[ClusterInformers, threading.Event]]:
    """Informers that follow the cluster, and the event by which they wake their agent."""
    pool(lab)
    lab.sync()
    woken, stop = threading.Event(), threading.Event()
    settings = KubernetesSettings.objects.get(backend=lab.backend)
    context = ClusterContext(lab.backend, settings, str(heartbeats.cluster_state(lab.backend).identity))
    informers = ClusterInformers(context, lambda: lab.cluster.cluster, woken.set, InformerTiming(watch_seconds=2))
    informers.start(stop, "test")
    end = time.monotonic() + 20
    while not all(each.has_synced for each in (informers.queues, informers.pods)) and time.monotonic() < end:
        time.sleep(0.05)
    yield informers, woken
    stop.set()


@with_a_real_one("kube_namespace")
def test_the_agent_hears_of_it_within_a_second(
    lab: SyncHarness, watching: tuple[ClusterInformers, threading.Event]
) -> None:
    informers, woken = watching
    assert informers.queues.has_synced
    time.sleep(1.1)  # another second than that of our own write, which the time of a write is rounded to
    woken.clear()
    lab.edit("team---shared", UNLIMITED)
    begun = time.monotonic()
    while not informers.queues_changed and time.monotonic() < begun + 10:
        woken.wait(0.05)
        woken.clear()
    assert informers.queues_changed
    assert time.monotonic() - begun < 5, "far below the 30 seconds of the regular run"
