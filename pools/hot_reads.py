"""The few reads that stand before every submission, as statements written by hand.

A submission is a handful of statements; building each of these four from querysets costs more processor time than
PostgreSQL needs for all of them. The rows come back as ordinary models that know the columns read here and load any
other when it is asked for. Everything else reads through querysets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import connection, models

from pools.domain.lifecycle import SubpoolState
from pools.domain.quotas import slice_quota, unallocated
from pools.models import AccessToken, Backend, Pool, User

_LEAF = ("id", "name", "parent_id", "subpool_name", "subpool_state", "last_quota", "archived")
_ROOT = (*_LEAF, "backend_id", "cohort_id", "config", "enable_maintenance", "guarantee", "maximum")
_BACKEND = ("id", "name", "namespace", "kind", "offline")
_TOKEN = ("id", "name", "roles", "expires_at", "owner_id")
_USER = ("id", "username", "is_active")


Row = TypeVar("Row", bound=models.Model)


def _columns(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


_PLAIN = models.Value(None)  # what a JSON field is told when a whole document was read
_LEAF_SQL = f"""
    SELECT {_columns("leaf", _LEAF)}, {_columns("root", _ROOT)}, {_columns("backend", _BACKEND)}
    FROM pools_pool leaf
    JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
    JOIN pools_backend backend ON backend.id = root.backend_id
    WHERE leaf.name = %s
"""

# The sum is a statement of its own: inside the first it would be read as of before the lock was had.
_LOCK_SQL = f"""
    SELECT {_columns("root", _ROOT)} FROM pools_pool root
        WHERE root.id = %s AND root.parent_id IS NULL FOR NO KEY UPDATE;
    SELECT leaf.subpool_state, leaf.last_quota,
            (SELECT COALESCE(sum(part.last_quota), 0) FROM pools_pool part
                WHERE part.parent_id = %s AND part.subpool_state = '{SubpoolState.ACTIVE}')
        FROM pools_pool leaf WHERE leaf.id = %s
"""

_TOKEN_SQL = f"""
    SELECT {_columns("token", _TOKEN)}, {_columns("owner", _USER)}, ARRAY(
        SELECT role.name FROM pools_roleassignment held JOIN auth_group role ON role.id = held.group_id
        WHERE held.user_id = owner.id
    )
    FROM pools_accesstoken token JOIN pools_user owner ON owner.id = token.owner_id
    WHERE token.id = %s AND token.expires_at > now() AND owner.is_active
"""


@dataclass(frozen=True, slots=True)
class LockedLeaf:
    """A leaf as it is under its tree's lock. `allocated` is the sum of the pool's ACTIVE slices, in GPUs."""

    root: Pool
    state: SubpoolState | None
    last_quota: int
    allocated: int

    @property
    def quota(self) -> int:
        """The leaf's accounting quota."""
        if self.state is None:
            return unallocated(self.root.guaranteed, self.allocated)
        return slice_quota(self.state, self.last_quota)


def leaf_with_root(name: str) -> Pool | None:
    """The pool or slice of this canonical name with its parent and backend, or None."""
    with connection.cursor() as cursor:
        cursor.execute(_LEAF_SQL, [name])
        row = cursor.fetchone()
    if row is None:
        return None
    mine, rest = row[: len(_LEAF)], row[len(_LEAF) :]
    root = _known(Pool, _ROOT, rest[: len(_ROOT)])
    root.backend = _known(Backend, _BACKEND, rest[len(_ROOT) :])
    if root.pk == mine[0]:
        return root
    leaf = _known(Pool, _LEAF, mine)
    leaf.parent = root
    return leaf


def lock_leaf(leaf: Pool) -> LockedLeaf:
    """Lock the tree of a leaf until the transaction ends, and say what a submission there is judged by, in one round
    trip.

    Raises `Pool.DoesNotExist` when it went meanwhile. See :mod:`pools.locking`, whose order this keeps.
    """
    root_id = leaf.parent_id or leaf.pk
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_SQL, [root_id, root_id, leaf.pk])
        row = cursor.fetchone()
        cursor.nextset()
        facts = cursor.fetchone()
    if row is None or facts is None:
        raise Pool.DoesNotExist
    state, last_quota, allocated = facts
    return LockedLeaf(_known(Pool, _ROOT, row), SubpoolState(state) if state else None, last_quota or 0, allocated)


def valid_token(pk: int) -> AccessToken | None:
    """A token that has not expired, of an active owner, who comes with the roles held right now."""
    with connection.cursor() as cursor:
        cursor.execute(_TOKEN_SQL, [pk])
        row = cursor.fetchone()
    if row is None:
        return None
    token = _known(AccessToken, _TOKEN, row[: len(_TOKEN)])
    token.owner = _known(User, _USER, row[len(_TOKEN) : -1])
    token.owner_roles = frozenset(row[-1])
    return token


def _known(model: type[Row], names: Sequence[str], values: Sequence[Any]) -> Row:
    """A model that knows these columns; `from_db` wants them in the order of the model's fields."""
    read = dict(zip(names, values, strict=True))
    known = {field.attname: read[field.attname] for field in model._meta.concrete_fields if field.attname in read}
    for field in model._meta.concrete_fields:
        if isinstance(field, models.JSONField) and field.attname in known:
            known[field.attname] = field.from_db_value(known[field.attname], _PLAIN, connection)
    return model.from_db(connection.alias, list(known), list(known.values()))
