"""Tables of the quota tree: one line for each node, and the numbers that a change affects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osmo_admin.cli.base.tables import NOT_IN_THE_FILE, PreformattedCell, Table, build_table, format_cell, headings
from osmo_admin.cli.text.drawn_bar import BAR_HEADING, drawn_bar
from pools.domain.list_columns import NODE_COLUMNS
from pools.domain.names import readable_name
from pools.domain.numbers import TREE_NUMBERS
from pools.domain.quota.tree import LIMIT_KEYS

QuotaTreeNode = Mapping[str, Any]
COLUMNS = (
    "quota", "total_usage", "can_start_now", "low_can_start_now", "borrowed", "lent", "pending",
    "nominal", "subtree_quota", "usage", "available", "lendable", *LIMIT_KEYS, "debt",
)  # fmt: skip
HEADER = (
    *headings(NODE_COLUMNS.values()),
    BAR_HEADING,
    *(TREE_NUMBERS[key].label for key in (*COLUMNS, "weighted_share")),
)
SPARE = tuple(
    TREE_NUMBERS[key].label
    for key in (
        "weighted_share", *reversed(LIMIT_KEYS), "lendable", "available", "usage", "subtree_quota", "nominal",
        "debt", "low_can_start_now", "lent", "borrowed", "pending",
    )
)  # fmt: skip
"""What a narrow terminal does without, the first to go in front."""
LEAF_KINDS = ("shared", "subpool")
ARROW = " → "
NO_NUMBERS: Mapping[str, Any] = {}


def quota_tree_table(nodes: Sequence[QuotaTreeNode], resource: str, *, leaves: bool = True) -> Table:
    """The nodes in the order of the server, as a tree, with their numbers of one `flavor/resource`."""
    listed = [node for node in nodes if leaves or node["kind"] not in LEAF_KINDS]
    rows = []
    for prefix, node in draw_tree(listed):
        numbers = node_numbers(node, resource)
        name = PreformattedCell(f"{prefix}{readable_name(node['name'])}{'' if node['active'] else ' (cycle)'}")
        rows.append(
            [
                name,
                node["kind"],
                drawn_bar(numbers),
                *(numbers.get(number) for number in COLUMNS),
                node["weighted_share"],
            ]
        )
    names = [NOT_IN_THE_FILE if heading == BAR_HEADING else heading for heading in HEADER]
    return build_table(HEADER, rows, names=names, spare=(*SPARE, headings(NODE_COLUMNS.values())[-1], BAR_HEADING))


def draw_tree(nodes: Sequence[QuotaTreeNode]) -> Iterator[tuple[str, QuotaTreeNode]]:
    """Each node with its tree prefix. Parents come before their children. A node whose parent is missing, or is in the
    same cycle, is printed as a root."""
    positions = {node_key(node): at for at, node in enumerate(nodes)}
    parents = [_parent_position(node, positions, at) for at, node in enumerate(nodes)]
    last = {parent: at for at, parent in enumerate(parents)}
    for at, node in enumerate(nodes):
        parts, here = [], at
        while (parent := parents[here]) >= 0:
            is_last = last[parent] == here
            parts.append(("└─ " if is_last else "├─ ") if here == at else ("   " if is_last else "│  "))
            here = parent
        yield "".join(reversed(parts)), node


def _parent_position(node: QuotaTreeNode, positions: Mapping[tuple[bool, str], int], at: int) -> int:
    if node["parent"] is None or (node["kind"] == "cohort" and not node["active"]):
        return -1
    position = positions.get((node["kind"] in ("cohort", "pool"), node["parent"]), -1)
    return position if position < at else -1


def node_key(node: QuotaTreeNode) -> tuple[bool, str]:
    """A unique key: a cohort and a pool may have the same name."""
    return node["kind"] == "cohort", node["name"]


def node_numbers(node: QuotaTreeNode, resource: str) -> Mapping[str, Any]:
    """The numbers of one `flavor/resource` of a node; empty if the node has none."""
    return next((row for row in node["quotas"] if f"{row['flavor']}/{row['resource']}" == resource), NO_NUMBERS)


def number_term(key: str) -> str:
    """The name of a number inside a sentence; the key of one that only a newer server knows."""
    return TREE_NUMBERS[key].term if key in TREE_NUMBERS else key


def cohort_change_lines(before: Any, after: Any) -> list[str]:
    """The effect of a change of a cohort, one line for each node and resource."""
    old = {node_key(node): node for node in (before or NO_NUMBERS).get("nodes", ())}
    new = {node_key(node): node for node in (after or NO_NUMBERS).get("nodes", ())}
    lines: list[str] = []
    for key in [*old, *(key for key in new if key not in old)]:
        lines += _node_change_lines(old.get(key), new.get(key))
    return lines


def debt_lines(debts: Sequence[QuotaTreeNode]) -> list[str]:
    """The usage over limits that a change would create, raise, lower or end."""
    lines = []
    for debt in debts:
        resource = f"{debt['flavor']}/{debt['resource']}"
        change = f"{format_cell(debt['before'])}{ARROW}{format_cell(debt['after'])}"
        lines.append(f"{TREE_NUMBERS['debt'].label}: {readable_name(debt['name'])} ({resource}): {change}")
    return lines


def _node_change_lines(old: QuotaTreeNode | None, new: QuotaTreeNode | None) -> Iterator[str]:
    node = new or old or NO_NUMBERS
    if old is None or new is None:
        yield f"{node['kind']} {readable_name(node['name'])}: {'joins' if old is None else 'leaves'} the tree"
        return
    keys = sorted({f"{row['flavor']}/{row['resource']}" for each in (old, new) for row in each["quotas"]})
    for key in keys:
        was, becomes = node_numbers(old, key), node_numbers(new, key)
        changes = [
            f"{number_term(number)} {format_cell(was.get(number))}{ARROW}{format_cell(becomes.get(number))}"
            for number in (*COLUMNS, "potential_available")
            if was.get(number) != becomes.get(number)
        ]
        if changes:
            yield f"{node['kind']} {readable_name(node['name'])} ({key}): {', '.join(changes)}"
