"""`osmo-admin` without a running server: fast help, and error messages instead of stack traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.ops.files.data_directory import DataDirectory
from osmo_admin.processes.operator_errors import error_message
from tests.support.services import ROOT
from tests.support.up import clean_env, run_osmo_admin, run_preloaded

NOT_RUNNING = "OSMO Admin is not running on {}. Start it with `osmo-admin up`"


def test_help_does_not_wait_for_django() -> None:
    script = (
        "import sys, osmo_admin.cli.server;"
        "slow = {'django', 'celery', 'psycopg', 'yaml', 'scheduling.history', 'scheduling.configuration'};"
        "print(slow & sys.modules.keys())"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT, env=clean_env({})
    )
    assert loaded.stdout.strip() == "set()"
    answer = run_osmo_admin("--help")
    assert {"up", "status", "down", "reset", "user", "token", "verify", "demo", "manage", "check"} <= {
        line.split()[0] for line in answer.stdout.splitlines() if line.startswith("  ") and line.strip()
    }


@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["demo"],
        ["user", "create", "ann"],
        ["user", "list"],
        ["user", "set-password", "ann"],
        ["user", "roles", "ann"],
        ["user", "disable", "ann"],
        ["user", "enable", "ann"],
        ["token", "create", "ann", "t"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_without_a_server_the_start_command_is_named(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    answer = CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "none")])
    assert answer.exit_code == 1
    assert NOT_RUNNING.format(tmp_path / "none") in answer.stderr


def test_a_refusal_is_an_error_message(tmp_path: Path) -> None:
    answer = run_osmo_admin("verify", "--data-dir", tmp_path / "none")
    assert answer.returncode == 1
    assert NOT_RUNNING.format(tmp_path / "none") in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_database_that_does_not_answer_is_an_error_message(tmp_path: Path) -> None:
    answer = run_preloaded("verify", env={"DATABASE_URL": f"postgresql://osmo@/osmo?host={tmp_path}"})
    assert answer.returncode == 1
    assert answer.stderr.startswith("The database does not answer (")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"OSMO_LOCK_TIMEOUT_MS": "soon"}, "OSMO_LOCK_TIMEOUT_MS"),
        ({"DATABASE_URL": "mysql://localhost/osmo"}, "DATABASE_URL must be a postgresql:// address"),
    ],
    ids=["number", "database"],
)
def test_a_wrong_variable_is_named(env: dict[str, str], named: str, tmp_path: Path) -> None:
    answer = run_preloaded("check", "--data-dir", tmp_path, env=env)
    assert answer.returncode == 1
    assert named in answer.stderr
    assert "Traceback" not in answer.stderr


def test_check_names_mistakes_and_fails(tmp_path: Path) -> None:
    answer = run_osmo_admin("check", "--data-dir", tmp_path, env={"OSMO_PUBLIC_URL": "osmo.example"})
    assert answer.returncode == 1
    assert "osmo.E003" in answer.stderr


def test_manage_passes_everything_through(tmp_path: Path) -> None:
    answer = run_preloaded("manage", "showmigrations", "--help", "--data-dir", tmp_path)
    assert answer.returncode == 0
    assert "--plan" in answer.stdout


def test_reset_deletes_only_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    answer = run_osmo_admin("reset", "--yes", "--data-dir", tmp_path)
    assert (answer.returncode, "is not a data directory" in answer.stderr) == (1, True)
    assert (tmp_path / "letter.txt").exists()


def test_an_invalid_port_is_refused_with_the_range(tmp_path: Path) -> None:
    answer = run_osmo_admin("up", "--port", "70000", "--data-dir", tmp_path / "data")
    assert answer.returncode == 2
    assert "65535" in answer.stderr


def test_the_data_directory_of_another_user_is_an_error_message(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path / "data")
    data.prepare()
    message = error_message(PermissionError(1, "Operation not permitted", str(data.lock)))
    assert (
        message
        == f"You are not permitted to do this ({data.lock}). Run the command as the owner of the data directory."
    )
    assert error_message(KeyError("defect")) is None
