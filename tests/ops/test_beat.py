"""Celery beat survives a restart of the database and of the broker."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.db import OperationalError
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler
from kombu.exceptions import OperationalError as BrokerError

from osmo_admin.celery import app
from osmo_admin.doctor.reports import Reporter
from osmo_admin.monitoring import heartbeat
from osmo_admin.monitoring.liveness import Liveness
from osmo_admin.processes import beat
from osmo_admin.processes.beat import RETRY_SECONDS, Scheduler
from scheduling.selectors.status.job_names import END_TEMPORARY_QUOTAS, FIND_SILENT
from scheduling.services.periodic_tasks import ensure_periodic_tasks
from tests.support.services import Services


@pytest.fixture(autouse=True)
def _not_a_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The signs of life and the ends by a signal of a process would go on after the test."""
    monkeypatch.setattr(Liveness, "start", lambda self: None)
    monkeypatch.setattr(Reporter, "start", lambda self: None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def scheduler(db: None, running_services: Services) -> Scheduler:
    heartbeat.redis_client.cache_clear()
    heartbeat.redis_client().delete("osmo:alive:beat")
    return Scheduler(app=app, lazy=True)


@pytest.mark.parametrize("problem", [OperationalError("gone"), BrokerError("gone")], ids=["database", "broker"])
def test_it_waits_and_retries(scheduler: Scheduler, problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> float:
        raise problem

    monkeypatch.setattr(DatabaseScheduler, "tick", fail)
    assert scheduler.tick() == RETRY_SECONDS
    assert heartbeat.heartbeat_age(heartbeat.BEAT) is None
    monkeypatch.setattr(DatabaseScheduler, "tick", lambda self: 3.0)
    assert scheduler.tick() == 3.0
    assert heartbeat.heartbeat_age(heartbeat.BEAT) is not None


@pytest.mark.parametrize("problem", [OperationalError("gone"), BrokerError("gone")], ids=["database", "broker"])
def test_its_start_waits_too(scheduler: Scheduler, problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start in the moment of a restart of the database would end its process otherwise."""
    found: list[Any] = [problem, problem, None]
    waits: list[float] = []

    def setup(self: Any) -> None:
        if (each := found.pop(0)) is not None:
            raise each

    monkeypatch.setattr(DatabaseScheduler, "setup_schedule", setup)
    monkeypatch.setattr(beat, "time", SimpleNamespace(sleep=waits.append))
    Scheduler(app=app)
    assert (found, waits) == ([], [RETRY_SECONDS] * 2)


def test_its_heartbeat_is_renewed_before_it_expires(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseScheduler, "tick", lambda self: 3600.0)
    assert scheduler.tick() * 2 < heartbeat.LIFETIME_SECONDS


def test_a_defect_is_raised(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> float:
        raise KeyError("entry")

    monkeypatch.setattr(DatabaseScheduler, "tick", fail)
    with pytest.raises(KeyError):
        scheduler.tick()


@pytest.mark.django_db(transaction=True)
def test_no_job_deletes_results_that_no_task_leaves(running_services: Services) -> None:
    """Celery's own job, which beat of older versions stored."""
    every = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.DAYS)
    PeriodicTask.objects.create(name="celery.backend_cleanup", task="celery.backend_cleanup", interval=every)
    Scheduler(app=app).tick()
    assert not PeriodicTask.objects.filter(task__startswith="celery.").exists()


@pytest.mark.django_db(transaction=True)
def test_the_last_run_is_stored_with_every_run(running_services: Services) -> None:
    """The page of background jobs and the search for late jobs read the row; a run in memory would be minutes old."""
    ensure_periodic_tasks()
    long_ago = timezone.now() - timedelta(hours=1)
    PeriodicTask.objects.exclude(name=FIND_SILENT).update(enabled=False)
    PeriodicTask.objects.filter(name=FIND_SILENT).update(last_run_at=long_ago, total_run_count=0)
    scheduler = Scheduler(app=app)
    scheduler._last_sync = time.monotonic()  # as in a process that stored its rows a moment ago
    scheduler.tick()
    scheduler.tick()
    row = PeriodicTask.objects.get(name=FIND_SILENT)
    assert row.total_run_count == 1
    assert row.last_run_at is not None
    assert row.last_run_at > long_ago


@pytest.mark.django_db(transaction=True)
def test_jobs_run_on_after_the_clock_was_set_back(running_services: Services) -> None:
    """An hour of a wrong clock must not be an hour without reconciliation, ends of quotas and checks of sign-ons."""
    ensure_periodic_tasks()
    begin = timezone.now()
    PeriodicTask.objects.exclude(name__in=[FIND_SILENT, END_TEMPORARY_QUOTAS]).update(enabled=False)
    PeriodicTask.objects.update(last_run_at=begin, total_run_count=0)
    scheduler = Scheduler(app=app)

    def count_runs() -> list[int]:
        for _ in range(9):
            scheduler.tick()
        rows = PeriodicTask.objects.filter(enabled=True).order_by("name")
        return list(rows.values_list("total_run_count", flat=True))

    with time_machine.travel(begin + timedelta(hours=1), tick=False):
        assert count_runs() == [1, 1]
    with time_machine.travel(begin, tick=False):
        assert count_runs() == [1, 1]
    with time_machine.travel(begin + timedelta(seconds=16), tick=False):
        assert count_runs() == [2, 2]
    scheduler.close()
    PeriodicTask.objects.update(last_run_at=begin + timedelta(hours=1))
    scheduler = Scheduler(app=app)  # another beat takes over with rows of the wrong clock
    with time_machine.travel(begin + timedelta(seconds=32), tick=False):
        count_runs()
    with time_machine.travel(begin + timedelta(seconds=48), tick=False):
        assert count_runs() == [3, 3]
