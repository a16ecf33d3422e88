"""`osmo-admin doctor`: each check with a part missing, the reports of running processes, and what follows from them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from django.db import connection

from osmo_admin.cli.server_commands.doctor import print_findings
from osmo_admin.doctor import checks, diagnosis, reports
from osmo_admin.doctor.findings import Finding
from osmo_admin.doctor.reports import Report, Reporter, ask_processes, read_reports
from osmo_admin.monitoring import heartbeat
from osmo_admin.ops.files import certificates
from osmo_admin.provider_env import read_all_providers
from pools.models import Backend, KubernetesSettings
from pools.security.sealing import key_marks, seal
from tests.support.services import Services
from tests.support.stack import find_free_port

SECRET = "canary-4f1c-never-shown"


@pytest.fixture(autouse=True)
def _clean(running_services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No reports, and the connection of the test stays open."""
    monkeypatch.setattr(connection, "close", lambda: None)
    heartbeat.redis_client.cache_clear()
    heartbeat.redis_client().delete(reports.REPORTS, reports.REQUESTED)
    yield
    heartbeat.redis_client.cache_clear()
    heartbeat.redis_client().delete(reports.REPORTS, reports.REQUESTED)


def by_check(found: list[Finding]) -> dict[str, bool]:
    """Whether each check passes."""
    return {f"{finding.check} {finding.subject}".strip(): finding.ok for finding in found}


def problems(found: list[Finding]) -> list[Finding]:
    """The failed checks; each says what to do, and none has a secret."""
    failed = [finding for finding in found if not finding.ok]
    assert all(finding.advice and finding.message.endswith(".") for finding in failed)
    assert SECRET not in json.dumps([finding.as_json() for finding in found])
    return failed


def test_all_is_well(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE", 0.0)
    found = checks.run_checks("worker", all_of_them=True)
    assert problems(found) == []
    assert {"database", "migrations", "clock", "broker", "disk temporary files"} <= by_check(found).keys()


def test_a_lost_broker(settings: Any) -> None:
    settings.REDIS_URL = f"redis://:{SECRET}@127.0.0.1:{find_free_port()}/0"
    heartbeat.redis_client.cache_clear()
    (failed,) = problems(list(checks.check_broker()))
    assert failed.check == "broker"
    assert "REDIS_URL" in failed.advice


def test_a_lost_database_and_what_needs_it(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise connection.Database.OperationalError(f"password {SECRET} refused")

    with monkeypatch.context() as lost:
        lost.setattr(connection, "cursor", refuse)
        lost.setattr(checks, "DatabaseError", connection.Database.Error)
        (failed,) = problems(list(checks.check_database()))
    assert (failed.check, "DATABASE_URL" in failed.advice) == ("database", True)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ((0.0, 170_000, False), "clock"),
        ((None, 140_000, False), "database version"),
        ((None, 170_000, True), "database role"),
    ],
)
def test_what_a_database_tells_about_itself(
    answer: tuple[float | None, int, bool], name: str, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cursor:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def execute(self, *_: object) -> None:
            return None

        def fetchone(self) -> tuple[float, int, bool]:
            return (time.time() if answer[0] is None else answer[0], *answer[1:])

    with monkeypatch.context() as other:
        other.setattr(checks, "count_missing_migrations", lambda: 0)
        other.setattr(connection, "cursor", Cursor)
        (failed,) = problems(list(checks.check_database()))
    assert f"{failed.check} {failed.subject}".strip() == name


def test_the_text_has_a_line_for_each_check_and_the_advice_below_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Finding("broker", "", False, "It does not answer.", "Start it.")
    print_findings([("here", Finding("clock", "", True, "It is right.")), ("web", wrong)])
    lines = [
        "here:",
        "  OK      clock: It is right.",
        "web:",
        "  PROBLEM broker: It does not answer.",
        " " * 10 + "Start it.",
    ]
    assert capsys.readouterr().out.splitlines() == lines


def test_missing_migrations(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "count_missing_migrations", lambda: 2)
    (failed,) = problems(list(checks.check_database()))
    assert failed.message == "2 migrations are not applied."
    assert failed.advice == "Run: osmo-admin manage migrate"


def _providers(port: int) -> tuple[Any, ...]:
    from environs import Env as Reader

    values = {
        "OSMO_SSO": "corp", "OSMO_SSO_CORP_ISSUER": f"http://127.0.0.1:{port}", "OSMO_SSO_CORP_CLIENT_ID": "osmo",
        "OSMO_SSO_CORP_CLIENT_SECRET": SECRET, "OSMO_SSO_CORP_ROLES": "a=osmo-admin", "OSMO_LDAP": "dir",
        "OSMO_LDAP_DIR_URLS": f"ldap://127.0.0.1:{port}", "OSMO_LDAP_DIR_BIND_DN": "cn=osmo,dc=x",
        "OSMO_LDAP_DIR_BIND_PASSWORD": SECRET, "OSMO_LDAP_DIR_USER_BASE": "dc=x", "OSMO_LDAP_DIR_GROUP_BASE": "dc=x",
        "OSMO_LDAP_DIR_ROLES": "a=osmo-admin",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        return read_all_providers(Reader())


def test_dead_providers_and_directories_are_named(settings: Any) -> None:
    settings.OSMO = replace(settings.OSMO, sign_on_providers=_providers(find_free_port()))
    failed = problems([*checks.check_providers(), *checks.check_directories()])
    assert [(each.check, each.subject) for each in failed] == [("provider", "corp"), ("directory", "dir")]
    assert "OSMO_SSO_CORP_ISSUER" in failed[0].advice
    assert "OSMO_LDAP_DIR_URLS" in failed[1].advice


@contextmanager
def mail_server(*, password: str) -> Iterator[int]:
    """A mail server that takes this password of everybody."""
    port = find_free_port()

    def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=data.password.decode() == password, handled=False)  # the server answers 535

    controller = Controller(
        object(), hostname="127.0.0.1", port=port, authenticator=authenticate, auth_require_tls=False
    )
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


def test_the_mail_server_is_greeted_and_sends_nothing(settings: Any) -> None:
    assert list(checks.check_mail()) == []
    with mail_server(password=SECRET) as port:
        settings.OSMO = replace(settings.OSMO, mail_url=f"mailto://osmo:{SECRET}@127.0.0.1:{port}?from=o@x.example")
        assert by_check(list(checks.check_mail())) == {"mail": True}
        settings.OSMO = replace(settings.OSMO, mail_url=f"mailto://osmo:{SECRET}x@127.0.0.1:{port}?from=o@x.example")
        (failed,) = problems(list(checks.check_mail()))
        assert failed.message == "The mail server refuses our login."
    (failed,) = problems(list(checks.check_mail()))
    assert failed.message.startswith("The mail server cannot be used (")


def test_a_cluster_that_does_not_answer(db: None) -> None:
    backend = Backend.objects.create(name="prod", namespace="prod", kind=Backend.Kind.KUBERNETES)
    cluster = {
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{find_free_port()}"}}],
        "users": [{"name": "a", "user": {"token": SECRET}}],
    }  # fmt: skip
    KubernetesSettings.objects.create(
        backend=backend, access=KubernetesSettings.Access.KUBECONFIG, sealed_kubeconfig=seal(json.dumps(cluster))
    )
    failed = problems(list(checks.check_clusters()))
    assert [(each.check, each.subject) for each in failed] == [("cluster", "prod")]


def test_a_full_disk_and_a_certificate_near_its_end(settings: Any, tmp_path: Path, monkeypatch: Any) -> None:
    settings.OSMO = replace(settings.OSMO, data_dir=tmp_path)
    monkeypatch.setattr(checks, "LEAST_FREE", 1.1)
    assert {each.subject for each in problems(list(checks.check_disks()))} == {"temporary files", "data directory"}
    assert list(checks.check_certificate()) == []
    long_ago = datetime.now(UTC) - timedelta(days=390)
    certificates.ensure_certificate(tmp_path / "webhook", {"localhost"}, now=long_ago)
    end = checks.webhook_certificate_end()
    assert end is not None
    (failed,) = [each for each in checks.check_certificate() if not each.ok] or [None]
    assert (failed is not None) == (end < datetime.now(UTC) + timedelta(days=checks.CERTIFICATE_DAYS))


def test_processes_are_asked_and_a_silent_one_is_named(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, bool]] = []

    def run(kind: str, *, all_of_them: bool) -> list[Finding]:
        calls.append((kind, all_of_them))
        return [Finding("broker", "", True, "It answers.")]

    monkeypatch.setattr(checks, "run_checks", run)
    client = heartbeat.redis_client()
    worker, beat = Reporter("worker"), Reporter("beat")
    beat._report = replace(beat._report, pid=4711)
    for each in (worker, beat):
        each.step(client)
    assert [report.kind for report in read_reports()] == ["beat", "worker"]
    assert calls == [("worker", False), ("beat", False)], "the slow checks only when somebody asks"
    stop = threading.Event()

    def answer() -> None:
        while not stop.wait(0.05):
            worker.step(client)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        found = {report.kind: report.findings for report in ask_processes(seconds=1)}
    finally:
        stop.set()
        thread.join()
    assert calls[2:] == [("worker", True)]
    assert [finding.ok for finding in found["worker"]] == [True]
    (silent,) = problems(list(found["beat"]))
    assert "has not answered within 1 s" in silent.message


def test_the_report_of_a_process_that_has_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "run_checks", lambda kind, *, all_of_them: [])
    Reporter("worker").step(heartbeat.redis_client())
    assert len(read_reports()) == 1
    monkeypatch.setattr(reports, "LIFETIME", -1.0)
    assert read_reports() == []
    assert heartbeat.redis_client().hlen(reports.REPORTS) == 0


def _report(kind: str, **changes: Any) -> Report:
    return replace(Report(kind, "a", 1, 0.0, diagnosis.__version__, tuple(key_marks())), **changes)


def test_what_follows_from_the_reports_together() -> None:
    right = [_report(kind) for kind in ("web", "worker", "beat")]
    assert problems(list(diagnosis.compare(right, has_clusters=False))) == []
    (missing,) = problems(list(diagnosis.compare(right, has_clusters=True)))
    assert (missing.check, missing.subject) == ("process", "clusters")
    odd = [*right, _report("beat", pid=2), _report("worker", host="b", version="0.0.9", key_marks=("other",))]
    found = {finding.check: finding.message for finding in problems(list(diagnosis.compare(odd, has_clusters=False)))}
    assert found == {
        "version": f"Other versions than here ({diagnosis.__version__}): worker of b (process 1) has 0.0.9.",
        "key": "Another secret key than here: worker of b (process 1).",
    }


def test_a_change_of_the_key_in_steps_is_no_problem(settings: Any) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 50, ["o" * 50]
    new, old = key_marks()
    reports = [_report(kind) for kind in ("web", "worker", "beat")]
    waiting = [*reports, _report("worker", pid=2, key_marks=(old, new)), _report("worker", pid=3, key_marks=(old,))]
    (failed,) = problems(list(diagnosis.compare(waiting, has_clusters=False)))
    assert failed.message == "Another secret key than here: worker of a (process 3)."


def test_without_a_broker_the_rest_is_still_found(db: None, settings: Any) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{find_free_port()}/0"
    heartbeat.redis_client.cache_clear()
    found = diagnosis.diagnose(seconds=1)
    assert not found.is_ok
    assert "The broker does not answer from here" in json.dumps(found.as_json())
    assert by_check([finding for _, finding in found.findings])["database"]


def test_stored_secrets_that_no_key_reads_are_named(db: None, settings: Any) -> None:
    backend = Backend.objects.create(name="prod", namespace="prod", kind=Backend.Kind.KUBERNETES)
    row = KubernetesSettings.objects.create(
        backend=backend, access=KubernetesSettings.Access.KUBECONFIG, sealed_kubeconfig=seal("kubeconfig")
    )
    assert problems(list(diagnosis._stored_secrets())) == []
    settings.SECRET_KEY = "another key " * 5
    (failed,) = problems(list(diagnosis._stored_secrets()))
    assert failed.subject.endswith(f" {row.pk}")
