"""Which nodes are suspect: different work failed there within minutes, and not elsewhere (docs/bad-day.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scheduling.domain.statuses import TaskStatus

WINDOW: Final = timedelta(minutes=10)
FAILURES: Final = 3
NODE_FAILURES: Final = (
    TaskStatus.FAILED,
    TaskStatus.FAILED_BACKEND_ERROR,
    TaskStatus.FAILED_START_ERROR,
    TaskStatus.FAILED_START_TIMEOUT,
    TaskStatus.RESCHEDULED,
)
"""Ends that may be the fault of a node. A missing image, too much memory, a time limit and a cancellation are not."""


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """An attempt of a workflow of this person that failed on a node."""

    node: str
    workflow: str
    person: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why a node is suspect: the workflows that failed there, and the times of the first and the last failure."""

    node: str
    workflows: tuple[str, ...]
    first: datetime
    last: datetime


def find_suspects(failures: Collection[NodeFailure]) -> list[Suspicion]:
    """The nodes on which `FAILURES` different workflows failed within `WINDOW`, by name.

    Two kinds of failures do not count, because the work is as likely the cause: of a workflow that failed on several
    nodes, and of a person of whom other work failed on another node.
    """
    nodes_of: dict[str, set[str]] = defaultdict(set)
    for each in failures:
        nodes_of[each.workflow].add(each.node)
    elsewhere: dict[str, set[str]] = defaultdict(set)
    for each in failures:
        elsewhere[each.person].add(each.node)
    found: dict[str, dict[str, datetime]] = defaultdict(dict)
    for each in sorted(failures, key=lambda each: each.at):
        if len(nodes_of[each.workflow]) == 1 and len(elsewhere[each.person]) == 1:
            found[each.node].setdefault(each.workflow, each.at)
    return [suspicion for node in sorted(found) if (suspicion := _judge(node, found[node])) is not None]


def _judge(node: str, times: dict[str, datetime]) -> Suspicion | None:
    ordered = sorted(times, key=lambda workflow: (times[workflow], workflow))
    for at in range(len(ordered) - FAILURES + 1):
        first, last = times[ordered[at]], times[ordered[at + FAILURES - 1]]
        if last - first <= WINDOW:
            return Suspicion(node, tuple(ordered[at:]), first, times[ordered[-1]])
    return None
