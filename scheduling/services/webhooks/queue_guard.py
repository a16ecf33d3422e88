"""The queue guard of a backend: the mode of its admission webhooks, the allowed accounts, and recorded bypasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.db import connection

from pools.domain.cluster_config import NODE_POOL_KEY
from pools.domain.errors import BadInput, Violation
from pools.domain.roles import Actor, Permission
from pools.domain.version_check import check_version
from pools.locking import lock_backend
from pools.models import Backend, KubernetesSettings
from pools.permissions import require_platform
from pools.services.backends import get_backend
from pools.transactions import change
from scheduling.models import Bypass, QueueGuard

GUARD_MODES = tuple(QueueGuard.Mode.values)
MAX_ACCOUNTS = 200
MAX_ACCOUNT_LENGTH = 253
MAX_BYPASS_ROWS = 1000
"""Rows for one backend; the attempts of further callers are counted in one row without a name."""

GUARD_KEYS = ("mode", "identity", "accounts", "strict_minimums")
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
    *,
    actor: Actor,
    backend: str,
    body: Mapping[str, Any],
    description: str = "",
    expected_version: int | None = None,
) -> QueueGuard:
    """Change mode, identity, accounts or strictness; missing keys keep their values. `osmo-admin` only.

    Raises BadInput with every fault, NotFound, Forbidden, Stale.
    """
    require_platform(actor)
    if faults := _violations(body):
        raise BadInput.of(faults)
    with change(actor=actor, description=description):
        backend_row = get_backend(backend)
        lock_backend(backend_row.pk)
        row = queue_guard_for(backend_row)
        check_version(f"The webhook of cluster {backend}", expected_version, row.version)
        desired = {key: body[key] for key in GUARD_KEYS if body.get(key) is not None}
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
    with connection.cursor() as cursor:
        for code, message in sorted(by_code.items()):
            values = [_stored_text(kind), _stored_text(namespace), _stored_text(username), code]
            cursor.execute(_HAS_ROW_OR_SPACE, [backend.pk, *values, backend.pk, MAX_BYPASS_ROWS])
            if not cursor.fetchone()[0]:
                values = [values[0], "", "", code]
            cursor.execute(
                _COUNT_ATTEMPT, [backend.pk, *values, _stored_text(name), _stored_text(message), int(is_refused)]
            )


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


def _violations(body: Mapping[str, Any]) -> list[Violation]:
    found = []
    if body.get("mode") is not None and body["mode"] not in GUARD_MODES:
        message = f"A webhook's mode is {', '.join(GUARD_MODES[:-1])} or {GUARD_MODES[-1]}."
        found.append(Violation("mode", "bad_value", message))
    if body.get("identity") is not None and not _is_account(body["identity"], empty=True):
        found.append(Violation("identity", "bad_value", _ACCOUNT.format(what="identity")))
    if body.get("strict_minimums") is not None and not isinstance(body["strict_minimums"], bool):
        found.append(Violation("strict_minimums", "bad_value", "`strict_minimums` is true or false."))
    accounts = body.get("accounts")
    if accounts is None:
        return found
    if not isinstance(accounts, list) or len(accounts) > MAX_ACCOUNTS:
        message = f"`accounts` is a list of at most {MAX_ACCOUNTS} users or groups."
        return [*found, Violation("accounts", "bad_value", message)]
    return found + [
        Violation(f"accounts[{position}]", "bad_value", _ACCOUNT.format(what="account"))
        for position, account in enumerate(accounts)
        if not _is_account(account)
    ]


_ACCOUNT = (
    "An {what} is a user or group as the API server names it, such as system:serviceaccount:NAMESPACE:NAME, of at most "
    f"{MAX_ACCOUNT_LENGTH} characters and without spaces."
)


def _is_account(value: object, *, empty: bool = False) -> bool:
    if not isinstance(value, str) or (not value and not empty):
        return False
    return len(value) <= MAX_ACCOUNT_LENGTH and value.isprintable() and " " not in value
