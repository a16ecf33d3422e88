"""Placement of a set of tasks, all or nothing: on the tightest nodes in the order given, then largest first, then by a
bounded search, so that a gang that fits is not refused because of an unlucky order of its tasks."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request

MAX_SEARCH_STEPS = 500
"""Tasks of different size are packed exactly within this many trials; beyond them, largest first decides."""

MAX_SEARCH_TASKS = 64
"""The most tasks that the search handles: it is recursive, and its trials would not suffice for more."""


def place_requests(index: NodeIndex, requests: Sequence[Request]) -> list[int] | None:
    """Reserve capacity for every request. Returns the nodes in the same order, or None, with nothing reserved, if not
    all fit."""
    nodes = _in_order(index, requests, range(len(requests)))
    if nodes is not None or len(set(requests)) < 2:
        return nodes
    largest_first = sorted(range(len(requests)), key=lambda i: (_weight(requests[i]), -i), reverse=True)
    nodes = _in_order(index, requests, largest_first)
    return nodes if nodes is not None else _search(index, requests, largest_first)


def could_place(index: NodeIndex, requests: Sequence[Request]) -> list[int] | None:
    """The nodes that :func:`place_requests` would choose, or None; nothing is reserved afterwards."""
    nodes = place_requests(index, requests)
    if nodes is not None:
        for node, request in zip(nodes, requests, strict=True):
            index.release(node, request)
    return nodes


def _in_order(index: NodeIndex, requests: Sequence[Request], order: Sequence[int]) -> list[int] | None:
    nodes = [NOWHERE] * len(requests)
    for done, i in enumerate(order):
        node = index.tightest_node(requests[i])
        if node == NOWHERE:
            for back in order[:done]:
                index.release(nodes[back], requests[back])
            return None
        index.reserve(node, requests[i])
        nodes[i] = node
    return nodes


def _weight(request: Request) -> list[tuple[int, object]]:
    return [(-r, amount) for r, amount in request]


def _search(index: NodeIndex, requests: Sequence[Request], order: Sequence[int]) -> list[int] | None:
    """Depth first over one node of each distinct state for each task, largest task first."""
    nodes = [NOWHERE] * len(requests)
    left = MAX_SEARCH_STEPS

    def descend(depth: int) -> bool:
        nonlocal left
        if depth == len(order):
            return True
        i = order[depth]
        for node in index.representatives():
            if not index.fits(node, requests[i]):
                continue
            left -= 1
            if left < 0:
                return False
            index.reserve(node, requests[i])
            nodes[i] = node
            if descend(depth + 1):
                return True
            index.release(node, requests[i])
        return False

    return nodes if len(order) <= MAX_SEARCH_TASKS and descend(0) else None
