"""The table of `osmo pool list`: each pool with its subpools below it, negative numbers while a subpool drains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osmo_admin.cli.base.options import PoolListMode
from osmo_admin.cli.base.tables import Shown, Table, build_table
from pools.domain.values.amounts import NO_LIMIT, UNLIMITED, as_json

HEADER = ("Pool", "Status", "Subpool State", "GPU Quota", "Used", "Available")
NAMES = ("pool", "status", "state", "quota", "guaranteed_in_use", "guaranteed_free")
"""Of the columns in a file, as on the page of pools."""
WHOLE_AND_OWN = "- own"
"""Of the numbers of a pool in a file: of the whole pool, as on its page, and of its remainder (shared), which the table
shows as OSMO does. A subpool has one number twice, so the sums of the second ones are right."""
TOTAL = " (Total: "
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
        below: dict[Any, list[PoolRow]] = {}
        for row in node_set["pools"]:
            below.setdefault(row.get("parent_pool"), []).append(row)
        for at, (mark, row) in enumerate(order_as_tree(rows)):
            lines.append(
                [
                    *_quota_cells(mark, row, below.get(row["name"], ())),
                    *(_mode_cell(row, key, shared=at > 0) for _, key in sides),
                ]
            )
    header = (*HEADER, *(title for title, _ in sides))
    total = _total_row(answer, sides) if sides else None
    parts = [WHOLE_AND_OWN if title in HEADER[3:] else "" for title in header]
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


def _quota_cells(mark: str, row: PoolRow, below: Sequence[PoolRow]) -> list[Any]:
    usage = row.get("resource_usage") or {}  # a server without subpools sends only these
    return [
        mark + str(row["name"]),
        row.get("status"),
        row.get("subpool_state"),
        *_with_whole(
            row.get("gpu_quota", usage.get("quota_limit")),
            row.get("used", usage.get("quota_used")),
            row.get("available", usage.get("quota_free")),
            below,
            has_limit=((row.get("resources") or {}).get("gpu") or {}).get("guarantee") != NO_LIMIT,
        ),
    ]


def _with_whole(quota: Any, used: Any, free: Any, below: Sequence[PoolRow], *, has_limit: bool) -> list[Shown]:
    """Quota, use and rest of a pool with those of the whole pool for a file; `10 (Total: 100)` has both quotas. A pool
    without a quota has the capacity of its nodes in OSMO's table; a file calls it unlimited, as that of the page."""
    own, _, whole = str(quota).partition(TOTAL)
    if not whole:
        in_file = (quota, used, free) if has_limit else (as_json(UNLIMITED), used, as_json(UNLIMITED))
        return [Shown(text, (value, value)) for text, value in zip((quota, used, free), in_file, strict=True)]
    total = int(whole.rstrip(")"))
    in_use = int(used) + sum(int(each["used"]) for each in below) if below else None
    rest = None if in_use is None else total - in_use
    return [Shown(quota, (total, own)), Shown(used, (in_use, used)), Shown(free, (rest, free))]


def _mode_cell(row: PoolRow, key: str, *, shared: bool) -> Shown:
    value = str((row.get("resource_usage") or {}).get(key, "-"))
    return Shown(f"{value} (shared)" if shared and key in NODE_SUMS else value, value)


def _total_row(answer: PoolRow, sides: Sequence[tuple[str, str]]) -> list[Any]:
    sums = answer.get("resource_sum") or {}
    counted = [sums.get("quota_limit"), sums.get("quota_used"), sums.get("quota_free")]
    return ["", "", "", *counted, *(sums.get(key) for _, key in sides)]
