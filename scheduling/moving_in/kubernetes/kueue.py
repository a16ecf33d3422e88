"""Kueue: ClusterQueues, Cohorts, ResourceFlavors and what belongs to them → pools, cohorts and flavors of the cluster.

Source: docs/moving-in.md, "From Kueue". Forms of the API: v1alpha1 to v1beta2 (`spec.cohort`, `spec.cohortName`,
`spec.parent`, `spec.parentName`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from pools.domain.configuration.flavors import MAX_NAME, Flavor, find_unreachable
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.configuration.pool_fields import IN_MAINTENANCE
from pools.domain.configuration.pool_flavors import BORROW, NEXT, PREEMPT
from pools.domain.names import LABEL_LIMIT
from pools.domain.structured_input.faults import join_words
from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.moving_in.cycles import find_cycle
from scheduling.moving_in.kubernetes.nodes import GPU_RESOURCES, read_nodes
from scheduling.moving_in.kubernetes.objects import KubernetesObject, Reason, read_objects, report_other_kind
from scheduling.moving_in.kubernetes.priorities import read_priority_classes
from scheduling.moving_in.kubernetes.topologies import read_topologies
from scheduling.moving_in.names import NameRegister, longest_pool_name
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome, SourcePlace
from scheduling.moving_in.simulated_backend import add_backend
from scheduling.moving_in.source_text import SourceText
from scheduling.moving_in.weights import whole_weights

KINDS: Final = "ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, Topology and Node"
NODES_HINT: Final = "Add them to the files: kubectl get nodes -o yaml."
_OTHER_QUOTA: Final = "pools have a quota of GPUs only: the amount of {} is not limited here."
_REASONS: Final[Mapping[str, Reason]] = {
    "spec.namespaceSelector": (
        PartOutcome.TO_DECIDE,
        "who may submit is a role here: give the people of these namespaces the role osmo-POOL-user.",
    ),
    "spec.flavorFungibility": (PartOutcome.NO_COUNTERPART, "this part of the choice of a flavor has no counterpart."),
    "spec.admissionChecks": (PartOutcome.NO_COUNTERPART, "there are no admission checks."),
    "spec.admissionChecksStrategy": (PartOutcome.NO_COUNTERPART, "there are no admission checks."),
    "spec.admissionScope": (PartOutcome.NO_COUNTERPART, "work is ordered by priority and time, never by past use."),
    "spec.concurrentAdmissionPolicy": (
        PartOutcome.NO_COUNTERPART,
        "work takes one flavor and stays there; it does not move to a better one.",
    ),
    "spec.nodeTaints": (
        PartOutcome.NO_COUNTERPART,
        "taints of nodes stay in the cluster; a flavor does not repeat them.",
    ),
    "spec.tolerations": (
        PartOutcome.NO_COUNTERPART,
        "tolerations are given by the pod template of the cluster, not by a flavor.",
    ),
}
_FUNGIBILITY: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "spec.flavorFungibility.whenCanBorrow": (
        "when_can_borrow", {"Borrow": BORROW, "MayStopSearch": BORROW, "TryNextFlavor": NEXT},
    ),
    "spec.flavorFungibility.whenCanPreempt": (
        "when_can_preempt", {"Preempt": PREEMPT, "MayStopSearch": PREEMPT, "TryNextFlavor": NEXT},
    ),
}  # fmt: skip


@dataclass(slots=True)
class _Flavor:
    """`name` is the flavor here, `default` where the source has no labels for its nodes."""

    name: str
    labels: Mapping[str, Any]
    topology: str


@dataclass(slots=True)
class _Amounts:
    """GPUs of one flavor here, from these flavors of the source. None: no limit."""

    nominal: int = 0
    borrowing: int | None = 0
    lending: int | None = 0
    has_lending: bool = False
    sources: list[str] = field(default_factory=list)

    def add(self, flavor: str, nominal: int, borrowing: int | None, lending: int | None) -> None:
        """Add the GPUs of a flavor of the source."""
        self.nominal += nominal
        self.borrowing = None if self.borrowing is None or borrowing is None else self.borrowing + borrowing
        self.lending = (self.lending or 0) + (nominal if lending is None else lending)
        self.has_lending = self.has_lending or lending is not None
        if flavor not in self.sources:
            self.sources.append(flavor)

    @property
    def limits(self) -> dict[str, int]:
        """The limits that there are."""
        found = {"borrowing_limit": self.borrowing, "lending_limit": self.lending}
        return {key: limit for key, limit in found.items() if limit is not None}


@dataclass(slots=True)
class _KueueReader:
    """The import of one set of files."""

    result: ImportResult
    options: ImportOptions
    flavors: dict[str, _Flavor] = field(default_factory=dict)
    used_flavors: set[str] = field(default_factory=set)
    topologies: Mapping[str, list[dict[str, str]]] = field(default_factory=dict)
    cohort_names: dict[str, str] = field(default_factory=dict)
    children: dict[str, dict[str, Fraction]] = field(default_factory=lambda: defaultdict(dict))
    parents: dict[str, str] = field(default_factory=dict)

    def read(self, objects: list[KubernetesObject]) -> None:
        """All objects, those first that others name."""
        by_kind: dict[str, list[KubernetesObject]] = defaultdict(list)
        for each in objects:
            by_kind[each.kind].append(each)
        self.topologies = read_topologies(by_kind.pop("Topology", []), self.result)
        flavors = by_kind.pop("ResourceFlavor", [])
        for each in flavors:
            self._read_flavor(each)
        cohorts, queues = by_kind.pop("Cohort", []), by_kind.pop("ClusterQueue", [])
        self._name_cohorts(cohorts, queues)
        weights = self._weights(cohorts, queues)
        for each in cohorts:
            self._read_cohort(each, weights)
        names = NameRegister("pool", longest_pool_name(self.options.namespace), self.result)
        pools = {each.name: names.claim(each.name, each.place()) for each in queues}
        self.result.queue_pools |= pools
        for each in queues:
            self._read_queue(each, pools[each.name], weights)
        self._add_backend(by_kind.pop("Node", []), flavors)
        for each in by_kind.pop("LocalQueue", []):
            self._read_local_queue(each, pools)
        classes = [*by_kind.pop("WorkloadPriorityClass", []), *by_kind.pop("PriorityClass", [])]
        read_priority_classes(classes, self.result)
        for rest in by_kind.values():
            for each in rest:
                report_other_kind(each, self.result, KINDS)
        if not queues:
            self.result.decide(
                SourcePlace("options", 1),
                "the files have no ClusterQueue, so there are no pools. Add them: kubectl get clusterqueues -o yaml.",
            )

    def _read_flavor(self, each: KubernetesObject) -> None:
        labels = each.take_map("spec.nodeLabels")
        each.used.add("spec.nodeLabels")
        name = each.name if labels else DEFAULT_FLAVOR
        if labels and name == DEFAULT_FLAVOR:
            name = f"{DEFAULT_FLAVOR}-nodes"
            self.result.became(
                each.place("metadata.name"), f"is named {name}: nodes without a flavor are {DEFAULT_FLAVOR}."
            )
        if len(name) > MAX_NAME:
            self.result.fault(each.place("metadata.name"), f"the name of a flavor has at most {MAX_NAME} characters.")
        topology = each.take_text("spec.topologyName")
        self.flavors[each.name] = _Flavor(name, labels, topology)
        if topology and topology not in self.topologies:
            self.result.decide(each.place("spec.topologyName"), "the files do not have this Topology. Add it.")
        _finish(each, self.result)

    def _add_backend(self, nodes: list[KubernetesObject], sources: list[KubernetesObject]) -> None:
        """The cluster with the flavors of which somebody has GPUs. A node has the first flavor whose labels it has, so
        those with more labels come first."""
        places = {each.name: each.place() for each in sources}
        used = {source: each for source, each in self.flavors.items() if each.labels and source in self.used_flavors}
        flavors = sorted(
            (Flavor(each.name, dict(each.labels)) for each in used.values()),
            key=lambda flavor: (-len(flavor.node_labels), flavor.name),
        )
        hidden = dict(find_unreachable(flavors))
        for source, place in places.items():
            each = self.flavors[source]
            if not each.labels:
                self.result.became(place, f"has no labels, so it is the nodes without a flavor ({DEFAULT_FLAVOR}).")
            elif source not in used:
                self.result.state(place, "no queue has GPUs of it.")
            elif each.name in hidden:
                self.result.decide(
                    place, f"a node has one flavor, and those of {each.name} have {hidden[each.name]}. Join the two."
                )
            elif self.options.writes_backend:
                self.result.became(place, f"is the flavor {each.name} of backends.{self.options.backend}.")
            else:
                self.result.decide(
                    place, f"give the cluster {self.options.backend} this flavor with its labels (docs/gpu-flavors.md)."
                )
        found = read_nodes(nodes, self.result, kept_labels={key for each in flavors for key in each.node_labels})
        add_backend(found, self.result, self.options, hint=NODES_HINT, flavors=flavors)

    def _name_cohorts(self, cohorts: list[KubernetesObject], queues: list[KubernetesObject]) -> None:
        names = NameRegister("cohort", LABEL_LIMIT, self.result)
        for each in cohorts:
            self.cohort_names[each.name] = names.claim(each.name, each.place())
        for each in [*cohorts, *queues]:
            above, path = _parent_of(each)
            if above and above not in self.cohort_names:
                self.cohort_names[above] = names.claim(above, each.place(path))
        for each in cohorts:
            if above := _parent_of(each)[0]:
                self.parents[each.name] = above
        if cycle := find_cycle(self.parents):
            message = f"the parents of the cohorts form a cycle: {join_words(cycle).replace(', ', ' → ')}."
            place = next(each for each in cohorts if each.name == cycle[0]).place("spec")
            raise BadSource.at(place, message)

    def _weights(
        self, cohorts: list[KubernetesObject], queues: list[KubernetesObject]
    ) -> dict[tuple[str, str], int | float]:
        """The weights by kind and name; those of one parent keep their ratios."""
        groups: dict[str, dict[str, Fraction]] = defaultdict(dict)
        places: dict[str, KubernetesObject] = {}
        for each in [*cohorts, *queues]:
            weight = each.take("spec.fairSharing.weight")
            number = Fraction(1) if weight is None else read_quantity(_exact(weight))
            if number is None or number < 0:
                raise BadSource.at(each.place("spec.fairSharing.weight"), "this is not a quantity such as 2 or 500m.")
            groups[_parent_of(each)[0]][f"{each.kind}/{each.name}"] = number
            places[f"{each.kind}/{each.name}"] = each
        found: dict[tuple[str, str], int | float] = {}
        for group in groups.values():
            whole, factor, rounded = whole_weights(group)
            for key, weight in whole.items():
                kind, _, name = key.partition("/")
                found[kind, name] = weight
                place = places[key].place("spec.fairSharing.weight")
                if key in rounded:
                    self.result.decide(place, f"the weight {group[key]} is rounded: it is {weight} among its siblings.")
                elif factor != 1:
                    self.result.became(
                        place, f"weight {weight}: all weights of this parent are times {factor}, to be whole."
                    )
        return found

    def _read_cohort(self, each: KubernetesObject, weights: Mapping[tuple[str, str], int | float]) -> None:
        parent = self.parents.get(each.name)
        amounts = self._read_amounts(each, has_parent=parent is not None)
        body: dict[str, Any] = {"weight": weights["Cohort", each.name]}
        if parent:
            body["parent"] = self.cohort_names[parent]
        if amounts:
            body["quotas"] = [
                {"flavor": flavor, "resource": "gpu", "nominal": found.nominal, **found.limits}
                for flavor, found in amounts.items()
            ]
        name = self.cohort_names[each.name]
        self.result.add(OwnedKind.COHORT, name, body, each.place())
        self.result.became(each.place(), f"cohorts.{name}{_amounts_text(amounts)}.")
        _finish(each, self.result)

    def _read_queue(self, each: KubernetesObject, name: str, weights: Mapping[tuple[str, str], int | float]) -> None:
        above = _parent_of(each)[0]
        amounts = self._read_amounts(each, has_parent=bool(above))
        body: dict[str, Any] = {"backend": self.options.backend}
        if above:
            body["cohort"] = self.cohort_names[above]
        weight = weights["ClusterQueue", each.name]
        if set(amounts) <= {DEFAULT_FLAVOR}:
            found = amounts.get(DEFAULT_FLAVOR, _Amounts(borrowing=None, lending=None))
            bound = {} if above else {"maximum": found.nominal}
            body |= {"resources": {"gpu": {"guarantee": found.nominal, **bound, "weight": weight}}, **found.limits}
        else:
            flavors = {
                flavor: {"guarantee": found.nominal, **({} if above else {"maximum": found.nominal}), **found.limits}
                for flavor, found in amounts.items()
            }
            body["resources"] = {"gpu": {"weight": weight}, "flavors": flavors}
        if not above:
            total = sum(found.nominal for found in amounts.values())
            self.result.became(
                each.place(), f"pools.{name} has the maximum {total}: without a cohort nothing is borrowed."
            )
        body |= self._levels(each, [source for found in amounts.values() for source in found.sources])
        self._read_policy(each, name, body)
        self.result.add(OwnedKind.POOL, name, body, each.place())
        self.result.became(each.place(), f"pools.{name}{_amounts_text(amounts)}.")
        if not amounts:
            self.result.decide(
                each.place("spec.resourceGroups"), f"the queue has no GPUs, so pools.{name} has quota 0."
            )
        _finish(each, self.result)

    def _levels(self, each: KubernetesObject, sources: list[str]) -> dict[str, Any]:
        """The levels of the network of a pool, by its flavors."""
        levels: list[dict[str, str]] = []
        for source in sources:
            known = self.flavors.get(source)
            if known is None:
                self.result.decide(
                    each.place(),
                    f"the files do not have the ResourceFlavor {source}; it is taken for the nodes without a flavor. "
                    "Add it.",
                )
            levels += [row for row in self.topologies.get(known.topology if known else "", []) if row not in levels]
        return {"topology_keys": levels} if levels else {}

    def _read_amounts(self, each: KubernetesObject, *, has_parent: bool) -> dict[str, _Amounts]:
        """The GPUs by flavor, in the order of the source."""
        found: dict[str, _Amounts] = {}
        for at, _group in enumerate(each.take_list("spec.resourceGroups")):
            group = f"spec.resourceGroups[{at}]"
            for number, _flavor in enumerate(each.take_list(f"{group}.flavors")):
                path = f"{group}.flavors[{number}]"
                source = each.take_text(f"{path}.name")
                for place, _resource in enumerate(each.take_list(f"{path}.resources")):
                    row = f"{path}.resources[{place}]"
                    resource = each.take_text(f"{row}.name")
                    if resource not in GPU_RESOURCES:
                        each.take(row)
                        self.result.lost(each.place(row), _OTHER_QUOTA.format(resource or "a resource without a name"))
                        continue
                    known = self.flavors.get(source)
                    amounts = found.setdefault(known.name if known else DEFAULT_FLAVOR, _Amounts())
                    self.used_flavors.add(source)
                    self._add_amounts(each, row, amounts, source, has_parent=has_parent)
        for amounts in found.values():
            if not amounts.has_lending or not has_parent:
                amounts.lending = None
            if not has_parent:
                amounts.borrowing = None
            if len(amounts.sources) > 1:
                self.result.decide(
                    each.place("spec.resourceGroups"),
                    f"the quotas of the flavors {', '.join(amounts.sources)} are added: none of them has labels of "
                    "nodes that tell them apart.",
                )
        return found

    def _add_amounts(
        self, each: KubernetesObject, row: str, amounts: _Amounts, source: str, *, has_parent: bool
    ) -> None:
        nominal = self._gpus(each, f"{row}.nominalQuota") or 0
        limits = {key: self._gpus(each, f"{row}.{key}") for key in ("borrowingLimit", "lendingLimit")}
        amounts.add(source, nominal, limits["borrowingLimit"], limits["lendingLimit"])
        for key, limit in limits.items():
            if limit is not None and not has_parent:
                self.result.lost(each.place(f"{row}.{key}"), "the top of a tree has nobody to lend to or borrow from.")

    def _gpus(self, each: KubernetesObject, path: str) -> int | None:
        value = each.take(path)
        if value is None:
            return None
        number = read_quantity(_exact(value))
        if number is None or number < 0:
            raise BadSource.at(each.place(path), "this is not an amount of GPUs such as 8.")
        whole = math.floor(number)
        if whole != number:
            self.result.decide(each.place(path), f"quotas are whole GPUs: {float(number)} became {whole}.")
        return whole

    def _read_policy(self, each: KubernetesObject, name: str, body: dict[str, Any]) -> None:
        """What a queue says besides its amounts."""
        for text in _preemption_differences(each):
            self.result.lost(each.place("spec.preemption"), text)
        for path, (key, words) in _FUNGIBILITY.items():
            word = each.take_text(path)
            if word and "flavors" not in body["resources"]:
                self.result.state(each.place(path), "the queue has GPUs of one flavor.")
            elif word in words:
                body[key] = words[word]
                self.result.became(each.place(path), f"pools.{name} has {key} {body[key]}.")
            elif word:
                self.result.lost(each.place(path), f"{word} has no counterpart.")
        strategy = each.take_text("spec.queueingStrategy")
        if strategy == "StrictFIFO":
            body["hold_after"] = 0
            self.result.decide(
                each.place("spec.queueingStrategy"),
                f"pools.{name} has hold_after 0: on Kubernetes its first work keeps its place. On a simulated "
                "one the setting reserve_after of the cluster does it for all pools. Confirm it.",
            )
        stop = each.take_text("spec.stopPolicy")
        if stop not in ("", "None"):
            body.update(IN_MAINTENANCE)
            self.result.became(each.place("spec.stopPolicy"), f"pools.{name} is in maintenance: nobody may submit.")
            if stop == "HoldAndDrain":
                self.result.decide(each.place("spec.stopPolicy"), "running work goes on here; HoldAndDrain ends it.")

    def _read_local_queue(self, each: KubernetesObject, pools: Mapping[str, str]) -> None:
        queue = each.take_text("spec.clusterQueue")
        if queue in pools:
            self.result.decide(
                each.place(),
                f"work of the namespace {each.namespace} goes to pools.{pools[queue]}: give its people the role "
                f"osmo-{pools[queue]}-user.",
            )
        else:
            self.result.decide(each.place("spec.clusterQueue"), f"the files do not have the ClusterQueue {queue}.")
        reason = (
            PartOutcome.NO_COUNTERPART,
            "work is submitted to a pool; a queue of a namespace has no settings.",
        )
        if each.take("spec.stopPolicy") not in (None, "None"):
            self.result.lost(each.place("spec.stopPolicy"), reason[1])
        each.used.update(("kind", "metadata.name", "metadata.namespace"))
        each.report_rest(self.result, lambda _path: reason)


def read_kueue(sources: list[SourceText], result: ImportResult, options: ImportOptions) -> None:
    """Read the files of a Kueue installation. Raises BadSource."""
    _KueueReader(result, options).read(read_objects(sources, result))


def _parent_of(each: KubernetesObject) -> tuple[str, str]:
    """The cohort above a queue or cohort, and the path that says it."""
    paths = ("spec.cohortName", "spec.cohort") if each.kind == "ClusterQueue" else ("spec.parentName", "spec.parent")
    for path in paths:
        if name := each.take_text(path):
            return name, path
    return "", "spec"


def _preemption_differences(each: KubernetesObject) -> Iterator[str]:
    within = each.take_text("spec.preemption.withinClusterQueue") or "Never"
    reclaim = each.take_text("spec.preemption.reclaimWithinCohort") or "Never"
    borrow = each.take_text("spec.preemption.borrowWithinCohort.policy") or "Never"
    each.take("spec.preemption.borrowWithinCohort.maxPriorityThreshold")
    if within == "Never":
        yield "withinClusterQueue Never: here HIGH and NORMAL work preempts LOW work of its own pool."
    elif within != "LowerPriority":
        yield f"withinClusterQueue {within}: here only HIGH and NORMAL work preempts, and only LOW work."
    if reclaim == "Never" and _parent_of(each)[0]:
        yield "reclaimWithinCohort Never: here a pool always takes its own quota back from LOW work that borrowed it."
    elif reclaim == "LowerPriority":
        yield "reclaimWithinCohort LowerPriority: here a pool takes its quota back from all LOW work that borrowed it."
    if borrow != "Never":
        yield "borrowWithinCohort: here only work within its own quota preempts; borrowing work waits."


def _amounts_text(amounts: Mapping[str, _Amounts]) -> str:
    if not amounts:
        return " has no quota of GPUs"
    words = []
    for found in amounts.values():
        text = f"{found.nominal} of {join_words(found.sources)}"
        if found.borrowing is not None:
            text += f", borrows at most {found.borrowing}"
        if found.lending is not None:
            text += f", lends at most {found.lending}"
        words.append(text)
    return f" has the quota {'; '.join(words)}"


def _exact(value: Any) -> Any:
    """A number of YAML as the text of a quantity."""
    return repr(value) if isinstance(value, float) else value


def _finish(each: KubernetesObject, result: ImportResult) -> None:
    each.used.update(("kind", "metadata.name"))
    each.report_rest(result, _reason)


def _reason(path: str) -> Reason | None:
    if path.endswith(".coveredResources"):
        return PartOutcome.STATE, "the resources are read from the flavors."
    return next(
        (reason for key, reason in _REASONS.items() if path == key or path.startswith((f"{key}.", f"{key}["))), None
    )
