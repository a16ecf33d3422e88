"""A transaction that somebody leaves open: in another database of the server it delays nothing; in ours it delays
events, and that is visible (docs/watching.md, "Changes while they happen")."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client

from osmo_admin.monitoring import health
from osmo_admin.monitoring.work_metrics import _collect_events
from pools.api import events
from pools.database import open_transactions
from pools.selectors import audit_trail
from pools.selectors.audit_trail import seconds_held_back
from scheduling.models import UsageProgress
from scheduling.services.usage import close_hours
from tests.integration.identity.test_events import Stream, _users, uncommitted_user
from tests.support.kube_server import wait_for
from tests.support.threads import held_elsewhere
from tests.support.world import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "STREAM_SECONDS", 20.0)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(open_transactions, "PATIENCE_SECONDS", 0.1)


@pytest.fixture
def admin(ledger: None) -> str:
    make_user("root", "osmo-admin")
    return "root"


@contextmanager
def left_open(database: str | None = None) -> Iterator[None]:
    """A session, of another database unless ours is meant, that has written and does not end its transaction."""
    parameters: dict[str, Any] = connection.get_connection_params()
    if database is not None:
        parameters["dbname"] = database
    with psycopg.connect(**parameters) as session:
        session.execute("SELECT pg_current_xact_id()")
        yield
        session.rollback()


def test_a_stream_does_not_wait_for_another_database(admin: str) -> None:
    with left_open("postgres"):
        stream = Stream(admin)
        make_user("bob")
        assert "user/bob" in _users(stream.events("user/bob"))


def test_nothing_is_lost_or_out_of_order_meanwhile(admin: str) -> None:
    """A transaction of ours that is older than others is still waited for, while one of another database is open."""
    with left_open("postgres"):
        stream = Stream(admin)
        with held_elsewhere(uncommitted_user("slow")) as commit:
            make_user("quick")
            threading.Timer(1.0, commit).start()
            names = _users(stream.events("user/quick"))
    assert names[-2:] == ["user/slow", "user/quick"]


def test_only_transactions_elsewhere_are_left_out() -> None:
    with left_open("postgres"), left_open():
        time.sleep(0.2)  # as long as a transaction has to be open before anybody looks whose it is

        def is_ours_the_oldest() -> bool:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_current_xact_id()")
                cursor.execute("SELECT pg_current_snapshot()::text")
                snapshot = cursor.fetchone()[0]
            elsewhere = open_transactions.transactions_elsewhere(snapshot)
            running = {int(each) for each in snapshot.split(":")[2].split(",")}
            assert elsewhere
            assert running - elsewhere
            return open_transactions.oldest_open_transaction(snapshot) == min(running - elsewhere)

        # Other tests work in other databases of this server: one of their transactions that ends between the two looks
        # counts as one of ours at the second.
        assert wait_for(is_ours_the_oldest, seconds=30)


def test_entries_of_another_server_wait_for_none(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restore, entries may have numbers that this server has not reached."""
    monkeypatch.setattr(audit_trail, "current_snapshot", lambda: "3:3:")
    assert seconds_held_back() == 0


def test_one_of_ours_is_visible(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_for(lambda: seconds_held_back() == 0, seconds=30)
    with left_open():
        make_user("bob")
        time.sleep(0.3)
        assert 0.2 < seconds_held_back() < 30
        (metric,) = _collect_events()
        assert metric.samples[0].value > 0.2
        assert Client().get("/ready").json()["checks"]["events"] == {"ok": True, "message": "not held back"}
        monkeypatch.setattr(health, "HELD_BACK_SECONDS", 0.2)
        answer = Client().get("/ready").json()["checks"]["events"]
        assert not answer["ok"]
        assert "held back for" in answer["message"]
    assert wait_for(lambda: seconds_held_back() == 0, seconds=30)


@pytest.mark.parametrize(("database", "is_closed"), [("postgres", True), (None, False)], ids=["elsewhere", "ours"])
def test_hours_of_usage_wait_for_ours_only(ledger: None, database: str | None, is_closed: bool) -> None:
    close_hours()
    progress = UsageProgress.objects.get()
    with left_open(database):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()")
            cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
            progress.horizon = cursor.fetchone()[0]
        progress.closed_until -= timedelta(hours=2)
        progress.save()
        assert bool(close_hours()) == is_closed
    if not is_closed:
        assert close_hours() == 2
