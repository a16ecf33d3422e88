"""Running agents: in threads, woken by events, several at once, with databases and clusters that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from pools.models import Backend
from scheduling.kube.connection import errors
from scheduling.kube.informer import InformerTiming
from scheduling.models import ClusterState, Workflow
from scheduling.services.kubernetes import agent as agent_module
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.cluster_workers import ClusterWorkers
from scheduling.services.kubernetes.leases import LOOP_TIMING
from scheduling.services.verify import verify
from tests.support.agent_harness import AgentHarness, gang_file, kubernetes_backend
from tests.support.fake_cluster import FakeCluster
from tests.support.flaky_cluster import FlakyCluster
from tests.support.kube_server import wait_for
from tests.support.threads import run_concurrently, run_loops

QUICK = AgentIntervals(
    reconcile=0.2, recount=0.5, heartbeat=0.2, configuration=0.1, standby=0.1, debounce=0.0,
    informer_timing=InformerTiming(watch_seconds=0.3, relist_seconds=60, first_pause=0.01, max_pause=0.1),
)  # fmt: skip


@pytest.fixture
def harness(ledger: None) -> AgentHarness:
    """Committed rows, seen by every thread."""
    return AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")


@pytest.fixture(scope="module", autouse=True)
def late_thread() -> Iterator[None]:
    """A thread of an earlier test: an informer ends when its watch does, up to a minute later behind an API server that
    is frozen or silent. No test here may wait for it."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="cluster-0-pods", daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def agent_of(harness: AgentHarness, cluster: Any = None, intervals: AgentIntervals = QUICK) -> ClusterAgent:
    return ClusterAgent(harness.backend.pk, connect=lambda _: cluster or harness.cluster, intervals=intervals)


def wait_for_status(workflow: Workflow, status: str) -> None:
    def has_status() -> bool:
        workflow.refresh_from_db()
        return workflow.status == status

    wait_for(has_status, description=f"{workflow.name} is {status}")


def loops(*backends: int) -> int:
    """How many loops run that `ClusterWorkers` started for the backends with these ids."""
    names = [f"cluster-{backend}" for backend in backends]
    return sum(thread.name in names for thread in threading.enumerate())


def is_empty(harness: AgentHarness) -> bool:
    return not harness.list_pods() and not harness.list_pod_groups()


def run_to_end(harness: AgentHarness, workflow: Workflow, pods: int = 1) -> None:
    """Run the pods of a workflow to their end while the agents run."""
    wait_for(lambda: len(harness.list_pods(workflow)) == pods, description="all pods are created")
    harness.run_pods(*harness.list_pods(workflow))
    wait_for_status(workflow, "RUNNING")
    harness.finish_pods(*harness.list_pods(workflow))
    wait_for_status(workflow, "COMPLETED")
    wait_for(lambda: is_empty(harness), description="nothing is left behind")


def test_events_are_followed(harness: AgentHarness) -> None:
    with run_loops(agent_of(harness)):
        run_to_end(harness, harness.submit(gang_file("lead", "other")), pods=2)
        wait_for(lambda: not Backend.objects.get(pk=harness.backend.pk).offline)
    assert verify() == []


def test_one_agent_works_and_the_other_stands_by(harness: AgentHarness) -> None:
    first, second = FlakyCluster(harness.cluster), FlakyCluster(harness.cluster)
    with run_loops(agent_of(harness, first)) as (stop_first,):
        run_to_end(harness, harness.submit())
        with run_loops(agent_of(harness, second)):
            run_to_end(harness, harness.submit())
            assert not second.calls
            stop_first.set()
            run_to_end(harness, harness.submit())
            assert second.calls["create"]
    assert verify() == []


def test_the_lease_of_a_dead_agent_expires(harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = agent_of(harness)
    agent_module.heartbeats.cluster_state(harness.backend)
    dead._lease.claim()
    flaky = FlakyCluster(harness.cluster)
    with run_loops(agent_of(harness, flaky)):
        workflow = harness.submit()
        wait_for(lambda: ClusterState.objects.get().lease_holder is not None)
        assert not flaky.calls
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduling_clusterstate SET lease_expires_at = now() - interval '1 second'")
        run_to_end(harness, workflow)


def test_two_agents_without_a_lease_create_nothing_twice(harness: AgentHarness) -> None:
    """Without a lease both agents reconcile at the same time, many times, from submission to the end."""
    flaky = FlakyCluster(harness.cluster)
    two = [agent_of(harness, flaky), agent_of(harness, flaky)]
    workflows = [harness.submit(gang_file("lead", "other", name=f"job-{number}")) for number in range(6)]

    def reconcile_both() -> None:
        for outcome in run_concurrently([agent.relist_and_reconcile for agent in two]):
            assert outcome is None

    reconcile_both()
    harness.run_pods(*harness.list_pods())
    reconcile_both()
    harness.finish_pods(*harness.list_pods())
    for _ in range(3):
        reconcile_both()
    assert set(flaky.created.values()) == {1}
    assert len(flaky.created) == 6 * 3
    assert is_empty(harness)
    assert {Workflow.objects.get(pk=each.pk).status for each in workflows} == {"COMPLETED"}
    assert verify() == []


def test_an_agent_that_was_frozen_finds_its_lease_gone(harness: AgentHarness) -> None:
    """The agent continues in the middle of its work after another agent claimed its lease: it stops and stands by."""
    intervals = AgentIntervals(reconcile=0.1, standby=0.1, debounce=0.0, informer_timing=QUICK.informer_timing)
    frozen = agent_of(harness, intervals=intervals)
    frozen._lease.timing = replace(LOOP_TIMING, renew_after=0.0)
    with run_loops(frozen):
        wait_for(lambda: frozen._is_leased)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE scheduling_clusterstate"
                " SET lease_holder = gen_random_uuid(), lease_expires_at = now() + interval '1 hour'"
            )
        wait_for(lambda: not frozen._is_leased)
        workflow = harness.submit()
        frozen.wake()
        for _ in range(3):
            seen = frozen.last_alive_at
            wait_for(lambda seen=seen: frozen.last_alive_at > seen)  # type: ignore[misc]
        assert not harness.list_pods(workflow)


def test_an_agent_waits_for_a_lost_database(harness: AgentHarness) -> None:
    with run_loops(agent_of(harness)):
        run_to_end(harness, harness.submit())
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        run_to_end(harness, harness.submit())
    assert verify() == []


def test_a_fault_of_our_own_does_not_end_an_agent(harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = agent_module.diff_gangs, [3]

    def fail_at_first(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("a mistake of ours")
        return real(*args, **kwargs)

    monkeypatch.setattr(agent_module, "diff_gangs", fail_at_first)
    with run_loops(agent_of(harness)):
        run_to_end(harness, harness.submit())
    assert left == [0]


class SilentCluster:
    """A cluster whose calls all hang until the test is over."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.called = threading.Event()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> Any:
            self.called.set()
            self.over.wait(120)
            raise errors.Unreachable("No answer in time.")

        return call


def test_a_dead_cluster_delays_no_other(harness: AgentHarness) -> None:
    dead = kubernetes_backend("dead", name="dead")
    silent = SilentCluster()
    clusters: dict[int, Any] = {dead.pk: silent, harness.backend.pk: harness.cluster}
    agents = ClusterWorkers(
        lambda backend: ClusterAgent(backend, connect=lambda row: clusters[row.pk], intervals=QUICK)
    )
    try:
        agents.start_missing()
        wait_for(silent.called.is_set)
        run_to_end(harness, harness.submit())
        assert not silent.over.is_set()
        assert agents.are_alive
    finally:
        silent.over.set()
        agents.stop()
        wait_for(lambda: not loops(dead.pk, harness.backend.pk))


def test_backends_come_and_go(harness: AgentHarness) -> None:
    started: list[int] = []

    class Idle(ClusterAgent):
        def run(self, stop: threading.Event) -> None:
            started.append(self.backend_id)
            stop.wait(60)

    agents = ClusterWorkers(Idle)
    try:
        agents.start_missing()
        wait_for(lambda: started == [harness.backend.pk])
        more = kubernetes_backend("more", name="more")
        both = [harness.backend.pk, more.pk]
        agents.start_missing()
        agents.start_missing()
        wait_for(lambda: started == both)
        more.delete()
        agents.start_missing()
        wait_for(lambda: loops(*both) == 1)
    finally:
        agents.stop()
    wait_for(lambda: not loops(*both))


def test_an_agent_whose_thread_ended_is_started_again(harness: AgentHarness) -> None:
    started: list[int] = []

    class Mortal(ClusterAgent):
        def run(self, stop: threading.Event) -> None:
            started.append(self.backend_id)

    agents = ClusterWorkers(Mortal)
    agents.start_missing()
    wait_for(lambda: not loops(harness.backend.pk))
    agents.start_missing()
    wait_for(lambda: started == [harness.backend.pk] * 2)
    agents.stop()
