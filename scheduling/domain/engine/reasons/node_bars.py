"""The causes that keep a task from nodes, and those without which the work would fit: each cause is tried."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pools.domain.values.counting import first_names
from scheduling.domain.engine.facts import NodeBar, TaskFacts, TopologyNeed
from scheduling.domain.engine.state.nodes import FreeAmounts, NodeIndex, Request, has_enough
from scheduling.domain.engine.state.placement import place_requests

MAX_NAMED_NODES = 3
"""The most nodes that a message names."""


def nodes_text(names: Sequence[str]) -> str:
    """The first nodes by name, and the number of others."""
    if len(names) > MAX_NAMED_NODES:
        return first_names(names, MAX_NAMED_NODES)
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def platform_bar(platform: str, nodes: frozenset[str]) -> NodeBar:
    """The nodes of other platforms than the one of the task."""
    return NodeBar(f"its platform {platform}", "another platform, or another label osmo.platform of the nodes", nodes)


def excluded_bar(nodes: frozenset[str]) -> NodeBar:
    """The nodes that the task excludes itself."""
    return NodeBar("its nodesExcluded", "a shorter list nodesExcluded", nodes)


def taint_bar(taint: str, nodes: frozenset[str]) -> NodeBar:
    """The nodes whose taint no pod like this one tolerates."""
    return NodeBar(f"the taint {taint}", "the taint removed from the nodes", nodes)


def flavor_bar(flavor: str, nodes: frozenset[str]) -> NodeBar:
    """The nodes that had the GPU flavor of the task when work that runs there started, and have another one now."""
    return NodeBar(f"its GPU flavor {flavor}", "another GPU flavor, or the earlier labels of the nodes", nodes)


def topology_need(key: str, label: str, tasks: frozenset[str], domains: Iterable[frozenset[str]]) -> TopologyNeed:
    """Tasks that need nodes with one value of a label."""
    cause = f"its required topology key {key} (label {label})"
    return TopologyNeed(cause, f"make the topology key {key} preferred and not required", tasks, tuple(domains))


@dataclass(frozen=True, slots=True)
class NamedBar:
    """One cause, and the nodes that are large enough for one of the tasks and that it keeps the task from; or, of a
    topology level, the number of tasks that have to be together, and the number of different domains on which they do
    not fit."""

    cause: str
    lever: str
    nodes: tuple[str, ...]
    together: int = 0
    domains: int = 0


@dataclass(frozen=True, slots=True)
class NodeBars:
    """The causes without which the tasks fit: each alone, or with `needs_all` only without all of them."""

    bars: tuple[NamedBar, ...] = ()
    needs_all: bool = False


NO_BARS = NodeBars()


class BarTrials:
    """Placements of some tasks on a copy of the nodes with these amounts, without some of the causes. `requests` are
    of resources alone."""

    def __init__(
        self,
        nodes: NodeIndex,
        amounts: Sequence[FreeAmounts],
        tasks: Sequence[TaskFacts],
        requests: Sequence[Request],
        topology: Sequence[TopologyNeed] = (),
    ) -> None:
        self._names, self._width = nodes.names, nodes.width
        self._all = frozenset(nodes.names)
        self._amounts = [have[: nodes.width] for have in amounts]
        self._tasks, self._requests, self._topology = tasks, requests, topology

    def find(self) -> NodeBars:
        """The causes that have to go so that the tasks fit. None where they would not fit without any cause."""
        causes = {bar.cause: bar.lever for task in self._tasks for bar in task.bars}
        causes |= {need.cause: need.lever for need in self._topology}
        if not causes or not self.fits_without(causes.keys()):
            return NO_BARS
        named = [cause for cause in causes if self.fits_without({cause})]
        needs_all = not named
        if needs_all:
            named = list(causes)
            for cause in causes:
                rest = [other for other in named if other != cause]
                if self.fits_without(rest):
                    named = rest
        return NodeBars(tuple(self._named(each, causes[each]) for each in named), needs_all=needs_all)

    def fits_without(self, gone: Collection[str]) -> bool:
        """Whether all tasks fit if these causes were gone; of each topology level that stays, whether its tasks fit on
        one of its domains."""
        barred = [
            frozenset[str]().union(*(bar.nodes for bar in task.bars if bar.cause not in gone)) for task in self._tasks
        ]
        if not self._fits(range(len(self._tasks)), barred):
            return False
        for need in self._topology:
            mine = [i for i, task in enumerate(self._tasks) if task.name in need.tasks]
            if need.cause not in gone and not any(
                self._fits(mine, [each | (self._all - domain) for each in barred]) for domain in need.domains
            ):
                return False
        return True

    def _fits(self, which: Sequence[int], barred: Sequence[frozenset[str]]) -> bool:
        sets = dict.fromkeys(barred[i] for i in which)
        columns: Mapping[frozenset[str], int] = {each: self._width + n for n, each in enumerate(sets)}
        capacity = [
            (*have, *(int(name not in each) for each in columns))
            for name, have in zip(self._names, self._amounts, strict=True)
        ]
        requests = [(*self._requests[i], (columns[barred[i]], 1)) for i in which]
        return place_requests(NodeIndex(self._names, capacity, self._width), requests) is not None

    def _named(self, cause: str, lever: str) -> NamedBar:
        for need in self._topology:
            if need.cause == cause:
                together = sum(task.name in need.tasks for task in self._tasks)
                return NamedBar(cause, lever, (), together, len(need.domains))
        found: dict[str, None] = {}
        for request, bars in dict.fromkeys(
            (request, task.bars) for request, task in zip(self._requests, self._tasks, strict=True)
        ):
            barred = frozenset[str]().union(*(bar.nodes for bar in bars if bar.cause == cause))
            for name, have in zip(self._names, self._amounts, strict=True):
                if name in barred and has_enough(have, request):
                    found[name] = None
        return NamedBar(cause, lever, tuple(sorted(found)))
