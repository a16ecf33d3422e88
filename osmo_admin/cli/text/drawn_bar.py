"""The bar of a pool, subpool or node of the quota tree in a terminal: the parts of the bars of pages, as signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmo_admin.cli.base.tables import PreformattedCell
from pools.domain.list_columns import POOL_COLUMNS
from pools.domain.quota.usage_bar import BAR_PARTS, UsageBar

BAR_HEADING = POOL_COLUMNS["bar"].heading
WIDTH = 16


def drawn_bar(row: Mapping[str, Any]) -> str:
    """The `bar` of an answer; empty where a server sends none, or where there is neither quota nor use."""
    sizes = row.get("bar") or {}
    text = UsageBar(**{part.field: sizes.get(part.field, 0) for part in BAR_PARTS}).drawn(WIDTH)
    return PreformattedCell(text) if text else ""
