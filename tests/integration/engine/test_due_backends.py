"""The periodic task queues a reconciliation only for the backends on which it finds something to do, and one at a time:
the notification of a submission must not wait behind reconciliations of idle backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.utils import timezone

from pools.database.transactions import database_time
from pools.models import Backend, Node, Pool
from scheduling import tasks
from scheduling.domain.priorities import Priority
from scheduling.models import BackendSchedulingState, Group, Workflow
from scheduling.services.notifications import RECONCILE_TASK, broker
from scheduling.services.simulated.dirty import MAX_STATE_AGE, Scope
from scheduling.services.simulated.due_backends import due_backends
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def backends() -> list[Backend]:
    """Three reconciled backends, each with a pool `on-<backend>` in which one workflow runs and one waits."""
    found = [world.make_backend(name, nodes=1, gpus=4) for name in ("one", "two", "three")]
    for backend in found:
        pool = world.make_pool(f"on-{backend.name}", 4, on=backend)
        world.submit_workflow(world.admin_actor(), pool.name, 3, name=f"runs-{backend.name}")
        world.submit_workflow(world.admin_actor(), pool.name, 3, name=f"waits-{backend.name}")
        reconcile_backend(backend.pk)
    return found


def due_names() -> list[str]:
    """The names of the backends that are due, in order."""
    names = dict(Backend.objects.values_list("pk", "name"))
    return [names[pk] for pk in due_backends(database_time())]


def set_due(workflow: str) -> None:
    """The gang of this workflow is due since now."""
    Group.objects.filter(workflow__name=workflow).update(due_at=timezone.now(), ends_at=timezone.now())


def submit_more() -> None:
    world.submit_workflow(world.admin_actor(), "on-two", 1, name="new", priority=Priority.LOW)


def add_node() -> None:
    Node.objects.create(backend=Backend.objects.get(name="two"), name="more", gpus=1)


def change_state(**values: Any) -> None:
    BackendSchedulingState.objects.filter(backend__name="two").update(**values)


CHANGES: dict[str, Callable[[], object]] = {
    "a submission": submit_more,
    "another change": add_node,
    "no state": lambda: BackendSchedulingState.objects.filter(backend__name="two").delete(),
    "an old state": lambda: change_state(full_cycle_at=timezone.now() - MAX_STATE_AGE),
    "a full cycle that is due": lambda: change_state(full_cycle_due=True, full_cycle_seconds=0),
    "work whose end is due": lambda: set_due("runs-two-1"),
    "work that waits for a change elsewhere": lambda: change_state(waits_for_external=True),
}


def test_a_backend_is_due_after(backends: list[Backend], django_assert_max_num_queries: Callable[..., Any]) -> None:
    now = database_time()
    with django_assert_max_num_queries(5):
        assert due_backends(now) == [], "three idle ones"
    for name, change in CHANGES.items():
        change()
        assert due_names() == ["two"], name
        reconcile_backend(backends[1].pk, scope=Scope.TICK)
        if name != "work that waits for a change elsewhere":  # the last one
            assert due_names() == [], name


def test_an_offline_backend_is_due_for_the_end_of_its_work_only(backends: list[Backend]) -> None:
    Backend.objects.filter(name="two").update(offline=True)
    add_node()
    assert due_names() == []
    set_due("runs-two-1")
    assert due_names() == ["two"]
    Backend.objects.filter(name="two").update(kind=Backend.Kind.KUBERNETES)
    assert due_names() == [], "work of a cluster is its agent's"


def test_the_least_recently_planned_comes_first(backends: list[Backend]) -> None:
    """So that none starves where the workers cannot follow."""
    for minutes, name in ((2, "one"), (3, "three"), (1, "two")):
        states = BackendSchedulingState.objects.filter(backend__name=name)
        states.update(full_cycle_at=timezone.now() - timedelta(minutes=minutes))
    BackendSchedulingState.objects.filter(backend__name="two").delete()
    assert due_names() == ["two", "three", "one"]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """The messages that were sent, in order; none of them runs."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(current_app, "send_task", lambda task, arguments, **_: found.append((task, *arguments)))
    broker.reset()
    yield found
    for key in broker.client.scan_iter("osmo:hint*"):
        broker.client.delete(key)


def test_one_message_waits_for_a_backend_however_many_ticks_pass(
    backends: list[Backend], sent: list[tuple[Any, ...]]
) -> None:
    """The queue of a slow worker would grow with every tick, and everybody's submissions would wait behind it."""
    submit_more()
    sent.clear()  # the notification of the submission
    for _ in range(5):
        tasks.reconcile_all_backends()
    assert sent == [(RECONCILE_TASK, backends[1].pk, Scope.TICK)]
    tasks.reconcile_simulated_backend(backends[1].pk, Scope.TICK)
    assert Workflow.objects.get(name="new-1").status == "RUNNING"
    tasks.reconcile_all_backends()
    assert len(sent) == 1  # idle again
    Pool.objects.filter(name="on-two").update(guarantee=3)
    tasks.reconcile_all_backends()
    assert len(sent) == 2
