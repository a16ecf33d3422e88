"""Tables of the tree of quotas: every node on its line, and what a change would move in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osmo_admin.cli.tables import Drawn, cell, table

Node = Mapping[str, Any]
HEADER = (
    "Node", "Kind", "Nominal", "Subtree", "Used", "Available", "Borrowed", "Lent out", "Lendable", "Borrowing limit",
    "Lending limit", "Debt", "Pending", "Share",
)  # fmt: skip
NUMBERS = (
    "nominal", "subtree_quota", "usage", "available", "borrowed", "lent", "lendable", "borrowing_limit",
    "lending_limit", "debt", "pending",
)  # fmt: skip
LEAVES = ("shared", "subpool")
ARROW = " → "
NOTHING: Mapping[str, Any] = {}


def tree_table(nodes: Sequence[Node], resource: str, *, leaves: bool = True) -> str:
    """The nodes in the server's order, drawn as a tree, with their numbers of one `flavor/resource`."""
    shown = [node for node in nodes if leaves or node["kind"] not in LEAVES]
    rows = []
    for mark, node in drawn(shown):
        numbers = numbers_of(node, resource)
        name = Drawn(f"{mark}{node['name']}{'' if node['active'] else ' (circle)'}")
        rows.append([name, node["kind"], *(numbers.get(number) for number in NUMBERS), node["weighted_share"]])
    return table(HEADER, rows)


def drawn(nodes: Sequence[Node]) -> Iterator[tuple[str, Node]]:
    """Each node with the mark before it. Parents stand before their children; one whose parent is not there, or stands
    with it on a circle, is drawn as a top."""
    places = {key_of(node): at for at, node in enumerate(nodes)}
    parents = [_parent(node, places, at) for at, node in enumerate(nodes)]
    last = {parent: at for at, parent in enumerate(parents)}
    for at, node in enumerate(nodes):
        lines, here = [], at
        while (parent := parents[here]) >= 0:
            is_last = last[parent] == here
            lines.append(("└─ " if is_last else "├─ ") if here == at else ("   " if is_last else "│  "))
            here = parent
        yield "".join(reversed(lines)), node


def _parent(node: Node, places: Mapping[tuple[bool, str], int], at: int) -> int:
    if node["parent"] is None or (node["kind"] == "cohort" and not node["active"]):
        return -1
    place = places.get((node["kind"] in ("cohort", "pool"), node["parent"]), -1)
    return place if place < at else -1


def key_of(node: Node) -> tuple[bool, str]:
    """Cohorts and pools may share a name; only cohorts stand above cohorts and pools."""
    return node["kind"] == "cohort", node["name"]


def numbers_of(node: Node, resource: str) -> Mapping[str, Any]:
    """The numbers of one `flavor/resource` of a node; nothing if it has none."""
    return next((row for row in node["quotas"] if f"{row['flavor']}/{row['resource']}" == resource), NOTHING)


def cohort_change(before: Any, after: Any) -> list[str]:
    """What a change of a cohort would move, line by line: the numbers of every node."""
    old = {key_of(node): node for node in (before or NOTHING).get("nodes", ())}
    new = {key_of(node): node for node in (after or NOTHING).get("nodes", ())}
    lines: list[str] = []
    for key in [*old, *(key for key in new if key not in old)]:
        lines += _node_change(old.get(key), new.get(key))
    return lines


def debt_lines(debts: Sequence[Node]) -> list[str]:
    """The debts that a change would make, deepen, lessen or pay."""
    lines = []
    for debt in debts:
        what = f"{debt['flavor']}/{debt['resource']}"
        lines.append(f"Debt of {debt['name']} ({what}): {cell(debt['before'])}{ARROW}{cell(debt['after'])}")
    return lines


def _node_change(old: Node | None, new: Node | None) -> Iterator[str]:
    node = new or old or NOTHING
    if old is None or new is None:
        yield f"{node['kind']} {node['name']}: {'joins' if old is None else 'leaves'} the tree"
        return
    keys = sorted({f"{row['flavor']}/{row['resource']}" for each in (old, new) for row in each["quotas"]})
    for key in keys:
        was, becomes = numbers_of(old, key), numbers_of(new, key)
        moved = [
            f"{number.replace('_', ' ')} {cell(was.get(number))}{ARROW}{cell(becomes.get(number))}"
            for number in (*NUMBERS, "potential_available")
            if was.get(number) != becomes.get(number)
        ]
        if moved:
            yield f"{node['kind']} {node['name']} ({key}): {', '.join(moved)}"
