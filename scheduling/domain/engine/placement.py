"""Where a set of tasks stands, all or nothing: tightest node first, in the order given, then largest first, then a
bounded search, so that a gang that fits is not refused because its tasks were listed in an unlucky order."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.domain.engine.nodes import NOWHERE, NodeIndex, Request

MAX_SEARCH_STEPS = 500
"""Tasks of unlike size are packed exactly up to this many trials; beyond, largest first has the last word."""

MAX_SEARCH_TASKS = 64
"""More tasks than this are not searched: the search is recursive and its budget would not reach the end."""


def place_requests(index: NodeIndex, requests: Sequence[Request]) -> list[int] | None:
    """Take room for every request; the nodes in the same order, or None, with nothing taken, if not all fit."""
    nodes = _in_order(index, requests, range(len(requests)))
    if nodes is not None or len(set(requests)) < 2:
        return nodes
    largest_first = sorted(range(len(requests)), key=lambda i: (_weight(requests[i]), -i), reverse=True)
    nodes = _in_order(index, requests, largest_first)
    return nodes if nodes is not None else _search(index, requests, largest_first)


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
    """Depth first over the nodes of unlike state for each task, largest task first."""
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
