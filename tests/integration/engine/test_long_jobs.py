"""One long piece of background work runs at a time, so that a worker process stays free for submissions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event

import pytest
from celery import current_app
from django.db import connections
from django.utils import timezone

from pools.models import Backend
from scheduling import tasks
from scheduling.domain.priorities import Priority
from scheduling.locking import LongWorkRuns, hold_long_work_turn
from scheduling.models import BackendSchedulingState, Workflow
from scheduling.services import task_names
from scheduling.services.simulated.dirty import MAX_STATE_AGE, Scope
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)

LONG_JOBS = (
    task_names.FORECAST_STARTS,
    task_names.NOTE_WAIT_CAUSES,
    task_names.CLOSE_USAGE_HOURS,
    task_names.FIND_CONDITIONS,
    task_names.SEND_NOTICES,
    task_names.SAMPLE_GPU_USAGE,
    task_names.FORGET_KEYS,
    task_names.FORGET_DECISIONS,
    task_names.FORGET_USAGE,
    task_names.FORGET_AUDIT,
    task_names.FORGET_NOTICES,
)


@contextmanager
def other_long_work() -> Iterator[None]:
    """Another process does long background work."""
    begun, over = Event(), Event()

    def work() -> None:
        with hold_long_work_turn():
            begun.set()
            assert over.wait(60)
        connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        assert begun.wait(60)
        try:
            yield
        finally:
            over.set()
            running.result(60)


@pytest.mark.parametrize("name", LONG_JOBS)
def test_a_long_job_waits_for_its_turn(name: str) -> None:
    task = current_app.tasks[name]
    with other_long_work(), pytest.raises(LongWorkRuns):
        task()
    task()


def test_a_job_that_waits_is_sent_again_until_its_message_expires() -> None:
    task = current_app.tasks[task_names.FORECAST_STARTS]
    assert (task.autoretry_for, task.max_retries) == ((LongWorkRuns,), None)
    assert task.default_retry_delay == tasks.LONG_JOB_RETRY_SECONDS


@pytest.fixture
def backend() -> Backend:
    """A reconciled backend with a free GPU, whose full cycle is due."""
    found = world.make_backend(nodes=1, gpus=4)
    world.make_pool("team", 4, on=found)
    world.submit_workflow(world.admin_actor(), "team", 3, name="old")
    reconcile_backend(found.pk)
    make_older(MAX_STATE_AGE)
    return found


def make_older(age: timedelta) -> None:
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - age)


def full_cycle_ran() -> bool:
    return BackendSchedulingState.objects.get().full_cycle_at > timezone.now() - MAX_STATE_AGE


def test_new_work_starts_while_the_full_cycle_waits_for_its_turn(backend: Backend) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    with other_long_work():
        reconcile_backend(backend.pk, scope=Scope.TICK)
    assert Workflow.objects.get(name="new-1").status == "RUNNING"
    assert not full_cycle_ran()
    reconcile_backend(backend.pk, scope=Scope.TICK)
    assert full_cycle_ran()


def test_a_late_full_cycle_does_not_wait(backend: Backend) -> None:
    """However much long work there is."""
    make_older(2 * MAX_STATE_AGE)
    with other_long_work():
        reconcile_backend(backend.pk, scope=Scope.TICK)
    assert full_cycle_ran()
