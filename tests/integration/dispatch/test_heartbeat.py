"""A cluster that is heard is ONLINE; one that is not heard for two minutes is OFFLINE, whoever was to hear it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.models import AuditEntry, Backend
from scheduling.kube import errors, kinds
from scheduling.kube.twin import Twin
from scheduling.models import ClusterState
from scheduling.services.agent import Agent, Retired, Rhythm
from scheduling.services.heartbeats import LIFETIME, find_silent
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
