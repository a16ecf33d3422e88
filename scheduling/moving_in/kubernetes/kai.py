"""KAI: the Queues of a cluster → pools with subpools, and cohorts; Topologies → levels of the network.

In KAI an amount of -1 is unlimited, a quota that is not given is 0, and a limit that is not given is 0, which lets
nothing run. CPU is in thousandths of a core, memory in units of 10^6 bytes; pools here have a quota of GPUs only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.moving_in.kubernetes.nodes import read_nodes
from scheduling.moving_in.kubernetes.objects import KubernetesObject, Reason, read_objects, report_other_kind
from scheduling.moving_in.kubernetes.priorities import read_priority_classes
from scheduling.moving_in.kubernetes.topologies import read_topologies
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.queue_tree import QueueAmounts, SourceQueue, add_queues
from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome, SourcePlace
from scheduling.moving_in.simulated_backend import add_backend
from scheduling.moving_in.source_text import SourceText

KINDS: Final = "Queue, Topology, PriorityClass and Node"
NODES_HINT: Final = "Add them to the files: kubectl get nodes -o yaml."
NODE_POOL_LABELS: Final = ("kai.scheduler/node-pool", "runai/node-pool")
DEFAULT_PRIORITY: Final = 100
NOT_PREEMPTIBLE: Final = 100
"""The value of a PriorityClass from which on work stays in its quota and is not preempted."""
NUMBERS: Final = ("quota", "limit", "overQuotaWeight")
_REASONS: Final[Mapping[str, Reason]] = {
    "spec.preemptMinRuntime": (
        PartOutcome.NO_COUNTERPART, "LOW work has no time in which it may not be preempted.",
    ),
    "spec.reclaimMinRuntime": (
        PartOutcome.NO_COUNTERPART, "LOW work beyond a quota has no time in which its GPUs may not be reclaimed.",
    ),
}  # fmt: skip


def read_kai(sources: list[SourceText], result: ImportResult, options: ImportOptions) -> None:
    """Read the files of a cluster with KAI. Raises BadSource."""
    by_kind: dict[str, list[KubernetesObject]] = defaultdict(list)
    for each in read_objects(sources, result):
        by_kind[each.kind].append(each)
    add_backend(read_nodes(by_kind.pop("Node", []), result), result, options, hint=NODES_HINT)
    topologies = read_topologies(by_kind.pop("Topology", []), result)
    levels = [row for rows in topologies.values() for row in rows]
    queues = by_kind.pop("Queue", [])
    _refuse_versions(queues)
    found = [_read_queue(each, result) for each in queues]
    add_queues(found, result, options)
    if levels:
        unique = {row["key"]: row for row in reversed(levels)}
        result.add_to_pools({"topology_keys": [row for row in levels if unique[row["key"]] is row]})
    read_priority_classes(by_kind.pop("PriorityClass", []), result, normal=NOT_PREEMPTIBLE)
    for rest in by_kind.values():
        for each in rest:
            report_other_kind(each, result, KINDS)
    if not queues:
        result.decide(
            SourcePlace("options", 1),
            "the files have no Queue, so there are no pools. Add them: kubectl get queues.scheduling.run.ai -o yaml.",
        )


def _refuse_versions(queues: list[KubernetesObject]) -> None:
    for each in queues:
        version = each.take("apiVersion")
        if not isinstance(version, str) or not version.startswith("scheduling.run.ai/"):
            raise BadSource.at(each.place("apiVersion"), "this is not a Queue of KAI (scheduling.run.ai/v2).")


def _read_queue(each: KubernetesObject, result: ImportResult) -> SourceQueue:
    numbers = {name: _number(each, f"spec.resources.gpu.{name}") for name in NUMBERS}
    lending = _number(each, "spec.resources.gpu.lendingLimit")
    for path, text in _other_resources(each):
        result.lost(each.place(path), text)
    priority = each.take("spec.priority")
    if priority not in (None, DEFAULT_PRIORITY):
        result.lost(each.place("spec.priority"), "pools have no order of their own; quota and weight decide.")
    for label in NODE_POOL_LABELS:
        pool = each.take_map("metadata.labels").get(label)
        if pool:
            result.decide(
                each.place("metadata.labels"),
                f"the queue is for the node pool {pool}: a node pool is a cluster (backend) of its own with node_pool "
                f"{pool}. Make it, and name it in the pool.",
            )
    queue = SourceQueue(
        each.name,
        each.take_text("spec.parentQueue"),
        {
            DEFAULT_FLAVOR: QueueAmounts(
                _unlimited(numbers["quota"] or Fraction(0)),
                _unlimited(numbers["limit"] or Fraction(0)),
                None if lending is None else _unlimited(lending),
            )
        },
        max(numbers["overQuotaWeight"] or Fraction(0), Fraction(0)),
        each.place(),
        description=each.take_text("spec.displayName"),
    )
    each.used.update(("kind", "metadata.name"))
    each.report_rest(result, _REASONS.get)
    return queue


def _other_resources(each: KubernetesObject) -> Iterator[tuple[str, str]]:
    """What is said about CPU and memory and is lost."""
    for resource, unit, factor in (("cpu", "cores", Fraction(1, 1000)), ("memory", "GB", Fraction(1, 1000))):
        path = f"spec.resources.{resource}"
        numbers = {name: _number(each, f"{path}.{name}") for name in NUMBERS}
        if _unlimited(numbers["limit"] or Fraction(0)) is None and numbers["quota"] in (None, 0, -1):
            continue  # nothing is bounded, so nothing is lost
        if not numbers["limit"]:
            yield path, f"no {resource} limit is given, which is 0 in KAI: work that asks for {resource} waits there."
        else:
            shown = ", ".join(
                f"{name} {float(number * factor):g} {unit}"
                for name, number in numbers.items()
                if number is not None and number != -1 and name != "overQuotaWeight"
            )
            yield path, f"pools have a quota of GPUs only; {resource} had {shown}."


def _unlimited(number: Fraction) -> Fraction | None:
    return None if number == -1 else number


def _number(each: KubernetesObject, path: str) -> Fraction | None:
    value: Any = each.take(path)
    if value is None:
        return None
    number = read_quantity(repr(value) if isinstance(value, float) else value)
    if number is None or (number < 0 and number != -1):
        raise BadSource.at(each.place(path), "this is not a number from 0 on, or -1 for unlimited.")
    return number
