"""A cluster with a recent heartbeat is ONLINE; after two minutes without one it is OFFLINE."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError
from django.utils import timezone

from pools.api.configuration.backends import backend_body
from pools.domain.changes.backends import PutBackend
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, Backend
from scheduling.kube.connection import errors, resource_kinds
from scheduling.models import ClusterState, Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.selectors.status.problems import cluster_problems
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.heartbeats import HEARTBEAT_LIFETIME, set_silent_offline
from scheduling.services.kubernetes.leased_loop import BackendRemoved
from tests.support.agent_harness import AgentHarness, kubernetes_backend
from tests.support.fake_cluster import FakeCluster
from tests.support.flaky_cluster import FlakyCluster
from tests.support.world import apply_change


def is_offline(harness: AgentHarness) -> bool:
    return Backend.objects.get(pk=harness.backend.pk).offline


def test_a_new_backend_is_offline_until_its_first_heartbeat(fake_harness: AgentHarness) -> None:
    assert set_silent_offline() == ["lab"]
    assert is_offline(fake_harness)
    fake_harness.run_agent(1)
    assert not is_offline(fake_harness)
    assert set_silent_offline() == []
    entries = AuditEntry.objects.filter(object="backend/lab", action="backend.updated").order_by("id")
    assert [entry.description for entry in entries] == [
        "the cluster has never answered",
        "the cluster answers",
    ]


def test_an_old_heartbeat_does_not_count(fake_harness: AgentHarness) -> None:
    fake_harness.run_agent(1)
    heard = timezone.now() - HEARTBEAT_LIFETIME
    ClusterState.objects.update(heartbeat_at=heard + timedelta(seconds=30))
    assert set_silent_offline() == []
    ClusterState.objects.update(heartbeat_at=heard - timedelta(seconds=1))
    assert set_silent_offline() == ["lab"]
    assert set_silent_offline() == []
    assert AuditEntry.objects.filter(object="backend/lab").latest("id").description == "no answer for 2 minutes"


def test_the_clocks_of_two_processes_may_differ(fake_harness: AgentHarness) -> None:
    """One writes that it has heard from the cluster, another judges how long ago."""
    for clock in (timedelta(hours=1), timedelta(hours=-1)):
        with time_machine.travel(timezone.now() - clock, tick=True):
            fake_harness.run_agent(1)
        with time_machine.travel(timezone.now() + clock, tick=True):
            assert set_silent_offline() == []
            assert [each.code for each in cluster_problems(SYSTEM)] == []


def test_a_cluster_that_does_not_answer_has_no_heartbeat(fake_harness: AgentHarness) -> None:
    flaky = FlakyCluster(fake_harness.cluster)
    agent = ClusterAgent(
        fake_harness.backend.pk, connect=lambda _: flaky, intervals=AgentIntervals(recount=0, heartbeat=0)
    )  # type: ignore[arg-type, return-value]
    agent.relist_and_reconcile()
    heard = ClusterState.objects.get().heartbeat_at
    assert heard is not None
    flaky.failure = lambda call, number: errors.Unauthorized("token expired", status=401)
    agent.relist_and_reconcile()
    state = ClusterState.objects.get()
    assert state.heartbeat_at == heard
    assert state.error.endswith("Send the cluster a new one. (token expired)")
    flaky.failure = lambda call, number: None
    agent._due.clear()
    agent.relist_and_reconcile()
    agent._due.clear()
    agent.relist_and_reconcile()
    state = ClusterState.objects.get()
    assert state.heartbeat_at is not None
    assert state.heartbeat_at > heard
    assert state.error == ""


def test_an_error_despite_a_heartbeat_is_shown(fake_harness: AgentHarness) -> None:
    bare = FakeCluster(
        served_kinds=[resource_kinds.NAMESPACE, resource_kinds.POD, resource_kinds.NODE], namespaces=["osmo"]
    )
    agent = ClusterAgent(fake_harness.backend.pk, connect=lambda _: bare, intervals=AgentIntervals(heartbeat=0))
    agent.relist_and_reconcile()
    state = ClusterState.objects.get()
    assert state.heartbeat_at is not None
    assert "PodGroup" in state.error


def test_an_unusable_credential_is_an_error_too(db: None) -> None:
    backend = kubernetes_backend("osmo")

    def connect(_: Backend) -> FakeCluster:
        raise errors.BadCredentials("The kubeconfig is not a YAML object.")

    ClusterAgent(backend.pk, connect=connect).relist_and_reconcile()
    state = ClusterState.objects.get()
    assert state.heartbeat_at is None
    assert "The kubeconfig is not a YAML object." in state.error


def test_the_agent_of_a_removed_backend_stops(fake_harness: AgentHarness) -> None:
    Backend.objects.create(name="simulated-one")
    for pk in (Backend.objects.get(name="simulated-one").pk, 10**9):
        with pytest.raises(BackendRemoved):
            ClusterAgent(pk, connect=lambda _: fake_harness.cluster).relist_and_reconcile()


class TestRequestedOffline:
    """An admin's request and the heartbeat are independent: a backend is OFFLINE if either says so."""

    @staticmethod
    def _request_offline(offline: bool) -> None:
        apply_change(PutBackend(name="lab", body={"offline": offline}))

    def test_silence_is_not_a_request(self, fake_harness: AgentHarness) -> None:
        """A body that is read and sent back unchanged changes nothing; a request that is withdrawn brings no dead
        cluster online."""
        set_silent_offline()
        shown = backend_body(Backend.objects.get(name="lab"))
        assert shown["offline"] is False
        self._request_offline(True)
        self._request_offline(shown["offline"])
        assert is_offline(fake_harness)
        fake_harness.run_agent(1)
        assert not is_offline(fake_harness)

    def test_pending_work_waits_and_running_work_continues(self, fake_harness: AgentHarness) -> None:
        runs = fake_harness.submit()
        fake_harness.run_agent()
        self._request_offline(True)
        fake_harness.agent._due.clear()
        waits = fake_harness.submit()
        fake_harness.run_pods(*fake_harness.list_pods(runs))
        fake_harness.run_agent()
        assert Workflow.objects.get(pk=runs.pk).status == "RUNNING"
        assert fake_harness.list_pods(waits) == []
        (entry,) = list_waiting_gangs(SYSTEM, limit=10)[0]
        assert entry.reason.code == "backend_offline"
        fake_harness.finish_pods(*fake_harness.list_pods(runs))
        fake_harness.run_agent()
        assert Workflow.objects.get(pk=runs.pk).status == "COMPLETED"
        self._request_offline(False)
        fake_harness.agent._due.clear()
        fake_harness.run_agent()
        assert len(fake_harness.list_pods(waits)) == 1

    def test_raw_sql_cannot_make_one_offline_that_is_shown_online(self, fake_harness: AgentHarness) -> None:
        with pytest.raises(IntegrityError, match="offline"):
            Backend.objects.filter(name="lab").update(offline_requested=True, offline=False)
