"""`osmo-admin support-bundle`: everything is in it but secrets, also with parts missing."""

from __future__ import annotations

import base64
import json
import random
import tarfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from osmo_admin.doctor import bundle, redaction
from osmo_admin.doctor.redaction import HIDDEN, Redactor
from osmo_admin.env import Env
from osmo_admin.monitoring import heartbeat
from osmo_admin.ops.files.data_directory import DataDirectory
from pools.domain.changes.tokens import CreateToken
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, KubernetesSettings, NoticeTarget, SignOnIdentity, User
from pools.security.sealing import seal
from pools.services.people.access_tokens import create_token
from scheduling.models import Workflow
from tests.ops.test_doctor import _providers
from tests.support import world
from tests.support.services import Services
from tests.support.stack import find_free_port
from tests.support.up import run_preloaded


class Canaries:
    """Invented secrets, each different: a word of letters, so that only knowing it, or its place, can hide it."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def new(self) -> str:
        """Another one."""
        letters = "abcdefghijklmnopqrstuvwxyz"
        number = len(self.all)
        self.all.append("canary" + letters[number // 26] + letters[number % 26] + "yranac")
        return self.all[-1]


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture(autouse=True)
def _open(running_services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(connection, "close", lambda: None)  # the transaction of the test
    heartbeat.redis_client.cache_clear()
    yield
    heartbeat.redis_client.cache_clear()


def read(path: Path) -> dict[str, str]:
    """The files of a bundle by name."""
    with tarfile.open(path) as archive:
        return {
            name.partition("/")[2]: archive.extractfile(name).read().decode()  # type: ignore[union-attr]
            for name in archive.getnames()
        }


def write(folder: Path, **options: Any) -> tuple[dict[str, str], list[str]]:
    path = folder / "bundle.tar.gz"
    missing = bundle.write_bundle(path, data_dir=folder, logs=options.get("logs", []), seconds=1)
    assert path.stat().st_mode & 0o777 == 0o600
    return read(path), missing


def _plant_in_settings(canaries: Canaries, settings: Any) -> None:
    """A canary in every setting that is not shown, and in each part of an address that logs in."""
    new, before = canaries.new, settings.OSMO
    texts = {
        "secret_key": new(),
        "slack_token": f"xoxb-{new()}",
        "database_url": f"postgresql://osmo:{new()}@db.example/osmo?sslpassword={new()}",
        "owner_database_url": f"postgresql://owner:{new()}@db.example/osmo",
        "mail_url": f"mailtos://osmo:{new()}@127.0.0.1:1?from=osmo@x.example",
        "traces_url": f"https://u:{new()}@traces.example/v1",
    }
    harmless = {"public_url", "docs_url", "webhook_client_ca", "redis_url"}
    written = {each.name for each in fields(Env) if isinstance(getattr(before, each.name), str)}
    assert texts.keys() | harmless == written - bundle.SHOWN
    providers = [
        replace(each, **{name: new()})
        for each, name in zip(_providers(find_free_port()), ("client_secret", "bind_password"), strict=True)
    ]
    settings.OSMO = replace(before, **texts, sign_on_providers=tuple(providers), secret_key_fallbacks=[new()])


def _plant_in_database(canaries: Canaries) -> None:
    new = canaries.new
    backend = Backend.objects.create(name="prod", namespace="prod", kind=Backend.Kind.KUBERNETES)
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{find_free_port()}"}}],
        "users": [{"name": "a", "user": {"token": new(), "password": new(), "username": "osmo"}}],
    }  # fmt: skip
    KubernetesSettings.objects.create(
        backend=backend, access=KubernetesSettings.Access.KUBECONFIG, sealed_kubeconfig=seal(json.dumps(config))
    )
    world.make_pool("team", 100)
    world.make_user("bob", "osmo-team-user")
    bob = User.objects.get(username="bob")
    SignOnIdentity.objects.create(
        user=bob, provider="corp", issuer="https://idp.example", subject="1",
        refresh_token=seal(new()), id_token=seal(new()),
    )  # fmt: skip
    NoticeTarget.objects.create(
        name="chat", user=bob, channel="webhook", sealed_address=seal(f"https://hooks.example/{new()}"),
        shown_address="hooks.example", sealed_secret=seal(new()), kinds=[],
    )  # fmt: skip
    world.submit_workflow(bob.as_actor(), "team", gpus=1, name="job")
    with connection.cursor() as cursor:
        pod = json.dumps({"spec": {"containers": [{"env": [{"name": "A", "value": new()}]}]}})
        cursor.execute(
            "UPDATE scheduling_workflow SET env_vars = %s, spec = %s, template_spec = %s",
            [json.dumps({"PASS": new()}), f"environment: {{A: {new()}}}", pod],
        )
    assert Workflow.objects.get().env_vars


def test_no_secret_is_in_it(db: None, settings: Any, tmp_path: Path, canaries: Canaries) -> None:
    data = DataDirectory(tmp_path)
    data.logs.mkdir()
    _plant_in_settings(canaries, settings)
    settings.SECRET_KEY = settings.OSMO.secret_key * 2
    _plant_in_database(canaries)
    token = create_token(CreateToken(owner="bob", name="ci"), actor=SYSTEM)[1]
    known = list(canaries.all)
    typed = [
        f"2026-11-26 [info] login password={canaries.new()} user=bob",
        f'{{"event": "x", "api_key": "{canaries.new()}", "authorization": "Bearer {canaries.new()}"}}',
        f"GET https://user:{canaries.new()}@host.example/path?token={canaries.new()}",
        f"exchanged {token}",
    ]
    lines = [f"2026-11-26T10:00:00Z [warning] it said {secret} there" for secret in known] + typed
    lines.append(
        "2026-11-26T10:00:01Z [info] request_finished request_id=0b8a6f6e-5c3e-4d0a-9d0c-0d6a3f6c1a11 code=200"
    )
    (data.logs / "web.log").write_text("\n".join(["old line"] * 2000 + lines))
    (tmp_path / "pods.log").write_text("\n".join(lines))
    files, missing = write(tmp_path, logs=[tmp_path / "pods.log"])
    assert missing == []
    found = {(name, secret) for name, text in files.items() for secret in [*canaries.all, token] if secret in text}
    assert found == set()
    assert "0b8a6f6e-5c3e-4d0a-9d0c-0d6a3f6c1a11" in files["logs/web.log"], "the rest of a line stays"
    assert f"it said {HIDDEN} there" in files["logs/pods.log"]
    assert len(files["logs/web.log"].splitlines()) == bundle.LOG_LINES


def test_what_is_in_it(db: None, tmp_path: Path) -> None:
    files, missing = write(tmp_path)
    assert missing == []
    assert files.keys() == {
        "README.txt", "check.txt", "clusters.json", "database.json", "doctor.json", "jobs.json", "metrics.txt",
        "migrations.json", "processes.json", "queue.json", "ready.json", "restarts.json", "settings.json",
        "verify.txt", "versions.json",
    }  # fmt: skip
    assert json.loads(files["migrations.json"])["missing"] == 0
    assert json.loads(files["settings.json"])["shown"]["lock_timeout_ms"] > 0
    assert json.loads(files["database.json"]).keys() == {"sessions", "locks", "tables"}
    assert json.loads(files["versions.json"])["packages"]["Django"].startswith("5.2.")
    assert "kubectl logs --tail=1000" in files["README.txt"]


def test_a_setting_is_shown_by_choice_only() -> None:
    names = {each.name for each in fields(Env)}
    assert names > bundle.SHOWN
    secrets = {name for name in names if any(word in name for word in ("secret", "token", "url", "key", "provider"))}
    assert secrets & bundle.SHOWN == {"max_tokens"}


def test_without_database_and_broker_the_rest_is_written(settings: Any, tmp_path: Path, monkeypatch: Any) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{find_free_port()}/0"

    def refuse(*_: object) -> None:
        raise redaction.DatabaseError("connection refused")

    with monkeypatch.context() as lost:
        lost.setattr(connection, "cursor", refuse)
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "web.log").write_text("line\n")
        files, missing = write(tmp_path)
    assert {"versions.json", "settings.json", "check.txt", "doctor.json", "ready.json", "logs/web.log"} <= files.keys()
    assert {"migrations.json.missing.txt", "queue.json.missing.txt", "verify.txt.missing.txt"} <= files.keys()
    assert any(each.startswith("Not known: stored secrets") for each in missing)
    assert json.loads(files["ready.json"])["database"]["ok"] is False
    assert all(each in files["README.txt"] for each in ("Missing:", "queue.json"))


def test_an_existing_file_is_not_replaced(db: None, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_text("mine")
    ran = run_preloaded("support-bundle", tmp_path / "a.tar.gz", "--data-dir", tmp_path)
    assert (ran.returncode, (tmp_path / "a.tar.gz").read_text()) == (1, "mine")
    assert "File exists. Name a new file" in ran.stderr


@pytest.mark.parametrize(
    "text",
    [
        "alert OsmoIdleQuotaBesideWaitingWork since 10:00", "tests/login.py::TestManyNamesFromOneAddress",
        "robotics--export-7 vision-preprocess-4 language-train-3", "scheduling.services.notifications",
        "request_id=0b8a6f6e-5c3e-4d0a-9d0c-0d6a3f6c1a11 task_id=6d3f", "2026-11-26T12:37:45.929960Z",
        "/work/data/postgres/global/pg_internal.init", "osmo_promised_starts_overdue{backend=\"dgx\"} 2",
    ],
)  # fmt: skip
def test_ordinary_lines_stay(text: str) -> None:
    assert Redactor(())(text) == text


def test_each_token_is_hidden_wherever_its_dashes_stand() -> None:
    """4,000 drawn alike each time, three of them without a digit: of 100 tokens more than one has no twelve letters and
    digits in a row."""
    drawn = random.Random(26)
    tokens = [base64.urlsafe_b64encode(drawn.randbytes(32)).rstrip(b"=").decode() for _ in range(4_000)]
    assert any(not any(each.isdigit() for each in token) for token in tokens)
    text = Redactor(())("\n".join(f"exchanged {token}" for token in tokens))
    assert set(text.splitlines()) == {f"exchanged {HIDDEN}"}
