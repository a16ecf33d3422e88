"""The support bundle: one file with what somebody else needs to find a fault, without secrets.

Each part is made by itself. One that fails, because a server is missing for example, leaves a file that says so, and
the others are still made. Settings come from a list of what may be shown; every text goes through a
:class:`~osmo_admin.doctor.redaction.Redactor`.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import prometheus_client
from django.conf import settings
from django.core import checks as django_checks
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django_celery_beat.models import PeriodicTask
from prometheus_client import CollectorRegistry

from osmo_admin import __version__
from osmo_admin.doctor.diagnosis import diagnose
from osmo_admin.doctor.redaction import make_redactor
from osmo_admin.doctor.reports import read_reports
from osmo_admin.monitoring import health, heartbeat
from osmo_admin.monitoring.process_metrics import InstallationCollector
from osmo_admin.monitoring.work_metrics import WorkCollector
from osmo_admin.ops.files.restarts import read_restarts
from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.processes import read_tail
from pools.database.statements import execute_sql
from pools.models import Backend
from scheduling.models import ClusterState, QueueSync
from scheduling.services.verify import verify

LOG_LINES = 1000
# Settings that may be shown as they are: numbers, switches, words of a fixed list, and addresses without a login.
SHOWN = frozenset({
    "approval_hours", "audit_retention_days", "body_limit_mb", "body_timeout", "cluster_addresses",
    "cluster_calls_per_second", "db_pool_size", "debug", "decision_retention_days", "dev_login", "event_streams",
    "gateways", "idempotency_hours", "lock_timeout_ms", "log_format", "max_answer_bytes", "max_live_workflows",
    "max_login_failures", "max_notice_targets", "max_pods", "max_stored_answers", "max_stored_bytes",
    "max_submissions_per_minute", "max_tasks", "max_tokens", "metrics_public", "notice_addresses",
    "notice_retention_days", "password_login", "proxy_count", "reconcile_interval", "secure", "sign_on_check_interval",
    "sign_on_grace", "simulated_runtime", "sync_interval", "traces_share", "usage_retention_days",
})  # fmt: skip
# No queries: their texts have names and values of people.
_SESSIONS = """
    SELECT pid, usename AS role, application_name, client_addr::text AS address, state, wait_event_type, wait_event,
        extract(epoch FROM now() - xact_start)::int AS transaction_seconds,
        extract(epoch FROM now() - query_start)::int AS statement_seconds, pg_blocking_pids(pid) AS blocked_by
    FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY xact_start NULLS LAST
"""
_LOCKS = """
    SELECT pid, locktype, relation::regclass::text AS relation, mode, granted,
        extract(epoch FROM now() - waitstart)::int AS waits_seconds
    FROM pg_locks WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND pid <> pg_backend_pid() ORDER BY granted, pid LIMIT 500
"""
_TABLES = """
    SELECT relname AS name, n_live_tup AS rows, n_dead_tup AS dead_rows, pg_total_relation_size(relid) AS bytes,
        last_autovacuum, last_autoanalyze
    FROM pg_stat_user_tables ORDER BY bytes DESC LIMIT 40
"""

NEED_DATABASE = ("migrations.json", "database.json", "jobs.json", "clusters.json", "metrics.txt", "verify.txt")
_QUERIES = {"sessions": _SESSIONS, "locks": _LOCKS, "tables": _TABLES}

Part = tuple[str, Callable[[], str]]


def write_bundle(path: Path, *, data_dir: Path, logs: Sequence[Path], seconds: float) -> list[str]:
    """Write the bundle into a new file that only its owner can read. `logs` are further files whose last lines belong
    to it. Returns what is missing, each as a sentence. Raises OperationError if the file cannot be made."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        raise OperationError(
            f"{path} cannot be made: {problem.strerror}. Name a new file in a folder of yours."
        ) from problem
    redact = make_redactor()
    missing = [f"Not known: {each}." for each in redact.missing]
    folder = path.name.removesuffix(".tar.gz")
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, make in [*_parts(seconds), *_log_parts(data_dir, logs)]:
            try:
                # Each would wait five seconds for a connection again.
                text = _without_database() if redact.missing and name in NEED_DATABASE else make()
            except Exception as problem:  # noqa: BLE001  (whatever it is, the other parts are needed all the more)
                reason = redact(str(problem).strip().split("\n")[0][:300])
                text = f"This part is missing: {type(problem).__name__}: {reason}\n"
                missing.append(f"{name}: {type(problem).__name__}: {reason}")
                _add(archive, f"{folder}/{name}.missing.txt", text)
            else:
                _add(archive, f"{folder}/{name}", redact(text))
        has_logs = bool(logs or _own_logs(data_dir))
        _add(archive, f"{folder}/README.txt", redact(_readme(missing, has_logs=has_logs)))
    return missing


def _without_database() -> str:
    raise OperationError("the database does not answer")


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode(errors="replace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(content))


def _readme(missing: Sequence[str], *, has_logs: bool) -> str:
    lines = [
        f"Support bundle of OSMO Admin {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC.",
        "Secrets are replaced by [hidden]. Names of pools, people, workflows and machines are in it.",
        "Read it before you give it to somebody: a password that a program wrote into its log in a form of its own",
        "cannot be recognised.",
        "",
        *([] if has_logs else ["There are no log files here. In Kubernetes add them with --log:", _KUBECTL, ""]),
        "Missing:" if missing else "Nothing is missing.",
        *(f"  {each}" for each in missing),
    ]
    return "\n".join(lines) + "\n"


_KUBECTL = (
    "  kubectl logs --tail=1000 --prefix --all-containers -l app.kubernetes.io/name=osmo-admin > pods.log\n"
    "  osmo-admin support-bundle --log pods.log"
)


def _parts(seconds: float) -> Iterator[Part]:
    yield "versions.json", lambda: _json(_versions())
    yield "settings.json", lambda: _json(_settings())
    yield "check.txt", _check
    yield "doctor.json", lambda: _json(diagnose(seconds=seconds).as_json())
    yield "ready.json", lambda: _json(health.run_all_checks()[0])
    yield "processes.json", lambda: _json([_report(report) for report in read_reports()])
    yield "restarts.json", lambda: _json(read_restarts(settings.OSMO.data_dir) if settings.OSMO.data_dir else {})
    yield "queue.json", lambda: _json(_queue())
    yield "migrations.json", lambda: _json(_migrations())
    yield "database.json", lambda: _json({name: _rows(query) for name, query in _QUERIES.items()})
    yield "jobs.json", lambda: _json(_jobs())
    yield "clusters.json", lambda: _json(_clusters())
    yield "metrics.txt", _metrics
    yield "verify.txt", lambda: "\n".join(map(str, verify())) or "Verified: no difference."


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, cls=DjangoJSONEncoder) + "\n"


def _versions() -> dict[str, Any]:
    packages = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
    servers = {"postgresql": _or_error(lambda: _rows("SHOW server_version")), "broker": _or_error(_broker_version)}
    return {
        "osmo_admin": __version__, "python": sys.version, "system": platform.platform(), **servers,
        "packages": dict(sorted(packages.items())),
    }  # fmt: skip


def _broker_version() -> Any:
    facts: Any = heartbeat.redis_client().info()
    names = ("redis_version", "valkey_version", "used_memory_human", "maxmemory_human", "maxmemory_policy", "role")
    return {name: facts[name] for name in names if name in facts}


def _or_error(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as problem:  # noqa: BLE001  (one fact among others)
        return f"not known ({type(problem).__name__})"


def _settings() -> dict[str, Any]:
    env = settings.OSMO
    shown = {each.name: getattr(env, each.name) for each in fields(env) if each.name in SHOWN}
    hidden = {each.name: bool(getattr(env, each.name)) for each in fields(env) if each.name not in SHOWN}
    providers = [
        {"name": each.name, "kind": type(each).__name__, "sync": each.sync, "session_seconds": each.session_seconds}
        for each in env.sign_on_providers
    ]
    return {"shown": shown, "is_set": hidden, "providers": providers}


def _check() -> str:
    messages = django_checks.run_checks(include_deployment_checks=True)
    return "\n\n".join(map(str, messages)) or "No issue."


def _report(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in ("kind", "host", "pid", "started_at", "version", "facts")}


def _queue() -> dict[str, Any]:
    client: Any = heartbeat.redis_client()
    return {"waiting": client.llen("celery"), "not_acknowledged": client.hlen("unacked"), "keys": client.dbsize()}


def _migrations() -> dict[str, Any]:
    applied = sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations())
    return {"missing": health.count_missing_migrations(), "applied": applied}


def _rows(query: str) -> list[dict[str, Any]]:
    rows = execute_sql(query)
    names = [column[0] for column in rows.description]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _jobs() -> list[dict[str, Any]]:
    rows = PeriodicTask.objects.select_related("interval").order_by("name")
    return [
        {
            "name": row.name, "enabled": row.enabled, "every": str(row.interval), "last_run_at": row.last_run_at,
            "runs": row.total_run_count,
        }
        for row in rows
    ]  # fmt: skip


def _clusters() -> list[dict[str, Any]]:
    found = []
    for backend in Backend.objects.order_by("name"):
        state = ClusterState.objects.filter(backend=backend).values().first()
        sync = QueueSync.objects.filter(backend=backend).values().first()
        facts = {"name": backend.name, "kind": backend.kind, "offline": backend.offline}
        found.append(facts | {"state": state, "sync": sync})
    return found


def _metrics() -> str:
    registry = CollectorRegistry()
    registry.register(WorkCollector())
    registry.register(InstallationCollector())
    return prometheus_client.generate_latest(registry).decode()


def _own_logs(data_dir: Path) -> list[Path]:
    return sorted((data_dir / "logs").glob("*.log"))


def _log_parts(data_dir: Path, logs: Sequence[Path]) -> Iterator[Part]:
    named: Mapping[str, Path] = {f"logs/{path.name}": path for path in [*_own_logs(data_dir), *logs]}
    for name, path in named.items():
        yield name, lambda path=path: _tail(path)  # type: ignore[misc]


def _tail(path: Path) -> str:
    with path.open("rb"):  # raises the reason; the reader takes a missing file as an empty one
        return read_tail(path, LOG_LINES, most_bytes=4 * 1024 * 1024)
