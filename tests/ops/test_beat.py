"""Celery beat survives a restart of the database and of the broker."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django_celery_beat.schedulers import DatabaseScheduler
from kombu.exceptions import OperationalError as BrokerError

from osmo_admin import heartbeat
from osmo_admin.beat import RETRY_SECONDS, Scheduler
from osmo_admin.celery import app
from tests.support.services import Services


@pytest.fixture
def scheduler(db: None, running_services: Services) -> Scheduler:
    heartbeat._redis_client.cache_clear()
    heartbeat._redis_client().delete("osmo:alive:beat")
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


def test_its_heartbeat_is_renewed_before_it_expires(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseScheduler, "tick", lambda self: 3600.0)
    assert scheduler.tick() * 2 < heartbeat.LIFETIME_SECONDS


def test_a_defect_is_raised(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> float:
        raise KeyError("entry")

    monkeypatch.setattr(DatabaseScheduler, "tick", fail)
    with pytest.raises(KeyError):
        scheduler.tick()
