"""The mark: the unguessable part of the address of a backend's webhooks, which only its cluster knows.

A mark is made from the secret key of the installation and from the number of its rotations, so nothing of it is stored,
and a caller without it costs no query. Keys in `OSMO_SECRET_KEY_FALLBACKS` are believed too.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from pools.database.prepared import read_rows
from pools.database.transactions import change, database_time
from pools.domain.people.roles import Actor
from pools.locking import lock_backend
from pools.models import Backend
from pools.permissions import require_platform
from pools.selectors.submission_path import columns_sql, known_row
from pools.services.configuration.backends import get_backend
from scheduling.models import QueueGuard
from scheduling.services.webhooks.queue_guard import default_guard, queue_guard_for

_SALT = "osmo.webhook"
_FIRST_SALT = "osmo.gpu_quota.webhook"  # of the addresses of GPU quota before all addresses had a mark
_LENGTH = 32
KEEP_PREVIOUS = timedelta(minutes=1)
"""The time that a cluster gets to learn a new mark, unless the operator gives another one."""


def current_mark(guard: QueueGuard) -> str:
    """The mark in the addresses of this backend's webhooks."""
    return _mark(guard.backend.name, guard.mark_generation, settings.SECRET_KEY)


def marked_guard(backend: str, mark: str) -> QueueGuard | None:
    """The guard of the backend that a caller knows the mark of; None for a wrong or outdated mark, and for a backend
    that does not exist. Makes no query for a mark that was never one of ours."""
    generation = _read_generation(backend, mark)
    if generation is None:
        return None
    guard = _find_guard(backend)
    if guard is None:
        return None
    if generation == guard.mark_generation or (generation == 0 and guard.mark_generation == 1):
        return guard
    until = guard.previous_mark_until
    is_previous = generation == guard.mark_generation - 1 and until is not None and until > database_time()
    return guard if is_previous else None


def _find_guard(backend: str) -> QueueGuard | None:
    """The guard of a backend, in one prepared statement, because every review reads it."""
    rows = read_rows(_GUARD_SQL, [backend])
    if not rows:
        return None
    row = rows[0]
    backend_row = known_row(Backend, _BACKEND, row[: len(_BACKEND)])
    if row[-1] is None:
        return default_guard(backend_row)
    guard = known_row(QueueGuard, _GUARD, row[len(_BACKEND) :])
    guard.backend = backend_row
    return guard


_BACKEND = ("id", "name", "namespace", "kind", "offline")
_GUARD = tuple(field.attname for field in QueueGuard._meta.concrete_fields)
_GUARD_SQL = f"""
    SELECT {columns_sql("backend", _BACKEND)}, {columns_sql("guard", _GUARD)}
    FROM pools_backend backend LEFT JOIN scheduling_queueguard guard ON guard.backend_id = backend.id
    WHERE backend.name = %s
"""


def rotate_mark(*, actor: Actor, backend: str, keep_previous: timedelta = KEEP_PREVIOUS) -> QueueGuard:
    """Give the backend's webhooks a new mark; the previous one is believed for `keep_previous`. `osmo-admin` only. The
    configuration in the cluster is not changed here. Raises NotFound, Forbidden."""
    require_platform(actor)
    with change(actor=actor, description="the mark of the webhooks was rotated"):
        row = get_backend(backend)
        lock_backend(row.pk)
        guard = queue_guard_for(row)
        guard.mark_generation += 1
        guard.previous_mark_until = database_time() + keep_previous
        guard.version = max(1, guard.version)
        guard.save()
    return guard


def _mark(backend: str, generation: int, key: str) -> str:
    if not generation:
        return salted_hmac(_FIRST_SALT, backend, secret=key, algorithm="sha256").hexdigest()[:_LENGTH]
    text = f"{generation}/{backend}"
    return f"{generation}-{salted_hmac(_SALT, text, secret=key, algorithm='sha256').hexdigest()[:_LENGTH]}"


def _read_generation(backend: str, mark: str) -> int | None:
    """The rotation that a mark belongs to; None for a mark that is not one of ours."""
    number, dash, _ = mark.rpartition("-")
    if dash and not (number.isascii() and number.isdigit() and len(number) < 10):
        return None
    generation = int(number) if dash else 0
    if dash and not generation:
        return None
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    is_ours = any(constant_time_compare(mark, _mark(backend, generation, key)) for key in keys)
    return generation if is_ours else None
