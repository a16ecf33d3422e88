"""A gang that waits although nothing may stop it is stored, reported and logged, until it no longer waits."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from pools.models import Backend
from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.domain.engine.rules.phases import Phases
from scheduling.domain.engine.rules.reservation import StartPolicy
from scheduling.models import BackendSchedulingState, StuckGroup
from scheduling.services.simulated.dirty import Scope
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from tests.integration.engine.conftest import Cluster
from tests.integration.engine.test_start_reservations import reserve_a_whole_node

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db: None) -> Cluster:
    """An empty node of 8, and two jobs that fit."""
    cluster = Cluster({"n1": 8}, {"team": {"": 8, "a": 4}})
    cluster.submit("one", "team", gpus=2)
    cluster.submit("two", "team--a", gpus=2)
    return cluster


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A defect of the engine: everything is held back, as if for a reservation. `undo` repairs it."""
    monkeypatch.setattr(StartPolicy, "begin_attempt", lambda *_, **__: False)
    return monkeypatch


def row_versions() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT group_id, ctid::text FROM scheduling_stuckgroup ORDER BY gang")
        return cursor.fetchall()


def test_a_stuck_gang_is_written_once(
    cluster: Cluster, defect: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert reconcile_backend(cluster.backend.pk) == {"steps": [], "settled": True}
    rows = StuckGroup.objects.order_by("gang")
    assert [(row.backend_id, row.gang, row.kind) for row in rows] == [
        (cluster.backend.pk, "one-1", StuckKind.IDLE_CLUSTER),
        (cluster.backend.pk, "two-1", StuckKind.IDLE_CLUSTER),
    ]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [
        f"gang {name} on backend sim is stuck (idle_cluster): nothing may stop it" for name in ("one-1", "two-1")
    ]
    versions = row_versions()
    reconcile_backend(cluster.backend.pk)
    assert row_versions() == versions, "a cycle that changes nothing writes nothing"
    caplog.clear()


def test_it_goes_when_the_gang_starts(cluster: Cluster, defect: pytest.MonkeyPatch) -> None:
    reconcile_backend(cluster.backend.pk)
    defect.undo()
    cluster.reconcile()
    cluster.assert_running("one", "two")
    assert not StuckGroup.objects.exists()


def test_it_goes_when_the_backend_is_offline(cluster: Cluster, defect: pytest.MonkeyPatch) -> None:
    reconcile_backend(cluster.backend.pk)
    Backend.objects.update(offline=True)
    reconcile_backend(cluster.backend.pk)
    assert not StuckGroup.objects.exists()


def test_the_periodic_full_cycle_finds_it(cluster: Cluster, defect: pytest.MonkeyPatch) -> None:
    """Also where no change has left a mark since the last full cycle."""
    reconcile_backend(cluster.backend.pk)
    StuckGroup.objects.all().delete()
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - timedelta(minutes=10))
    reconcile_backend(cluster.backend.pk, scope=Scope.TICK)
    assert StuckGroup.objects.count() == 2


def test_verification_names_it(cluster: Cluster, defect: pytest.MonkeyPatch) -> None:
    assert [str(each) for each in verify()] == [
        f"stuck: {name} waits although nothing runs on cluster sim, where it fits: this is a defect of the scheduler."
        for name in ("one-1", "two-1")
    ]
    Backend.objects.update(offline=True)
    assert verify() == []
    Backend.objects.update(offline=False)
    defect.undo()
    assert verify() == [], "the next cycle starts them"


def test_a_gang_whose_nodes_later_work_keeps_is_found(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the engine: LOW work that comes to reserved nodes is never preempted there."""
    cluster = reserve_a_whole_node()
    cluster.submit("guest", "b", "LOW", gpus=4)
    cluster.reconcile()
    cluster.end("firm")
    monkeypatch.setattr(Phases, "take_back", lambda _phases: False)
    reconcile_backend(cluster.backend.pk)
    assert [(row.gang, row.kind) for row in StuckGroup.objects.all()] == [("big-1", StuckKind.BEHIND_LATER_WORK)]
    message = (
        "big-1 waits although only LOW work that came later is on the nodes that are reserved for it on cluster sim: "
        "this is a defect of the scheduler."
    )
    assert [str(each) for each in verify()] == [f"stuck: {message}"]
    problems = cluster.get("/api/overview")["problems"]
    assert [(each["urgent"], each["message"]) for each in problems if each["code"] == "stuck_gang"] == [(True, message)]
    monkeypatch.undo()
    cluster.reconcile()
    cluster.assert_running("big")
    assert not StuckGroup.objects.exists()
