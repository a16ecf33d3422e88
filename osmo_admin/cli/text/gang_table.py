"""The tree of a gang for people: required, present and optional members of each SubGroup."""

from __future__ import annotations

from typing import Any

from osmo_admin.cli.base.tables import AnswerPart, build_table, format_cell, headings
from pools.domain.values.counting import counted
from scheduling.domain.list_columns import GANG_COLUMNS


def gang_table(group: dict[str, Any]) -> AnswerPart:
    """The table of one group of a workflow; empty for a gang without SubGroups."""
    gang = group.get("gang")
    if not gang:
        return ""
    parents = {row["parent"] for row in gang["sub_groups"]}
    levels = {None: 0}
    rows = [_gang_row(str(group.get("name")), gang, leaf=not gang["sub_groups"])]
    for row in gang["sub_groups"]:  # parents come before their children
        levels[row["name"]] = level = levels.get(row["parent"], 0) + 1
        name = f"{'─' * (2 * level - 1)} {row['name']}"
        rows.append(_gang_row(f"└{name}", row, leaf=row["name"] not in parents))
    return build_table(headings(GANG_COLUMNS.values()), rows)


def _gang_row(name: str, row: dict[str, Any], *, leaf: bool) -> list[Any]:
    spare = max(0, row["size"] - row["threshold"])
    state = "has its minimum" if row["satisfied"] else "can be missing" if row.get("optional") else "below its minimum"
    return [
        f"{format_cell(name)}{' (optional)' if row.get('optional') else ''}",
        _count_text(row["threshold"], leaf),
        row["count"],
        _count_text(spare, leaf) if spare else None,
        state,
    ]


def _count_text(number: int, leaf: bool) -> str:
    return counted(number, "pod" if leaf else "SubGroup")
