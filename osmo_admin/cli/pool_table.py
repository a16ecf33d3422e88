"""The table of `osmo pool list`: each pool with its slices below it, negative numbers while something drains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osmo_admin.cli.options import PoolListMode
from osmo_admin.cli.tables import format_table

HEADER = ("Pool", "Status", "Subpool State", "GPU Quota", "Used", "Available")
MINIMUM_WIDTHS = (14, 13)  # the widths of the published example
ARCHIVED_STATE = "ARCHIVED"
MODE_COLUMNS = {
    PoolListMode.USED: (("Total Usage", "total_usage"), ("Total Capacity", "total_capacity")),
    PoolListMode.FREE: (("Total Free", "total_free"),),
}
# Sums that belong to the machines and not to the pool: pools on the same machines show the same number.
NODE_SUMS = frozenset({"total_capacity", "total_free"})

PoolRow = Mapping[str, Any]


def pool_table(answer: PoolRow, *, mode: PoolListMode | None = None, archived: bool = False) -> str:
    """The table for an answer of `/api/pool_quota`; with `mode` also the GPUs of the nodes, and their sums."""
    sides = MODE_COLUMNS[mode] if mode else ()
    lines: list[list[Any]] = []
    for node_set in answer.get("node_sets", []):
        rows = [row for row in node_set["pools"] if archived or row.get("subpool_state") != ARCHIVED_STATE]
        for at, (mark, row) in enumerate(order_as_tree(rows)):
            lines.append([*_quota_cells(mark, row), *(_mode_cell(row, key, shared=at > 0) for _, key in sides)])
    header = (*HEADER, *(title for title, _ in sides))
    return format_table(header, lines, minimum=MINIMUM_WIDTHS, total=_total_row(answer, sides) if sides else None)


def order_as_tree(rows: Iterable[PoolRow]) -> list[tuple[str, PoolRow]]:
    """Each pool followed by its slices by name, with the mark to draw before it.

    Order of the pools is the server's. A slice whose parent is not among the rows stands for itself, without a mark.
    """
    listed = list(rows)
    names = {row["name"] for row in listed}
    slices: dict[str, list[PoolRow]] = {}
    for row in listed:
        if row.get("parent_pool") in names:
            slices.setdefault(str(row["parent_pool"]), []).append(row)
    tree: list[tuple[str, PoolRow]] = []
    for row in listed:
        if row.get("parent_pool") in names:
            continue
        tree.append(("", row))
        children = sorted(slices.get(row["name"], []), key=lambda child: str(child["name"]))
        tree += [(branch_prefix(at, len(children)), child) for at, child in enumerate(children)]
    return tree


def branch_prefix(at: int, count: int) -> str:
    """The mark before child number `at` of `count`."""
    return "└─ " if at == count - 1 else "├─ "


def _quota_cells(mark: str, row: PoolRow) -> list[Any]:
    usage = row.get("resource_usage") or {}  # a server without subpools gives only these
    return [
        mark + str(row["name"]),
        row.get("status"),
        row.get("subpool_state"),
        row.get("gpu_quota", usage.get("quota_limit")),
        row.get("used", usage.get("quota_used")),
        row.get("available", usage.get("quota_free")),
    ]


def _mode_cell(row: PoolRow, key: str, *, shared: bool) -> str:
    value = str((row.get("resource_usage") or {}).get(key, "-"))
    return f"{value} (shared)" if shared and key in NODE_SUMS else value


def _total_row(answer: PoolRow, sides: Sequence[tuple[str, str]]) -> list[Any]:
    sums = answer.get("resource_sum") or {}
    counted = [sums.get("quota_limit"), sums.get("quota_used"), sums.get("quota_free")]
    return ["", "", "", *counted, *(sums.get(key) for _, key in sides)]
