"""The table of `osmo pool list`: each pool with its subpools below it, negative numbers while a subpool drains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osmo_admin.cli.base.options import PoolListMode
from osmo_admin.cli.base.tables import Shown, Table, build_table

HEADER = ("Pool", "Status", "Subpool State", "GPU Quota", "Used", "Available")
NAMES = ("pool", "status", "state", "quota", "guaranteed_in_use", "guaranteed_free")
"""Of the columns in a file, as on the page of pools."""
OWN_AND_WHOLE = "own with_subpools"
"""Of the two quotas of a pool with subpools: of its remainder (shared), and of the whole pool."""
MINIMUM_WIDTHS = (14, 13)  # as in the published example
ARCHIVED_STATE = "ARCHIVED"
MODE_COLUMNS = {
    PoolListMode.USED: (("Total Usage", "total_usage"), ("Total Capacity", "total_capacity")),
    PoolListMode.FREE: (("Total Free", "total_free"),),
}
# Numbers of the nodes, not of the pool: pools on the same nodes show the same number.
NODE_SUMS = frozenset({"total_capacity", "total_free"})

PoolRow = Mapping[str, Any]


def pool_table(
    answer: PoolRow, *, mode: PoolListMode | None = None, archived: bool = False, nothing: str = ""
) -> Table:
    """The table for an answer of `/api/pool_quota`; with `mode` also the GPUs of the nodes, and sums."""
    sides = MODE_COLUMNS[mode] if mode else ()
    lines: list[list[Any]] = []
    for node_set in answer.get("node_sets", []):
        rows = [row for row in node_set["pools"] if archived or row.get("subpool_state") != ARCHIVED_STATE]
        for at, (mark, row) in enumerate(order_as_tree(rows)):
            lines.append([*_quota_cells(mark, row), *(_mode_cell(row, key, shared=at > 0) for _, key in sides)])
    header = (*HEADER, *(title for title, _ in sides))
    total = _total_row(answer, sides) if sides else None
    parts = [OWN_AND_WHOLE if title == "GPU Quota" else "" for title in header]
    names = (*NAMES, *(key for _, key in sides))
    return build_table(header, lines, minimum=MINIMUM_WIDTHS, total=total, names=names, parts=parts, nothing=nothing)


def order_as_tree(rows: Iterable[PoolRow]) -> list[tuple[str, PoolRow]]:
    """Each pool followed by its subpools by name, with the tree prefix to print before it.

    Pools keep the order of the server. A subpool whose parent is not among the rows has no prefix.
    """
    listed = list(rows)
    names = {row["name"] for row in listed}
    subpools: dict[str, list[PoolRow]] = {}
    for row in listed:
        if row.get("parent_pool") in names:
            subpools.setdefault(str(row["parent_pool"]), []).append(row)
    tree: list[tuple[str, PoolRow]] = []
    for row in listed:
        if row.get("parent_pool") in names:
            continue
        tree.append(("", row))
        children = sorted(subpools.get(row["name"], []), key=lambda child: str(child["name"]))
        tree += [(branch_prefix(at, len(children)), child) for at, child in enumerate(children)]
    return tree


def branch_prefix(at: int, count: int) -> str:
    """The tree prefix of child number `at` of `count`."""
    return "└─ " if at == count - 1 else "├─ "


def _quota_cells(mark: str, row: PoolRow) -> list[Any]:
    usage = row.get("resource_usage") or {}  # a server without subpools sends only these
    return [
        mark + str(row["name"]),
        row.get("status"),
        row.get("subpool_state"),
        _quota_cell(row.get("gpu_quota", usage.get("quota_limit"))),
        row.get("used", usage.get("quota_used")),
        row.get("available", usage.get("quota_free")),
    ]


def _quota_cell(text: Any) -> Shown:
    """`10 (Total: 100)` as two numbers in a file."""
    own, _, whole = str(text).partition(" (Total: ")
    return Shown(text, (own, whole.rstrip(")") or None))


def _mode_cell(row: PoolRow, key: str, *, shared: bool) -> Shown:
    value = str((row.get("resource_usage") or {}).get(key, "-"))
    return Shown(f"{value} (shared)" if shared and key in NODE_SUMS else value, value)


def _total_row(answer: PoolRow, sides: Sequence[tuple[str, str]]) -> list[Any]:
    sums = answer.get("resource_sum") or {}
    counted = [sums.get("quota_limit"), sums.get("quota_used"), sums.get("quota_free")]
    return ["", "", "", *counted, *(sums.get(key) for _, key in sides)]
