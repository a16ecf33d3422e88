"""`-o csv` of every command that reads: one row of names, then as many values in each row, numbers and times plain."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from osmo_admin.cli.client import app

pytestmark = pytest.mark.acceptance

NO_ANSWER_OF_ROWS = {
    "login", "logout", "help", "mcp", "simulate", "replay", "podgroup validate", "podgroup plan", "usage export",
    "workflow logs", "workflow spec", "workflow validate", "workflow forecast", "config show", "quota rebuild",
    "quota fits", "quota show", "quota allocations", "approval show", "cohort show", "token roles", "notice test",
    "notice secret", "notice read", "notice replay", "pool subpool import",
}  # fmt: skip
"""Files, texts, and answers about one object that this test does not make."""
NUMBERS = re.compile(
    r"(gpus?|quota|used|total|cap|free|in_use|capacity|workflows|position|seconds|hours|bytes|_gi|nodes|attempts|"
    r"revision|weight|retry|lost)(_|$)"
)
NOT_NUMBERS = {"quota_until", "quotas", "description"}


def reading_commands() -> Iterator[str]:
    def walk(command: Any, path: str) -> Iterator[str]:
        children = getattr(command, "commands", {})
        if path and (not children or getattr(command, "invoke_without_command", False)):
            options = {name for each in command.params for name in each.opts}
            if "--dry-run" not in options:
                yield path
        for name, child in children.items():
            yield from walk(child, f"{path} {name}".strip())

    yield from walk(typer.main.get_command(app), "")


def test_every_command_that_reads_writes_csv(team: Any) -> None:
    pool = team(10)
    pool.osmo("pool", "subpool", "create", pool.name, "a", "--quota", "4")
    running, other = pool.start(2, "NORMAL"), pool.start(1, "LOW", to=f"{pool.name}--a")
    lost = pool.start(1, "NORMAL")
    make_rows(pool, lost)
    arguments = {
        "backend nodes": [pool.backend],
        "backend losses": [pool.backend],
        "backend promises": [pool.backend],
        "backend differences": [pool.backend],
        "workflow receipt": [lost],
        "pool list": ["--mode", "used"],
        "pool show": [pool.name],
        "pool subpool list": [pool.name],
        "pool subpool show": [pool.name, "a"],
        "resource info": ["n1"],
        "user get": [pool.user_name],
        "workflow list": ["--all-users"],
        "workflow query": [running],
        "workflow events": [running],
        "workflow compare": [running, other],
        "task list": ["--all-users", "--verbose"],
        "cohort tree": [],
    }
    login = {"OSMO_URL": pool.stack.base_url, "OSMO_TOKEN": pool.stack.access_token("root", "osmo-admin")}
    walked, faults, empty = 0, [], set()
    for command in sorted(set(reading_commands()) - NO_ANSWER_OF_ROWS):
        ran = CliRunner().invoke(app, [*command.split(), *arguments.get(command, []), "-o", "csv"], env=login)
        faults += [(command, fault) for fault in find_faults(ran)]
        walked += 1
        empty |= {command} if ran.stdout.count("\n") < 2 else set()
    assert faults == []
    assert walked > 20
    # Only an observed cluster has differences; `test_scheduler_differences.py` reads one as CSV.
    known = {"backend differences", "notice inbox", "notice list", "notice destinations"}
    assert empty <= known, "each other list has a row, whatever ran before"


def make_rows(pool: Any, lost: str) -> None:
    """Something to show in the lists: a wait, a lost attempt, an open approval, and objects of other kinds."""
    pool.submit(5, "NORMAL")
    pool.submit(4, "NORMAL")
    for options in (["--dry-run"], []):  # it gives its place to the last one
        pool.osmo("workflow", "cancel", lost, *options)  # by another person than its owner
    pool.put(f"cohort/{pool.stack.unique_name('cohort')}", {"parent": None})
    pool.put(f"gpu_quota/{pool.stack.unique_name('space')}", {"spec": {"total": {"requests": {"tflops": 100}}}})
    limited = pool.platform_admin.patch(f"/api/configs/pool/{pool.name}", json={"approval_above": 1})
    assert limited.status_code == 200, limited.text
    pool.osmo("pool", "subpool", "update", pool.name, "a", "--quota", "1", "--request-approval")
    root = pool.stack.client_for("root", "osmo-admin")
    saved = root.put("/api/profile/views/workflows/mine", json={"query": "status=RUNNING"})
    assert saved.status_code == 200, saved.text


def find_faults(ran: Result) -> Iterator[Any]:
    if ran.exit_code or not ran.stdout:
        yield f"exit code {ran.exit_code}: {ran.exception!r} {ran.output}" if ran.exit_code else "not even the names"
        return
    names, *rows = csv.reader(io.StringIO(ran.stdout))
    if len(set(names)) < len(names) or names != [re.sub(r"\W+", "_", name.lower()) for name in names]:
        yield names
    for row in rows:
        if len(row) != len(names):
            yield row
        yield from (pair for pair in zip(names, row, strict=False) if not is_plain(*pair))


def is_plain(name: str, value: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*", value):
        return datetime.fromisoformat(value).tzinfo is not None
    if NUMBERS.search(name) and name not in NOT_NUMBERS and value:
        return re.fullmatch(r"-?\d+(\.\d+)?", value) is not None  # not a sentence, not two numbers
    return True
