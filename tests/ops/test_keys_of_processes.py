"""Each process ends with one sentence if its secret key is not that of the database, or can be guessed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from osmo_admin.ops.programs import process_commands
from pools.services.changes.secret_key import claim_database
from tests.support import database
from tests.support.services import ROOT, Services
from tests.support.stack import SECRET_KEY
from tests.support.up import clean_env, run_osmo_admin

OTHER_KEY = "another-key-of-many-characters-0123456789"
REFUSED = "OSMO_SECRET_KEY is not the key of this database"
# `serve worker`, `beat` and `clusters` become the programs below, which check by themselves.
SERVED = ["web", "prepare"]
PROGRAMS = {
    "worker": process_commands.worker_command(),
    "beat": process_commands.beat_command(),
    "clusters": process_commands.clusters_command(),
}


@pytest.fixture(scope="module")
def claimed(template: Services, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """The environment of processes on a database that has a key."""
    services = template
    name = services.database_name("keys")
    database.copy_template(services, name)
    with django_db_blocker.unblock(), database.use_database(services.database_url(name)):
        claim_database()
    yield {
        "DATABASE_URL": services.database_url(name), "REDIS_URL": services.redis_url(stack=True),
        "OSMO_SECRET_KEY": SECRET_KEY,
    }  # fmt: skip
    database.drop_database(services, name)


@pytest.mark.parametrize("process", SERVED)
def test_another_key_ends_it_with_one_sentence(process: str, claimed: dict[str, str]) -> None:
    answer = run_osmo_admin("serve", process, "--port", "1", env={**claimed, "OSMO_SECRET_KEY": OTHER_KEY})
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.startswith(REFUSED)
    assert OTHER_KEY not in answer.stdout + answer.stderr


def test_the_webhook_server_ends_too(claimed: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "webhook"
    folder.mkdir()
    from osmo_admin.ops.files.certificates import ensure_certificate

    ensure_certificate(folder, {"localhost"})
    env = {**claimed, "OSMO_SECRET_KEY": OTHER_KEY}
    answer = run_osmo_admin("serve", "webhook", "--port", "1", "--data-dir", tmp_path, env=env)
    assert (answer.returncode, answer.stderr[: len(REFUSED)]) == (1, REFUSED)


@pytest.mark.parametrize("process", SERVED)
def test_a_key_that_can_be_guessed_ends_it_with_one_sentence(process: str, claimed: dict[str, str]) -> None:
    answer = run_osmo_admin("serve", process, "--port", "1", env={**claimed, "OSMO_SECRET_KEY": "a" * 10})
    assert answer.returncode == 1
    (line,) = answer.stderr.splitlines()
    assert line.startswith("OSMO_SECRET_KEY can be guessed: it has 10 characters")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("key", ["short", OTHER_KEY])
def test_a_program_checks_too(program: str, key: str, claimed: dict[str, str]) -> None:
    answer = subprocess.run(
        PROGRAMS[program], env=clean_env({**claimed, "OSMO_SECRET_KEY": key}), capture_output=True, text=True,
        timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert answer.returncode == 1
    assert (REFUSED if key == OTHER_KEY else "OSMO_SECRET_KEY can be guessed: it has 5 characters") in answer.stderr
    assert "Traceback" not in answer.stdout + answer.stderr


def test_a_former_key_is_enough(claimed: dict[str, str]) -> None:
    env = {**claimed, "OSMO_SECRET_KEY": OTHER_KEY, "OSMO_SECRET_KEY_FALLBACKS": SECRET_KEY}
    assert run_osmo_admin("serve", "prepare", env=env).returncode == 0


def test_a_lost_key_is_replaced(template: Services, django_db_blocker: Any) -> None:
    services = template
    name = services.database_name("lost")
    database.copy_template(services, name)
    try:
        with django_db_blocker.unblock(), database.use_database(services.database_url(name)):
            claim_database()
        env = {
            "DATABASE_URL": services.database_url(name), "REDIS_URL": services.redis_url(stack=True),
            "OSMO_SECRET_KEY": OTHER_KEY, "PATH": os.environ["PATH"],
        }  # fmt: skip
        assert run_osmo_admin("serve", "prepare", env=env).returncode == 1
        answer = run_osmo_admin("key", "adopt", env=env)
        assert answer.returncode == 0, answer.stderr
        assert "0 stored secrets cannot be read" in answer.stdout
        assert run_osmo_admin("serve", "prepare", env=env).returncode == 0
    finally:
        database.drop_database(services, name)
