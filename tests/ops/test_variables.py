"""Variables of the environment that nobody reads are named: by `check`, and by each process when it starts."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from osmo_admin import checks
from osmo_admin.env import SECTIONS
from osmo_admin.ops.programs import process_commands
from osmo_admin.variables import OTHERS, unknown_variables
from scripts.reference.client import render_reference
from scripts.reference.settings import render_settings
from tests.support import database
from tests.support.services import ROOT, Services
from tests.support.stack import SECRET_KEY
from tests.support.up import clean_env, run_osmo_admin

READ = settings.OSMO.read_variables
MISTYPED = "OSMO_LOCK_TIMEOUT is set, and nothing reads a variable of this name. Did you mean OSMO_LOCK_TIMEOUT_MS?"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("OSMO_LOCK_TIMEOUT", "Did you mean OSMO_LOCK_TIMEOUT_MS?"),
        ("OSMO_SECRETKEY", "Did you mean OSMO_SECRET_KEY?"),
        ("OSMO_SSO_NOBODY_ISSUER", "deploy/osmo-admin.env has all variables; remove it."),
        ("OSMO_XYZZY", "deploy/osmo-admin.env has all variables; remove it."),
    ],
)
def test_a_variable_that_nobody_reads_is_reported_with_the_nearest_one(name: str, advice: str) -> None:
    assert unknown_variables(READ, [name, "PATH"]) == [
        f"{name} is set, and nothing reads a variable of this name. {advice}"
    ]


def test_each_known_one_is_silent() -> None:
    assert unknown_variables(READ, {*READ, *OTHERS}) == []


def test_each_name_in_the_sources_is_known() -> None:
    found = set()
    for folder in ("osmo_admin", "pools", "scheduling", "client"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r'"(OSMO_[A-Z_]+[A-Z])"', path.read_text()))
    assert found - READ - OTHERS == set()


def test_the_page_has_each_known_one() -> None:
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("sign-on", "accounts"))
    pages += render_reference() + render_settings(SECTIONS)
    internal = {"OSMO_ADMIN_INSTALLATION", "OSMO_LOCAL_URL", "OSMO_PROCESS"}  # set by `up` for its own processes
    missing = {name for name in {*READ, *OTHERS} - internal if name.startswith("OSMO_") and name not in pages}
    assert missing == set()


def test_check_fails_with_it() -> None:
    usual = {"OSMO_SECRET_KEY": SECRET_KEY, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    answer = run_osmo_admin("check", env={**usual, "OSMO_LOCK_TIMEOUT": "5"})
    assert answer.returncode == 1
    assert MISTYPED in answer.stderr


def test_it_is_a_check_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSMO_LOCK_TIMEOUT", "5")
    assert MISTYPED in [message.msg for message in checks.check_variables(None)]


@pytest.fixture(scope="module")
def own_database(template: Services) -> Iterator[str]:
    """The address of a migrated database."""
    name = template.database_name("variables")
    database.copy_template(template, name)
    yield template.runtime_url(name)
    database.drop_database(template, name)


@pytest.mark.parametrize(
    "command",
    [
        process_commands.web_command("127.0.0.1", 1, workers=1),
        process_commands.worker_command(),
        process_commands.beat_command(),
        process_commands.clusters_command(),
    ],
    ids=["web", "worker", "beat", "clusters"],
)
def test_each_process_tells_it_once_when_it_starts(
    command: list[str], own_database: str, template: Services, tmp_path: Path
) -> None:
    env = {
        "OSMO_SECRET_KEY": SECRET_KEY, "DATABASE_URL": own_database,
        "REDIS_URL": template.redis_url(stack=True), "OSMO_LOCK_TIMEOUT": "5",
    }  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=clean_env(env), stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
    deadline = time.monotonic() + 40
    while MISTYPED not in log.read_text() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    process.terminate()
    process.wait(30)
    assert log.read_text().count(MISTYPED) == 1, log.read_text()
