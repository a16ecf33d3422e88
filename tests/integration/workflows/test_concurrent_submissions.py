"""Concurrent requests: the lock of a tree, simultaneous reconciliations, and requests during a reconciliation."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import Client

from pools.domain.errors import Busy
from pools.models import Backend, Pool
from scheduling import locking
from scheduling.models import Workflow
from scheduling.services import notifications
from scheduling.services.simulated import reconcile
from scheduling.services.simulated.dirty import Scope
from tests.support import world
from tests.support.world import sign_in, workflow_file


@pytest.fixture
def committed_team(transactional_db: None, settings: Any) -> Pool:
    """Pool `team` with 100 GPUs in committed data; a request waits only shortly for a lock."""
    settings.OSMO = dataclasses.replace(settings.OSMO, lock_timeout_ms=200)
    return world.make_pool("team", 100)


def client_of(name: str) -> Client:
    """A logged-in client."""
    return sign_in(name)


def test_a_busy_tree_is_a_503_with_the_time_of_a_retry(committed_team: Pool) -> None:
    world.make_user("alice", "osmo-team-user")
    client = client_of("alice")
    other = connections.create_connection("default")
    body = {"file": workflow_file()}
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM pools_pool WHERE id = %s FOR NO KEY UPDATE", [committed_team.pk])
        busy = client.post("/api/pool/team/workflow", body, content_type="application/json")
        cursor.execute("ROLLBACK")
    other.close()

    assert busy.status_code == 503
    assert int(busy.headers["Retry-After"]) >= 1
    assert busy.json()["error_code"] == "SERVER"
    assert not Workflow.objects.exists()
    assert client.post("/api/pool/team/workflow", body, content_type="application/json").status_code == 200


def test_a_busy_tree_does_not_delay_the_others(committed_team: Pool) -> None:
    alice = world.make_user(
        "alice",
        "osmo-team-user",
    )
    world.make_pool("other", 100, on=Backend.objects.get(name="sim"))
    bob = world.make_user("bob", "osmo-other-user")
    world.submit_workflow(alice, "team", 1, name="held")
    world.submit_workflow(bob, "other", 1, name="free")
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM pools_pool WHERE id = %s FOR NO KEY UPDATE", [committed_team.pk])
        with pytest.raises(Busy):
            reconcile.reconcile_backend(committed_team.backend_id)
        cursor.execute("ROLLBACK")
    other.close()
    assert dict(Workflow.objects.values_list("name", "status")) == {"held-1": "PENDING", "free-1": "RUNNING"}

    reconcile.reconcile_backend(committed_team.backend_id)
    assert set(Workflow.objects.values_list("status", flat=True)) == {"RUNNING"}


def test_a_request_during_a_reconciliation_is_done_after_it(
    committed_team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = iter([True, True, False])
    rounds: list[tuple[int | None, Scope]] = []
    monkeypatch.setattr(notifications, "is_reconcile_requested", lambda _: next(requested))

    def note_round(backend_id: int, scope: Scope) -> dict[str, Any]:
        rounds.append((backend_id, scope))
        return {"steps": ["start"], "settled": True}

    monkeypatch.setattr(reconcile, "reconcile_backend", note_round)
    reconcile.reconcile_while_requested(committed_team.backend_id, Scope.TICK)

    assert rounds == [(committed_team.backend_id, scope) for scope in (Scope.TICK, Scope.HINT, Scope.HINT)]


def test_during_another_reconciliation_nothing_is_done_and_the_request_stays(
    committed_team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_backends: list[int] = []
    monkeypatch.setattr(notifications, "reconcile_started", started_backends.append)
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [locking.CYCLE_LOCK_SPACE, committed_team.backend_id])
        reconcile.reconcile_while_requested(committed_team.backend_id)
        cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [locking.CYCLE_LOCK_SPACE, committed_team.backend_id])
    other.close()
    assert started_backends == []

    reconcile.reconcile_while_requested(committed_team.backend_id)
    assert started_backends == [committed_team.backend_id]


def test_a_reconciliation_inside_a_transaction_that_fails_leaves_nothing(committed_team: Pool) -> None:
    alice = world.make_user("alice", "osmo-team-user")
    world.submit_workflow(alice, "team", 1)
    with transaction.atomic():
        assert reconcile.reconcile_backend(committed_team.backend_id)["steps"]
        transaction.set_rollback(True)
    assert set(Workflow.objects.values_list("status", flat=True)) == {"PENDING"}
    assert reconcile.reconcile_backend(committed_team.backend_id)["steps"]
