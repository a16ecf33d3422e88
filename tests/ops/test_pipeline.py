"""The pipeline runs every quick check and every test, and reports each that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.services import ROOT

CHECKS = ["lint", "types", "imports", "words", "migrations", "openapi-check", "lock-check", "deploy-check"]


def run_pipeline(folder: Path, failing: list[str], *, tests: int, absent: str = "") -> subprocess.CompletedProcess[str]:
    """The script and the Makefile in a folder where the named checks fail and the tests end with this code."""
    provider = "tests/support/oidc_provider_npm"
    for path in (".ci", ".venv/bin", "bin", "scripts", f"{provider}/node_modules"):
        (folder / path).mkdir(parents=True)
    for path in ("Makefile", ".ci/run"):
        shutil.copy2(ROOT / path, folder / path)
    installed = (".venv/.installed-dev", ".venv/bin/helm", f"{provider}/node_modules/.package-lock.json")
    needed = ("pyproject.toml", "requirements-dev.lock", "scripts/get-helm", f"{provider}/package-lock.json")
    for path in (*needed, *installed):
        (folder / path).touch()
    (folder / absent).unlink() if absent else None
    refused = "|".join(failing) or "none"
    scripts = {
        ".ci/tools": "exit 0",
        "bin/make": f'[ "$2" = test ] && exec {shutil.which("make")} "$@"; '
        f'echo "output of $2"; case $2 in {refused}) exit 2;; esac',
        ".venv/bin/python": f'echo "tests: $@"; exit {tests}',
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTEST": "--chosen"}
    return subprocess.run(
        [folder / ".ci" / "run"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("failing", [[], ["types"], ["words"], ["types", "lock-check"]])
def test_a_failed_check_is_reported_and_fails_the_pipeline(tmp_path: Path, failing: list[str]) -> None:
    done = run_pipeline(tmp_path, failing, tests=0)
    lines = done.stdout.splitlines()
    assert [name for name in CHECKS if f"output of {name}" not in lines] == []
    ended = {line.split()[1].rstrip(":"): line.split()[2] for line in lines if line.endswith(" s)")}
    assert ended == {name: "FAILED" if name in failing else "ok" for name in CHECKS}
    assert lines[-1].startswith("tests: -m pytest -n 2"), "the tests run in any case"
    assert "--chosen" in lines[-1]
    summary = next(line for line in lines if line.startswith("::: FAILED before") or line.endswith("checks passed"))
    assert sorted(summary.partition("tests: ")[2].split()) == sorted(failing)
    assert done.returncode == (1 if failing else 0)


def test_failed_tests_fail_the_pipeline(tmp_path: Path) -> None:
    done = run_pipeline(tmp_path, [], tests=1)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "::: all quick checks passed" in lines
    assert lines[-1].startswith("tests: "), "pytest prints last, and not make"


def test_tests_that_cannot_begin_fail_the_pipeline(tmp_path: Path) -> None:
    done = run_pipeline(tmp_path, [], tests=0, absent="pyproject.toml")
    assert done.returncode == 1
    assert "tests: " not in done.stdout
