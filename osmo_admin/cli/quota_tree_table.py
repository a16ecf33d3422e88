"""Tables of the tree of quotas: every node on its line, and what a change would move in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osmo_admin.cli.tables import PreformattedCell, format_cell, format_table

QuotaTreeNode = Mapping[str, Any]
HEADER = (
    "Node", "Kind", "Nominal", "Subtree", "Used", "Available", "Borrowed", "Lent out", "Lendable", "Borrowing limit",
    "Lending limit", "Debt", "Pending", "Share",
)  # fmt: skip
NUMBERS = (
    "nominal", "subtree_quota", "usage", "available", "borrowed", "lent", "lendable", "borrowing_limit",
    "lending_limit", "debt", "pending",
)  # fmt: skip
LEAF_KINDS = ("shared", "subpool")
ARROW = " → "
NO_NUMBERS: Mapping[str, Any] = {}


def quota_tree_table(nodes: Sequence[QuotaTreeNode], resource: str, *, leaves: bool = True) -> str:
    """The nodes in the server's order, drawn as a tree, with their numbers of one `flavor/resource`."""
    shown = [node for node in nodes if leaves or node["kind"] not in LEAF_KINDS]
    rows = []
    for mark, node in draw_tree(shown):
        numbers = node_numbers(node, resource)
        name = PreformattedCell(f"{mark}{node['name']}{'' if node['active'] else ' (circle)'}")
        rows.append([name, node["kind"], *(numbers.get(number) for number in NUMBERS), node["weighted_share"]])
    return format_table(HEADER, rows)


def draw_tree(nodes: Sequence[QuotaTreeNode]) -> Iterator[tuple[str, QuotaTreeNode]]:
    """Each node with the mark before it. Parents stand before their children; one whose parent is not there, or stands
    with it on a circle, is drawn as a top."""
    places = {node_key(node): at for at, node in enumerate(nodes)}
    parents = [_parent_position(node, places, at) for at, node in enumerate(nodes)]
    last = {parent: at for at, parent in enumerate(parents)}
    for at, node in enumerate(nodes):
        lines, here = [], at
        while (parent := parents[here]) >= 0:
            is_last = last[parent] == here
            lines.append(("└─ " if is_last else "├─ ") if here == at else ("   " if is_last else "│  "))
            here = parent
        yield "".join(reversed(lines)), node


def _parent_position(node: QuotaTreeNode, places: Mapping[tuple[bool, str], int], at: int) -> int:
    if node["parent"] is None or (node["kind"] == "cohort" and not node["active"]):
        return -1
    place = places.get((node["kind"] in ("cohort", "pool"), node["parent"]), -1)
    return place if place < at else -1


def node_key(node: QuotaTreeNode) -> tuple[bool, str]:
    """Cohorts and pools may share a name; only cohorts stand above cohorts and pools."""
    return node["kind"] == "cohort", node["name"]


def node_numbers(node: QuotaTreeNode, resource: str) -> Mapping[str, Any]:
    """The numbers of one `flavor/resource` of a node; nothing if it has none."""
    return next((row for row in node["quotas"] if f"{row['flavor']}/{row['resource']}" == resource), NO_NUMBERS)


def cohort_change_lines(before: Any, after: Any) -> list[str]:
    """What a change of a cohort would move, line by line: the numbers of every node."""
    old = {node_key(node): node for node in (before or NO_NUMBERS).get("nodes", ())}
    new = {node_key(node): node for node in (after or NO_NUMBERS).get("nodes", ())}
    lines: list[str] = []
    for key in [*old, *(key for key in new if key not in old)]:
        lines += _node_change_lines(old.get(key), new.get(key))
    return lines


def debt_lines(debts: Sequence[QuotaTreeNode]) -> list[str]:
    """The debts that a change would make, deepen, lessen or pay."""
    lines = []
    for debt in debts:
        what = f"{debt['flavor']}/{debt['resource']}"
        lines.append(
            f"Debt of {debt['name']} ({what}): {format_cell(debt['before'])}{ARROW}{format_cell(debt['after'])}"
        )
    return lines


def _node_change_lines(old: QuotaTreeNode | None, new: QuotaTreeNode | None) -> Iterator[str]:
    node = new or old or NO_NUMBERS
    if old is None or new is None:
        yield f"{node['kind']} {node['name']}: {'joins' if old is None else 'leaves'} the tree"
        return
    keys = sorted({f"{row['flavor']}/{row['resource']}" for each in (old, new) for row in each["quotas"]})
    for key in keys:
        was, becomes = node_numbers(old, key), node_numbers(new, key)
        moved = [
            f"{number.replace('_', ' ')} {format_cell(was.get(number))}{ARROW}{format_cell(becomes.get(number))}"
            for number in (*NUMBERS, "potential_available")
            if was.get(number) != becomes.get(number)
        ]
        if moved:
            yield f"{node['kind']} {node['name']} ({key}): {', '.join(moved)}"
