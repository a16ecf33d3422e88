"""The cluster of a replay: a scenario file (docs/scenarios.md) with nodes and queues and without workloads."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pools.domain.errors import Fault
from pools.domain.values.amounts import DEFAULT_FLAVOR, flavor_of, is_gpu
from pools.domain.values.file_text import decode_text
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.history.traces.faults import FileFaults
from scheduling.history.traces.trace import FlavorsOf
from scheduling.scenario import parse_scenario_text
from scheduling.scenario.parse import ScenarioError


def read_cluster(source: str, faults: FileFaults) -> ClusterFacts | None:
    """The facts of the file; None if it has any fault."""
    try:
        text = decode_text(Path(source).read_bytes())
    except OSError as error:
        faults.add(None, "", Fault.BAD_VALUE, f"'{source}' cannot be read: {error.strerror}.")
        return None
    except UnicodeDecodeError:
        faults.add(None, "", Fault.BAD_VALUE, f"'{source}' is not valid UTF-8.")
        return None
    try:
        facts = parse_scenario_text(text).facts
    except ScenarioError as error:
        for fault in error.details:
            faults.add(fault.line, fault.path, fault.code, fault.message)
        return None
    if facts.gangs:
        message = "The cluster of a replay has no workloads of its own; the trace brings all of them."
        faults.add(_line_of(text, "workloads:"), "workloads", Fault.BAD_VALUE, message)
    if not facts.nodes:
        faults.add(
            None, "nodes", Fault.BAD_VALUE, "The cluster has no nodes; a replay needs machines that run the jobs."
        )
    return None if faults.count else facts


def _line_of(text: str, beginning: str) -> int | None:
    return next((n for n, line in enumerate(text.splitlines(), 1) if line.startswith(beginning)), None)


def flavors_of_nodes(facts: ClusterFacts) -> frozenset[str]:
    """The GPU flavors of the nodes."""
    return frozenset(flavor_of(key) for node in facts.nodes or () for key in node.resources if is_gpu(key))


def flavors_of_kinds(flavors: Collection[str]) -> FlavorsOf:
    """A job of a history uses the flavor of its kind of GPU; without a kind that the nodes have, every one of them."""
    names = {name.lower(): name for name in sorted(flavors)}
    every = () if set(names) <= {DEFAULT_FLAVOR} else tuple(sorted(flavors))

    def choose(_team: str, kind: str, _nodes: str) -> tuple[str, ...]:
        return (names[kind.lower()],) if every and kind.lower() in names else every

    return choose


def leaf_names(facts: ClusterFacts) -> frozenset[str]:
    """The queues that may run work: those without queues below them."""
    parents = {queue.parent for queue in facts.queues}
    return frozenset(queue.name for queue in facts.queues if queue.name not in parents)
