"""The few reads before every submission, as SQL written by hand.

A submission is a handful of statements; building each of these four from querysets costs more processor time than
PostgreSQL needs for all of them. The rows become ordinary model instances with the columns read here; they load any
other column on access. All other selectors use querysets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from django.db import connection, models

from pools.database.prepared import read_first_row
from pools.models import AccessToken, Backend, Pool, User

_LEAF = ("id", "name", "parent_id", "subpool_name", "subpool_state", "last_quota", "archived")
ROOT_COLUMNS = (*_LEAF, "backend_id", "cohort_id", "config", "enable_maintenance", "guarantee", "maximum", "flavors")
_BACKEND = ("id", "name", "namespace", "kind", "offline")
_TOKEN = ("id", "name", "roles", "expires_at", "owner_id", "identity_id")
_USER = ("id", "username", "is_active")


Row = TypeVar("Row", bound=models.Model)


def columns_sql(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


_PLAIN = models.Value(None)  # the argument of `from_db_value` for a column read as a whole document
_LEAF_SQL = f"""
    SELECT {columns_sql("leaf", _LEAF)}, {columns_sql("root", ROOT_COLUMNS)}, {columns_sql("backend", _BACKEND)}
    FROM pools_pool leaf
    JOIN pools_pool root ON root.id = COALESCE(leaf.parent_id, leaf.id)
    JOIN pools_backend backend ON backend.id = root.backend_id
    WHERE leaf.name = %s
"""

_TOKEN_SQL = f"""
    SELECT {columns_sql("token", _TOKEN)}, {columns_sql("owner", _USER)}, ARRAY(
        SELECT role.name FROM pools_roleassignment held JOIN auth_group role ON role.id = held.group_id
        WHERE held.user_id = owner.id
    )
    FROM pools_accesstoken token JOIN pools_user owner ON owner.id = token.owner_id
    WHERE token.id = %s AND token.expires_at > now() AND owner.is_active
    AND (token.identity_id IS NULL OR EXISTS (
        SELECT FROM pools_signonidentity identity
        WHERE identity.id = token.identity_id AND identity.valid_until > now()
    ))
"""


def find_leaf_with_root(name: str) -> Pool | None:
    """The pool or subpool of this canonical name with its parent and backend, or None."""
    row = read_first_row(_LEAF_SQL, [name])
    if row is None:
        return None
    mine, rest = row[: len(_LEAF)], row[len(_LEAF) :]
    root = known_row(Pool, ROOT_COLUMNS, rest[: len(ROOT_COLUMNS)])
    root.backend = known_row(Backend, _BACKEND, rest[len(ROOT_COLUMNS) :])
    if root.pk == mine[0]:
        return root
    leaf = known_row(Pool, _LEAF, mine)
    leaf.parent = root
    return leaf


def find_valid_token(pk: int) -> AccessToken | None:
    """A token that has not expired, with its active owner and the owner's current roles."""
    row = read_first_row(_TOKEN_SQL, [pk])
    if row is None:
        return None
    token = known_row(AccessToken, _TOKEN, row[: len(_TOKEN)])
    token.owner = known_row(User, _USER, row[len(_TOKEN) : -1])
    token.owner_roles = frozenset(row[-1])
    return token


def known_row(model: type[Row], names: Sequence[str], values: Sequence[Any]) -> Row:
    """A model instance with these columns."""
    places, attributes, documents = _layout(model, tuple(names))
    known = [values[place] for place in places]
    for at, field in documents:
        known[at] = field.from_db_value(known[at], _PLAIN, connection)
    return model.from_db(connection.alias, attributes, known)


def column_names(model: type[models.Model]) -> tuple[str, ...]:
    """All columns of a model."""
    return tuple(field.attname for field in model._meta.concrete_fields)


@cache
def _layout(
    model: type[models.Model], names: tuple[str, ...]
) -> tuple[list[int], list[str], list[tuple[int, models.JSONField[Any, Any]]]]:
    """The places of the columns in the order of the model's fields, which `from_db` needs, their names, and the JSON
    documents among them."""
    known = [field for field in model._meta.concrete_fields if field.attname in names]
    places = [names.index(field.attname) for field in known]
    documents = [(at, field) for at, field in enumerate(known) if isinstance(field, models.JSONField)]
    return places, [field.attname for field in known], documents
