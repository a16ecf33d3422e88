"""Writing what differs into a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Model


def update_columns(row: Model, columns: Mapping[str, Any]) -> bool:
    """Save the columns that have other values in the row; whether there were any. Without one nothing is written, so
    the row keeps its version."""
    different = [column for column, value in columns.items() if getattr(row, column) != value]
    for column in different:
        setattr(row, column, columns[column])
    if different:
        row.save(update_fields=different)
    return bool(different)
