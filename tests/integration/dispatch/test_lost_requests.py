"""A request for background work whose task vanished (a worker killed, the broker purged) holds up no later request, and
an agent hears of work without a worker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import current_app

from pools.models import Backend
from scheduling.services import notifications
from scheduling.services.notifications import RECONCILE_TASK, broker
from scheduling.services.simulated import reconcile
from scheduling.services.simulated.dirty import Scope
from tests.support.agent_harness import kubernetes_backend
from tests.support.kube_server import wait_for

BACKEND = 4711


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Tasks that were sent, in order; none of them ever runs."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(current_app, "send_task", lambda task, arguments, **_: found.append((task, *arguments)))
    broker.reset()
    forget()
    yield found
    forget()


def forget() -> None:
    for key in broker.client.scan_iter("osmo:hint*"):
        broker.client.delete(key)


def test_requests_that_come_together_are_one_task(sent: list[tuple[str, int]]) -> None:
    for _ in range(20):
        notifications.enqueue_reconcile(BACKEND)
    assert sent == [(RECONCILE_TASK, BACKEND)]


def test_a_task_that_vanished_suppresses_later_requests_for_a_moment_only(sent: list[tuple[str, int]]) -> None:
    """For five seconds before, which a steady stream of requests from others prolonged without end while all workers
    waited for a hanging cluster. The time is the subject."""
    notifications.enqueue_reconcile(BACKEND)
    wait_for(lambda: notifications.enqueue_reconcile(BACKEND) or len(sent) > 1, seconds=3)  # type: ignore[func-returns-value]
    assert set(sent) == {(RECONCILE_TASK, BACKEND)}


def test_a_task_that_began_takes_the_request(sent: list[tuple[str, int]]) -> None:
    notifications.enqueue_reconcile(BACKEND)
    assert notifications.is_reconcile_requested(BACKEND)
    notifications.reconcile_started(BACKEND)
    assert not notifications.is_reconcile_requested(BACKEND)
    notifications.enqueue_reconcile(BACKEND)
    assert len(sent) == 2


def test_a_long_run_sees_the_request_that_came_meanwhile(sent: list[tuple[str, int]]) -> None:
    """Longer than the time in which requests are one task; the run asks for it at its end."""
    notifications.reconcile_started(BACKEND)
    notifications.enqueue_reconcile(BACKEND)
    assert broker.client.ttl(f"osmo:hint:{RECONCILE_TASK}:{BACKEND}") > 30


def test_reconciliations_that_are_requested_in_a_stream_take_turns(
    sent: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def end_of_interval(seconds: float) -> None:
        slept.append(seconds)
        forget()

    monkeypatch.setattr(time, "sleep", end_of_interval)
    notifications.await_reconcile_turn(BACKEND)
    notifications.await_reconcile_turn(BACKEND + 1)
    assert slept == []
    notifications.await_reconcile_turn(BACKEND)
    assert len(slept) == 1 and 0 < slept[0] <= 0.2
    monkeypatch.setattr(broker.client, "set", raise_connection_error)
    notifications.await_reconcile_turn(BACKEND)
    assert len(slept) == 1


def test_a_reconciliation_that_found_nothing_to_do_postpones_the_next_one(sent: list[tuple[Any, ...]]) -> None:
    """By a multiple of its duration; its task comes again once, and waits in no process of the worker."""
    notifications.postpone_reconcile(BACKEND, 0.01)
    assert not notifications.is_reconcile_postponed(BACKEND, Scope.HINT)
    notifications.postpone_reconcile(BACKEND, 0.2)
    notifications.postpone_reconcile(BACKEND + 1, 30)
    assert 700 < broker.client.pttl(f"osmo:hint-turn:{RECONCILE_TASK}:{BACKEND}") <= 800
    assert 900 < broker.client.pttl(f"osmo:hint-turn:{RECONCILE_TASK}:{BACKEND + 1}") <= 1000
    assert [notifications.is_reconcile_postponed(BACKEND, Scope.HINT) for _ in range(3)] == [True] * 3
    assert notifications.is_reconcile_postponed(BACKEND, Scope.TICK)
    assert sent == [(RECONCILE_TASK, BACKEND, Scope.HINT), (RECONCILE_TASK, BACKEND, Scope.TICK)]


def test_without_a_broker_no_reconciliation_is_postponed(
    sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    notifications.postpone_reconcile(BACKEND, 30)
    monkeypatch.setattr(broker.client, "pttl", raise_connection_error)
    monkeypatch.setattr(broker.client, "set", raise_connection_error)
    notifications.postpone_reconcile(BACKEND, 30)
    assert not notifications.is_reconcile_postponed(BACKEND, Scope.HINT)


@pytest.mark.parametrize(
    ("scope", "steps", "is_postponed"),
    [(Scope.HINT, [], True), (Scope.HINT, ["start"], False), (Scope.TICK, [], False)],
)
def test_only_a_notification_that_started_nothing_postpones_the_next(
    sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, scope: Scope, steps: list[str], is_postponed: bool
) -> None:
    """The reconciliation of the periodic task may be a full cycle, which takes seconds and says nothing of new work."""
    postponed: list[int] = []
    monkeypatch.setattr(notifications, "postpone_reconcile", lambda backend, _: postponed.append(backend))
    monkeypatch.setattr(reconcile, "reconcile_backend", lambda *_, **__: {"steps": steps, "settled": True})
    reconcile.reconcile_while_requested(BACKEND, scope)
    assert postponed == [BACKEND] * is_postponed


def test_a_postponed_reconciliation_does_not_begin(
    sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    notifications.postpone_reconcile(BACKEND, 30)
    begun: list[int] = []
    monkeypatch.setattr(reconcile, "reconcile_backend", lambda backend, **_: begun.append(backend))
    reconcile.reconcile_while_requested(BACKEND)
    assert (begun, sent) == ([], [(RECONCILE_TASK, BACKEND, Scope.HINT)])


def raise_connection_error(*_: Any, **__: Any) -> None:
    raise redis.ConnectionError("no broker")


def test_an_agent_is_woken_without_a_worker(
    db: None, sent: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the same request waits for workers that all hang."""
    backend: Backend = kubernetes_backend("osmo")
    woken: list[Any] = []
    monkeypatch.setattr(broker.client, "publish", lambda channel, pk: woken.append(pk))
    for _ in range(3):
        notifications.backends_changed([backend.pk])
    assert woken == [backend.pk] * 3
