"""The queue guard of a backend: the mode of its admission webhooks, the allowed accounts, and recorded bypasses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypedDict

from pools.database.statements import execute_sql
from pools.database.transactions import change
from pools.domain.changes.command import body_fields
from pools.domain.configuration.cluster_config import NODE_POOL_KEY
from pools.domain.configuration.version_check import check_version
from pools.domain.errors import Violation
from pools.domain.people.roles import Actor, Permission
from pools.locking import lock_backend
from pools.models import Backend, KubernetesSettings
from pools.permissions import require_platform
from pools.services.configuration.backends import get_backend
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.models import Bypass, QueueGuard

MAX_BYPASS_ROWS = 1000
"""Rows for one backend; the attempts of further callers are counted in one row without a name."""

_MAX_TEXT_LENGTH = 500


def queue_guard_for(backend: Backend) -> QueueGuard:
    """The guard of this backend, or the default."""
    return QueueGuard.objects.filter(backend=backend).first() or default_guard(backend)


def default_guard(backend: Backend) -> QueueGuard:
    """The guard of a backend without settings: it allows everything and records what `enforce` would refuse, because
    our own account in the cluster is not known before the installation."""
    return QueueGuard(backend=backend, mode=QueueGuard.Mode.AUDIT, version=0)


def shard_key_of(backend: Backend) -> str:
    """The label by which a shard of KAI selects its objects in this cluster."""
    found = KubernetesSettings.objects.filter(backend=backend).values_list("node_pool_key", flat=True).first()
    return found or NODE_POOL_KEY


def read_queue_guard(actor: Actor, backend: str) -> QueueGuard:
    """One backend's guard; needs the permission to read the platform."""
    require_platform(actor, Permission.PLATFORM_READ)
    return queue_guard_for(get_backend(backend))


def put_queue_guard(
    command: PutQueueGuard, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> QueueGuard:
    """Change mode, identity, accounts or strictness; what is None keeps its value. `osmo-admin` only.

    Raises NotFound, Forbidden, Stale.
    """
    require_platform(actor)
    with change(actor=actor, description=description):
        backend_row = get_backend(command.backend)
        lock_backend(backend_row.pk)
        row = queue_guard_for(backend_row)
        check_version(f"The webhook of cluster {command.backend}", expected_version, row.version)
        desired = {key: given for key in body_fields(PutQueueGuard) if (given := getattr(command, key)) is not None}
        if "accounts" in desired:
            desired["accounts"] = list(dict.fromkeys(desired["accounts"]))
        changed = {key: value for key, value in desired.items() if getattr(row, key) != value}
        if changed or row.pk is None:
            for key, value in changed.items():
                setattr(row, key, value)
            row.version += 1
            row.save()
        return row


class QueueGuardAnswer(TypedDict):
    """The settings of a backend's admission webhooks."""

    backend: str
    mode: Annotated[str, QueueGuard.Mode]
    identity: str
    accounts: list[str]
    strict_minimums: bool
    version: int


def queue_guard_body(row: QueueGuard) -> QueueGuardAnswer:
    """The guard as a body of the API."""
    return {
        "backend": row.backend.name,
        "mode": row.mode,
        "identity": row.identity,
        "accounts": row.accounts,
        "strict_minimums": row.strict_minimums,
        "version": row.version,
    }


def list_bypasses(actor: Actor, backend: str) -> tuple[Bypass, ...]:
    """The recorded attempts to bypass OSMO Admin, the latest first."""
    require_platform(actor, Permission.PLATFORM_READ)
    return tuple(Bypass.objects.filter(backend=get_backend(backend)))


class BypassAnswer(TypedDict):
    """The attempts of one caller to break one rule."""

    kind: str
    namespace: str
    username: str
    code: str
    object_name: str
    message: str
    tries: int
    refused: int
    first_at: datetime
    last_at: datetime


def bypass_body(row: Bypass) -> BypassAnswer:
    """A recorded bypass as a body of the API."""
    return {
        "kind": row.kind,
        "namespace": row.namespace,
        "username": row.username,
        "code": row.code,
        "object_name": row.object_name,
        "message": row.message,
        "tries": row.attempts,
        "refused": row.refused,
        "first_at": row.first_at,
        "last_at": row.last_at,
    }


def record_bypass(
    backend: Backend,
    *,
    kind: str,
    namespace: str,
    name: str,
    username: str,
    violations: Sequence[Violation],
    is_refused: bool,
) -> None:
    """Count an attempt in the row of its caller and rule. The ledger does not change, so there is no audit entry."""
    by_code = {violation.code: violation.message for violation in reversed(violations)}
    for code, message in sorted(by_code.items()):
        values = [_stored_text(kind), _stored_text(namespace), _stored_text(username), code]
        if not execute_sql(_HAS_ROW_OR_SPACE, [backend.pk, *values, backend.pk, MAX_BYPASS_ROWS]).fetchone()[0]:
            values = [values[0], "", "", code]
        execute_sql(_COUNT_ATTEMPT, [backend.pk, *values, _stored_text(name), _stored_text(message), int(is_refused)])


_HAS_ROW_OR_SPACE = """
    SELECT EXISTS (SELECT FROM scheduling_bypass
                   WHERE backend_id = %s AND kind = %s AND namespace = %s AND username = %s AND code = %s)
        OR (SELECT count(*) FROM scheduling_bypass WHERE backend_id = %s) < %s
"""
_COUNT_ATTEMPT = """
    INSERT INTO scheduling_bypass
        (backend_id, kind, namespace, username, code, object_name, message, attempts, refused, first_at, last_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s, 1, %s, now(), now())
    ON CONFLICT (backend_id, kind, namespace, username, code) DO UPDATE SET
        object_name = excluded.object_name, message = excluded.message, last_at = excluded.last_at,
        attempts = scheduling_bypass.attempts + 1, refused = scheduling_bypass.refused + excluded.refused
"""


def _stored_text(text: str) -> str:
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:_MAX_TEXT_LENGTH]
