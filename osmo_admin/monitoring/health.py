"""Liveness and readiness probes, without a login.

`GET /health` → 200 `{"status": "OK"}` while the web process answers (restart it otherwise).
`GET /ready` → 200 or 503 (:class:`ReadyAnswer`; the status is OK or UNAVAILABLE): database,
migrations, Redis, worker and the secret key are required. Beat, clusters and events are reported, but not required:
without beat only periodic tasks pause, without clusters only Kubernetes backends, and events that an open transaction
holds back come later. A process that has the key of the database
but not yet the newest one is reported, but not required, so that a change of the key in steps stops nothing.
`restarts` names the processes that `osmo-admin up` had to start again. With a data directory the check
`disk` tells whether it has room; the other checks tell whether that keeps something from working.
`?only=database,redis` checks these alone, for a probe that must not depend on the rest.
Responses contain no addresses or error texts; those are in the log.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import NotRequired, TypedDict

import redis
import structlog
from django.apps import apps
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from osmo_admin.monitoring import heartbeat
from osmo_admin.ops.files.disk_space import describe_full_disk
from osmo_admin.ops.files.restarts import RestartAnswer, read_restarts
from pools.database.statements import execute_sql
from pools.models import SecretKeyCheck
from pools.security.sealing import find_reading_key, key_marks
from pools.selectors.audit_trail import seconds_held_back

HELD_BACK_SECONDS = 60.0
REQUIRED_CHECKS = ("database", "migrations", "redis", "worker", "secret_key")
log = structlog.get_logger(__name__)


class HealthAnswer(TypedDict):
    """A process that answers."""

    status: str


class CheckAnswer(TypedDict):
    """Whether a dependency works; the message is public."""

    ok: bool
    message: str


class ReadyAnswer(HealthAnswer):
    """Whether the installation can do its work."""

    checks: dict[str, CheckAnswer]
    restarts: NotRequired[dict[str, RestartAnswer]]


@never_cache
@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """Liveness of this process only."""
    body: HealthAnswer = {"status": "OK"}
    return JsonResponse(body)


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Readiness: every dependency is checked once, or only those that `?only=` names."""
    only = [name for name in request.GET.get("only", "").split(",") if name]
    known = _known_checks()
    if any(name not in known for name in only):
        message = f"only= names a check that is not known. Known are {', '.join(known)}."
        return JsonResponse({"status": "UNKNOWN", "message": message}, status=400)
    checks, failed = run_checks(only or known)
    ok = failed.isdisjoint(REQUIRED_CHECKS)
    body: ReadyAnswer = {"status": "OK" if ok else "UNAVAILABLE", "checks": checks}
    if settings.OSMO.data_dir is not None and (found := read_restarts(settings.OSMO.data_dir)):
        body["restarts"] = found
    return JsonResponse(body, status=200 if ok else 503)


def run_all_checks() -> tuple[dict[str, CheckAnswer], set[str]]:
    """The answer of each check, tried from this process, and the checks of what does not work at all."""
    return run_checks(_known_checks())


def run_checks(names: Iterable[str]) -> tuple[dict[str, CheckAnswer], set[str]]:
    """The answers of these checks, in the same form."""
    checks, failed = {}, set()
    known = _known_checks()
    for name in names:
        checks[name], is_serious = _run_check(name, known[name])
        if is_serious:
            failed.add(name)
    return checks, failed


def _known_checks() -> dict[str, Callable[[], str]]:
    return _CHECK_FUNCTIONS | ({"disk": _check_disk} if settings.OSMO.data_dir is not None else {})


class _NotReady(Exception):
    """A dependency answers that it is not ready; the message is public. `is_partial`: the rest works meanwhile."""

    def __init__(self, message: str, *, is_partial: bool = False) -> None:
        super().__init__(message)
        self.is_partial = is_partial


def _run_check(name: str, check: Callable[[], str]) -> tuple[CheckAnswer, bool]:
    """The answer of a check, and whether what it checks does not work at all."""
    try:
        return {"ok": True, "message": check()}, False
    except _NotReady as problem:
        return {"ok": False, "message": str(problem)}, not problem.is_partial
    except (DatabaseError, redis.RedisError) as problem:
        log.warning("not_ready", check=name, problem=str(problem))
        return {"ok": False, "message": "does not answer"}, True


def _check_database() -> str:
    execute_sql("SELECT 1")
    return "answers"


def _check_migrations() -> str:
    if missing := count_missing_migrations():
        raise _NotReady(f"{missing} not applied; run: osmo-admin manage migrate")
    return "all applied"


def count_missing_migrations() -> int:
    """The number of missing migrations. Zero is cached, because applied migrations stay applied."""
    if missing := _count_unapplied():
        _count_unapplied.cache_clear()
    return missing


@cache
def _count_unapplied() -> int:
    """Their modules are loaded only if a name is missing: they take 13 MB of each web process."""
    if _names_on_disk() <= MigrationRecorder(connection).applied_migrations().keys():
        return 0
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _names_on_disk() -> set[tuple[str, str]]:
    """`(app, name)` of each file with a migration. `migrate` records both a squashed one and those that it replaces."""
    found = set()
    for app in apps.get_app_configs():
        package, _ = MigrationLoader.migrations_module(app.label)
        if package is None:  # the application has no migrations
            continue
        try:
            folder = getattr(import_module(package), "__path__", [])  # a module `migrations` has no files
        except ModuleNotFoundError:
            continue
        found |= {(app.label, each.name) for each in pkgutil.iter_modules(folder) if each.name[0] not in "_~"}
    return found


def _check_redis() -> str:
    heartbeat.ping_redis()
    return "answers"


def _check_secret_key() -> str:
    """Whether every running process reads what is stored sealed, and what the others seal now."""
    sealed = SecretKeyCheck.objects.filter(pk=1).values_list("sealed", flat=True).first()
    key_of_database = None if sealed is None else find_reading_key(sealed)
    if sealed is not None and key_of_database is None:
        raise _NotReady("this web process has another OSMO_SECRET_KEY than the database")
    processes = heartbeat.registered_keys()
    others = [name for name, keys in processes.items() if key_of_database and key_of_database not in keys]
    if others:
        raise _NotReady(f"another OSMO_SECRET_KEY than the database: {', '.join(others)}")
    sealing = {key_marks()[0], *(keys[0] for keys in processes.values())}
    late = [name for name, keys in processes.items() if not sealing <= set(keys)]
    if late:
        raise _NotReady(f"the newest OSMO_SECRET_KEY is missing, restart with it: {', '.join(late)}", is_partial=True)
    return "the same in every process"


def _heartbeat_check(process: str) -> Callable[[], str]:
    def check_heartbeat() -> str:
        seconds = heartbeat.heartbeat_age(process)
        if seconds is None:
            raise _NotReady(f"no heartbeat for {heartbeat.LIFETIME_SECONDS} s")
        return f"heartbeat {seconds:.0f} s ago"

    return check_heartbeat


def _check_events() -> str:
    seconds = seconds_held_back()
    if seconds >= HELD_BACK_SECONDS:
        raise _NotReady(f"held back for {seconds:.0f} s by an open transaction; see docs/watching.md", is_partial=True)
    return "not held back"


def _check_disk() -> str:
    folder = settings.OSMO.data_dir
    if folder is not None and (full := describe_full_disk(folder)):
        raise _NotReady(full, is_partial=True)
    return "has room"


_CHECK_FUNCTIONS: dict[str, Callable[[], str]] = {
    "database": _check_database,
    "migrations": _check_migrations,
    "redis": _check_redis,
    "worker": _heartbeat_check(heartbeat.WORKER),
    "secret_key": _check_secret_key,
    "events": _check_events,
    "beat": _heartbeat_check(heartbeat.BEAT),
    "clusters": _heartbeat_check(heartbeat.CLUSTERS),
}
