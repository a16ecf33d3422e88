"""What keeps a task from nodes, and which of it would have to go for the work to fit: each cause is tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduling.domain.engine.facts import NodeBar, TaskFacts
from scheduling.domain.engine.nodes import FreeAmounts, NodeIndex, Request, has_enough
from scheduling.domain.engine.placement import place_requests


def platform_bar(platform: str, nodes: frozenset[str]) -> NodeBar:
    """The nodes of other platforms than the one of the task."""
    return NodeBar(f"its platform {platform}", "another platform, or another label osmo.platform of the nodes", nodes)


def excluded_bar(nodes: frozenset[str]) -> NodeBar:
    """The nodes that the task excludes itself."""
    return NodeBar("its nodesExcluded", "a shorter list nodesExcluded", nodes)


def taint_bar(taint: str, nodes: frozenset[str]) -> NodeBar:
    """The nodes whose taint no pod like this one tolerates."""
    return NodeBar(f"the taint {taint}", "the taint removed from the nodes", nodes)


@dataclass(frozen=True, slots=True)
class NamedBar:
    """One cause, and the nodes that are large enough for one of the tasks and that it keeps the task from."""

    cause: str
    lever: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeBars:
    """The causes without which the tasks fit: each alone, or with `needs_all` only without all of them."""

    bars: tuple[NamedBar, ...] = ()
    needs_all: bool = False


NO_BARS = NodeBars()


def find_bars(
    nodes: NodeIndex, amounts: Sequence[FreeAmounts], tasks: Sequence[TaskFacts], requests: Sequence[Request]
) -> NodeBars:
    """The causes that have to go so that these requests (of resources alone) fit on nodes with these amounts. None
    where they would not fit on all nodes together."""
    causes = {bar.cause: bar.lever for task in tasks for bar in task.bars}
    trials = _BarTrials(nodes, amounts, tasks, requests)
    if not causes or not trials.fits_without(causes.keys()):
        return NO_BARS
    told = [cause for cause in causes if trials.fits_without({cause})]
    needs_all = not told
    if needs_all:
        told = list(causes)
        for cause in causes:
            rest = [other for other in told if other != cause]
            if trials.fits_without(rest):
                told = rest
    return NodeBars(tuple(NamedBar(each, causes[each], trials.kept_from(each)) for each in told), needs_all=needs_all)


class _BarTrials:
    """Placements on a copy of the nodes, without some of the causes."""

    def __init__(
        self, nodes: NodeIndex, amounts: Sequence[FreeAmounts], tasks: Sequence[TaskFacts], requests: Sequence[Request]
    ) -> None:
        self._names, self._width = nodes.names, nodes.width
        self._amounts = [have[: nodes.width] for have in amounts]
        self._tasks, self._requests = tasks, requests

    def fits_without(self, gone: Collection[str]) -> bool:
        """Whether all tasks fit if these causes were gone."""
        left = [
            frozenset[str]().union(*(bar.nodes for bar in task.bars if bar.cause not in gone)) for task in self._tasks
        ]
        columns: Mapping[frozenset[str], int] = {
            barred: self._width + i for i, barred in enumerate(dict.fromkeys(left))
        }
        capacity = [
            (*have, *(int(name not in barred) for barred in columns))
            for name, have in zip(self._names, self._amounts, strict=True)
        ]
        index = NodeIndex(self._names, capacity, self._width)
        asked = [(*request, (columns[barred], 1)) for request, barred in zip(self._requests, left, strict=True)]
        return place_requests(index, asked) is not None

    def kept_from(self, cause: str) -> tuple[str, ...]:
        """The nodes that are large enough for one of the tasks and that the cause keeps it from."""
        found: dict[str, None] = {}
        for request, bars in dict.fromkeys(
            (request, task.bars) for request, task in zip(self._requests, self._tasks, strict=True)
        ):
            barred = frozenset[str]().union(*(bar.nodes for bar in bars if bar.cause == cause))
            for name, have in zip(self._names, self._amounts, strict=True):
                if name in barred and has_enough(have, request):
                    found[name] = None
        return tuple(sorted(found))
