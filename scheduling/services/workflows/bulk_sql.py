"""Bulk writes with one JSON document of rows: PostgreSQL splits it by the columns of the table, in one statement for
any number of rows. Django's bulk update builds an expression for every value, which costs more than the write
itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import models
from django.utils.duration import duration_iso_string

from pools.database.statements import execute_sql


def rows_as_json(objects: Collection[models.Model], fields: Sequence[str] | None = None) -> str:
    """These objects as a JSON list of rows; `fields` are the columns to include (all by default)."""
    if not objects:
        return "[]"
    known = [field.attname for field in next(iter(objects))._meta.concrete_fields]
    included = [name for name in known if fields is None or name in fields]
    return json.dumps([{name: getattr(each, name) for name in included} for each in objects], default=_json_default)


def recordset_sql(model: type[models.Model]) -> str:
    """SQL that reads such a document, given as a parameter, as rows of the model's table."""
    return f"jsonb_populate_recordset(NULL::{model._meta.db_table}, %s::jsonb)"


def update_rows(objects: Collection[models.Model], fields: Sequence[str]) -> None:
    """Write these columns of these rows in one statement."""
    if not objects:
        return
    model = type(next(iter(objects)))
    assert model._meta.pk is not None
    key = model._meta.pk.attname
    changes = ", ".join(f'"{name}" = given."{name}"' for name in fields)
    rows = f'{recordset_sql(model)} AS given WHERE stored."{key}" = given."{key}"'
    execute_sql(
        f"UPDATE {model._meta.db_table} AS stored SET {changes} FROM {rows}",
        [rows_as_json(objects, [key, *fields])],
    )


def _json_default(value: Any) -> str:
    """Values that JSON does not have, in the form that PostgreSQL reads."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_iso_string(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written to a row")
