"""A cluster that is heard is ONLINE; one that is not heard for two minutes is OFFLINE, whoever was to hear it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from pools.api.backends import backend_body
from pools.domain.roles import SYSTEM
from pools.models import AuditEntry, Backend
from pools.services.backends import put_backend
from scheduling.kube import errors, kinds
from scheduling.kube.fake import Twin
from scheduling.models import ClusterState, Workflow
from scheduling.selectors.queue import waiting
from scheduling.services.kubernetes.agent import Agent, Retired, Rhythm
from scheduling.services.kubernetes.heartbeats import LIFETIME, find_silent
from tests.support.clusters import Room, kubernetes_backend
from tests.support.shaky import Shaky


def is_offline(room: Room) -> bool:
    return Backend.objects.get(pk=room.backend.pk).offline


def test_a_backend_nobody_has_met_is_offline_until_somebody_has(twin: Room) -> None:
    assert find_silent() == ["lab"]
    assert is_offline(twin)
    twin.look(1)
    assert not is_offline(twin)
    assert find_silent() == []
    told = AuditEntry.objects.filter(object="backend/lab", action="backend.updated").order_by("id")
    assert [entry.description for entry in told] == ["the cluster was not heard for 0:02:00", "the cluster answers"]


def test_an_old_heartbeat_is_none(twin: Room) -> None:
    twin.look(1)
    heard = timezone.now() - LIFETIME
    ClusterState.objects.update(heartbeat_at=heard + timedelta(seconds=30))
    assert find_silent() == []
    ClusterState.objects.update(heartbeat_at=heard - timedelta(seconds=1))
    assert find_silent() == ["lab"]
    assert find_silent() == []


def test_a_cluster_that_does_not_answer_has_no_heartbeat(twin: Room) -> None:
    shaky = Shaky(twin.cluster)
    agent = Agent(twin.backend.pk, connect=lambda _: shaky, rhythm=Rhythm(recount=0, heartbeat=0))  # type: ignore[arg-type, return-value]
    agent.look_now()
    heard = ClusterState.objects.get().heartbeat_at
    assert heard is not None
    shaky.trouble = lambda call, number: errors.Unauthorized("token expired", status=401)
    agent.look_now()
    state = ClusterState.objects.get()
    assert state.heartbeat_at == heard
    assert state.fault.endswith("Send the backend a new one. (token expired)")
    shaky.trouble = lambda call, number: None
    agent._due.clear()
    agent.look_now()
    agent._due.clear()
    agent.look_now()
    state = ClusterState.objects.get()
    assert state.heartbeat_at is not None
    assert state.heartbeat_at > heard
    assert state.fault == ""


def test_what_is_wrong_beside_the_answer_is_told(twin: Room) -> None:
    bare = Twin(serves=[kinds.NAMESPACE, kinds.POD, kinds.NODE], namespaces=["osmo"])
    agent = Agent(twin.backend.pk, connect=lambda _: bare, rhythm=Rhythm(heartbeat=0))
    agent.look_now()
    state = ClusterState.objects.get()
    assert state.heartbeat_at is not None
    assert "PodGroup" in state.fault


def test_a_credential_that_cannot_be_tried_is_a_fault_too(db: None) -> None:
    backend = kubernetes_backend("osmo")

    def connect(_: Backend) -> Twin:
        raise errors.BadCredentials("The kubeconfig is no YAML object.")

    Agent(backend.pk, connect=connect).look_now()
    state = ClusterState.objects.get()
    assert state.heartbeat_at is None
    assert "The kubeconfig is no YAML object." in state.fault


def test_the_agent_of_a_backend_that_is_gone_retires(twin: Room) -> None:
    Backend.objects.create(name="simulated-one")
    for pk in (Backend.objects.get(name="simulated-one").pk, 10**9):
        with pytest.raises(Retired):
            Agent(pk, connect=lambda _: twin.cluster).look_now()


class TestOfflineByWish:
    """What an admin wishes and what is heard are two things: a backend is OFFLINE if either says so."""

    @staticmethod
    def _wish(offline: bool) -> None:
        put_backend(actor=SYSTEM, name="lab", body={"offline": offline})

    def test_a_heartbeat_does_not_undo_it(self, twin: Room) -> None:
        twin.look(1)
        self._wish(True)
        twin.agent._due.clear()
        twin.look(1)
        assert is_offline(twin)
        self._wish(False)
        twin.agent._due.clear()
        twin.look(1)
        assert not is_offline(twin)

    def test_nor_does_taking_it_back_make_a_dead_cluster_heard(self, twin: Room) -> None:
        find_silent()
        self._wish(True)
        self._wish(False)
        assert is_offline(twin)

    def test_silence_is_nobodys_wish(self, twin: Room) -> None:
        """What was read and is put back unchanged stays what it was."""
        find_silent()
        shown = backend_body(Backend.objects.get(name="lab"))
        assert shown["offline"] is False
        self._wish(shown["offline"])
        twin.look(1)
        assert not is_offline(twin)

    def test_work_waits_and_what_is_there_goes_on(self, twin: Room) -> None:
        runs = twin.submit()
        twin.look()
        self._wish(True)
        twin.agent._due.clear()
        waits = twin.submit()
        twin.run(*twin.pods(runs))
        twin.look()
        assert Workflow.objects.get(pk=runs.pk).status == "RUNNING"
        assert twin.pods(waits) == []
        (entry,) = waiting(SYSTEM, limit=10)[0]
        assert entry.reason.code == "backend_offline"
        twin.finish(*twin.pods(runs))
        twin.look()
        assert Workflow.objects.get(pk=runs.pk).status == "COMPLETED"
        self._wish(False)
        twin.agent._due.clear()
        twin.look()
        assert len(twin.pods(waits)) == 1

    def test_raw_sql_cannot_make_one_offline_that_is_shown_online(self, twin: Room) -> None:
        with pytest.raises(IntegrityError, match="offline"):
            Backend.objects.filter(name="lab").update(kept_offline=True, offline=False)
