"""`/health` and `/ready`: the responses while a part is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.test import Client

from osmo_admin.monitoring import health, heartbeat
from pools.domain.people.roles import SYSTEM
from pools.services.changes.secret_key import claim_database, seal_again
from tests.support.services import Services


@pytest.fixture
def heartbeats(running_services: Services) -> Iterator[None]:
    """Worker, beat and clusters have a current heartbeat."""
    heartbeat.redis_client.cache_clear()
    heartbeat.redis_client().flushdb()
    for process in (heartbeat.WORKER, heartbeat.BEAT, heartbeat.CLUSTERS):
        heartbeat.renew_heartbeat(process)
    yield
    heartbeat.redis_client().flushdb()
    heartbeat.redis_client.cache_clear()


def test_liveness_checks_no_dependency(client: Client) -> None:
    answer = client.get("/health")  # no database fixture: a query would raise
    assert (answer.status_code, answer.json()) == (200, {"status": "OK"})
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize("path", ["/health", "/ready", "/client/version"])
def test_probes_only_read(path: str) -> None:
    answer = Client(enforce_csrf_checks=True).post(path)
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD"), "without the page about an expired form"


def test_ready_when_everything_answers(db: None, heartbeats: None, client: Client) -> None:
    answer = client.get("/ready")
    assert answer.status_code == 200
    assert answer.json()["status"] == "OK"
    assert set(answer.json()["checks"]) == {
        "database", "migrations", "redis", "worker", "secret_key", "events", "beat", "clusters",
    }  # fmt: skip
    assert all(check["ok"] for check in answer.json()["checks"].values())


def test_only_the_named_checks_decide(
    db: None, heartbeats: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat.redis_client().delete("osmo:alive:worker")
    answer = client.get("/ready?only=database")
    assert answer.status_code == 200
    assert set(answer.json()["checks"]) == {"database"}
    assert client.get("/ready?only=database,worker").status_code == 503
    assert client.get("/ready?only=").status_code == 503, "without a name all of them"

    def refuse(*_: Any) -> None:
        raise OperationalError("no")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", refuse)
        assert client.get("/ready?only=database").status_code == 503


def test_an_unknown_check_is_refused_and_not_repeated(client: Client) -> None:
    answer = client.get("/ready?only=canary,database")
    assert answer.status_code == 400
    assert "canary" not in answer.content.decode()
    assert "database, migrations, redis" in answer.json()["message"]


@pytest.mark.parametrize(("process", "status"), [("worker", 503), ("beat", 200), ("clusters", 200)])
def test_a_silent_worker_makes_it_unready_a_silent_beat_is_reported(
    process: str, status: int, db: None, heartbeats: None, client: Client
) -> None:
    heartbeat.redis_client().delete(f"osmo:alive:{process}")
    answer = client.get("/ready")
    assert answer.status_code == status
    assert answer.json()["checks"][process] == {"ok": False, "message": "no heartbeat for 30 s"}


def test_a_missing_migration_makes_it_unready_until_it_is_applied(db: None, heartbeats: None, client: Client) -> None:
    health._count_unapplied.cache_clear()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["checks"]["migrations"]["message"] == "1 not applied; run: osmo-admin manage migrate"
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('sessions', '0001_initial', now())")
    assert client.get("/ready").status_code == 200


def test_the_modules_of_migrations_are_loaded_only_if_one_is_missing(
    db: None, heartbeats: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    health._count_unapplied.cache_clear()
    monkeypatch.setattr(MigrationLoader, "load_disk", lambda _: pytest.fail("the modules were loaded"))
    assert client.get("/ready").status_code == 200


def test_each_migration_on_disk_is_expected(db: None) -> None:
    assert health._names_on_disk() == set(
        MigrationLoader(None, ignore_no_migrations=True, replace_migrations=False).disk_migrations
    )


def test_a_missing_broker_is_named_without_its_address(
    db: None, client: Client, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    heartbeat.redis_client.cache_clear()
    with caplog.at_level(logging.WARNING):
        answer = client.get("/ready")
        heartbeat.renew_heartbeat("worker")  # a process without its broker continues
    heartbeat.redis_client.cache_clear()
    assert answer.status_code == 503
    assert answer.json()["checks"]["redis"] == {"ok": False, "message": "does not answer"}
    assert "nowhere" not in answer.content.decode()


def test_a_missing_database_is_named_without_its_address(
    db: None, heartbeats: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OperationalError("connection to 10.1.2.3 refused")

    monkeypatch.setitem(health._CHECK_FUNCTIONS, "database", refuse)
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["checks"]["database"] == {"ok": False, "message": "does not answer"}
    assert "10.1.2.3" not in answer.content.decode()


class TestSecretKeys:
    """`/ready` compares the keys of all processes that run."""

    KEY, OTHER = "the-key-of-the-database-0123456789abcdef", "another-key-of-many-characters-0123456789"

    @pytest.fixture(autouse=True)
    def claimed(self, db: None, heartbeats: None, settings: Any) -> None:
        heartbeat.redis_client().delete(*heartbeat.redis_client().keys("osmo:process*"))
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = self.KEY, []
        claim_database()
        heartbeat.renew_heartbeat(heartbeat.WORKER)

    def register(self, settings: Any, key: str, *former: str, host: str = "host7") -> None:
        """A process with these keys on another machine."""
        before = settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = key, list(former)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heartbeat.socket, "gethostname", lambda: host)
            heartbeat.renew_heartbeat(heartbeat.WORKER)
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = before

    def answer(self, client: Client) -> tuple[int, dict[str, Any]]:
        answer = client.get("/ready")
        return answer.status_code, answer.json()["checks"]["secret_key"]

    def test_one_key_is_ready(self, client: Client, settings: Any) -> None:
        self.register(settings, self.KEY)
        assert self.answer(client) == (200, {"ok": True, "message": "the same in every process"})

    def test_a_process_with_another_key_is_named(self, client: Client, settings: Any) -> None:
        self.register(settings, self.OTHER)
        status, check = self.answer(client)
        assert (status, check["ok"]) == (503, False)
        assert "another OSMO_SECRET_KEY than the database: worker on host7 (process " in check["message"]

    def test_a_web_process_with_another_key_says_so(self, client: Client, settings: Any) -> None:
        settings.SECRET_KEY = self.OTHER
        assert self.answer(client) == (
            503, {"ok": False, "message": "this web process has another OSMO_SECRET_KEY than the database"}
        )  # fmt: skip

    def test_a_change_in_steps_names_who_is_late_and_stops_nothing(self, client: Client, settings: Any) -> None:
        self.register(settings, self.OTHER, self.KEY)
        status, check = self.answer(client)
        assert (status, check["ok"]) == (200, False), "this process and its worker have the former key only"
        assert "the newest OSMO_SECRET_KEY is missing" in check["message"]
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = self.OTHER, [self.KEY]
        heartbeat.renew_heartbeat(heartbeat.WORKER)
        assert self.answer(client) == (200, {"ok": True, "message": "the same in every process"})
        seal_again(actor=SYSTEM)
        settings.SECRET_KEY_FALLBACKS = []
        assert self.answer(client)[1]["ok"]

    def test_a_process_that_ended_in_order_is_forgotten(self, client: Client, settings: Any) -> None:
        self.register(settings, self.OTHER)
        for name in heartbeat.registered_keys():
            heartbeat._forget(name)
        assert self.answer(client)[0] == 200
        assert heartbeat.registered_keys() == {}
