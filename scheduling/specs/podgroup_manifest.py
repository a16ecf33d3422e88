"""A PodGroup manifest -> `WorkflowSpec`: one gang with the tree of the manifest (design, A6, D13).

A manifest names minimums and no pods; its annotations give the number and the description of the pods
(`pod_annotations`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import Faults, join_words, quote
from scheduling.domain.cluster.devices import CLAIM_FIELDS
from scheduling.domain.gang import tree_to_json
from scheduling.domain.judgement.podgroup_rules import API_RULE, WARNING, PodGroup, is_of_kai, is_structural
from scheduling.domain.judgement.podgroup_rules import read_pod_group as read_podgroup
from scheduling.domain.priorities import Priority
from scheduling.domain.workflow_spec import GroupSpec, TaskSpec, WorkflowSpec
from scheduling.specs.exit_actions import read_exit_actions
from scheduling.specs.labels import check_labels
from scheduling.specs.name_rules import UniqueNames, read_name
from scheduling.specs.pod_annotations import SubGroupPods, read_pods, uncounted_message
from scheduling.specs.rules import SpecRules
from scheduling.specs.yaml_cursor import MAX_FAULTS, YamlCursor
from scheduling.structured_yaml import node_reader
from scheduling.structured_yaml.nodes import MapNode, Node, ScalarNode, SequenceNode, plain_value

KIND = "PodGroup"
MAX_SUB_GROUPS = 256
PRIORITY_CLASSES = {
    **{f"osmo-{priority.lower()}": priority for priority in Priority},
    "train": Priority.LOW,
    "build-preemptible": Priority.LOW,
    "build": Priority.NORMAL,
    "inference": Priority.HIGH,
}
"""Our priority classes, and those that KAI installs. Both have 50, 100 and 125 for LOW, NORMAL and HIGH;
`build-preemptible` has 75, which may be preempted like LOW work."""

_KIND_LINE = re.compile(rf"""^(["']?)kind\1[ \t]*:[ \t]*(["']?){KIND}\2[ \t]*(?:#.*)?$""", re.MULTILINE)
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_STEP = re.compile(r"\[(\d+)\]|[^.\[\]]+")
_TOP = ("apiVersion", "kind", "metadata", "spec")
_METADATA = ("name", "namespace", "labels", "annotations")
_SPEC = ("minMember", "minSubGroup", "subGroups", "priorityClassName")
_SUB_GROUP = ("name", "parent", "minMember", "minSubGroup")
_REASON_NOT_USED = {
    "queue": ": the work goes into the queue of the pool it is submitted to",
    "topologyConstraint": ": the pods may run on any nodes; a workflow file requires topology keys of the pool",
    "preemptibility": ": work of priority LOW may be preempted, other work may not",
    "namespace": ": the work runs in the namespace of the pool's backend",
    "status": ": the state of work is read in its cluster",
}


@dataclass(frozen=True, slots=True)
class PodGroupManifest:
    """A file that is a PodGroup. `node` is None if the text is not valid YAML; the faults of the text are in
    `faults`."""

    node: Node | None
    faults: Faults


def find_manifest(text: str) -> PodGroupManifest | None:
    """The manifest of this file, if it has `kind: PodGroup` at its top. Objects of other kinds in the same file (a
    Queue, a Topology, a Job) are left out with a warning.

    If the text is not valid YAML, a line `kind: PodGroup` at the left margin is enough.
    """
    if KIND not in text:
        return None
    faults = Faults(maximum=MAX_FAULTS)
    nodes = node_reader.read_yaml_documents(text, faults, path="file", line_of=lambda line: line + 1)
    if nodes is None:
        return PodGroupManifest(None, faults) if _KIND_LINE.search(text) is not None else None
    kinds = [_kind_of(node) for node in nodes]
    found = [node for node, kind in zip(nodes, kinds, strict=True) if kind == KIND]
    if not found or None in kinds:
        return None
    if len(found) > 1:
        message = f"The file has {len(found)} PodGroups. One file holds one workflow: send each PodGroup on its own."
        faults.add("file", Fault.SEVERAL_DOCUMENTS, message, found[1].line)
        return PodGroupManifest(None, faults)
    if others := [str(kind) for kind in kinds if kind != KIND]:
        count = "1 other object" if len(others) == 1 else f"{len(others)} other objects"
        faults.add_warning(f"The file has {count} ({join_words(dict.fromkeys(others))}), left out here.")
    return PodGroupManifest(found[0], faults)


def _kind_of(node: Node) -> str | None:
    kind = node.entries.get("kind") if isinstance(node, MapNode) else None
    return kind.node.text if kind is not None and isinstance(kind.node, ScalarNode) else None


def read_manifest(node: Node, rules: SpecRules, faults: Faults) -> WorkflowSpec:
    """The spec; it is valid only if no fault was noted."""
    return _ManifestReader(node, rules, faults).spec()


class _ManifestReader:
    """The reader of one manifest. `meta`, `written` and `sub_groups` are the known fields with a value of its parts."""

    def __init__(self, node: Node, rules: SpecRules, faults: Faults) -> None:
        self.node, self.rules, self.faults = node, rules, faults
        top = _used(YamlCursor(node, "", node.line, faults), _TOP)
        self.metadata = top.get("metadata") or YamlCursor(MapNode(node.line), "metadata", node.line, faults)
        self.meta = self.metadata.map_entries("name, labels, annotations")
        for name in self.meta:
            if name not in _METADATA:
                _warn_unused(self.meta[name], name, _METADATA)
        self._check_api(top.get("apiVersion"))
        self.written = _used(top["spec"], _SPEC) if "spec" in top else {}
        groups = self.written.get("subGroups")
        listed = groups.list_items("") if groups is not None and isinstance(groups.node, SequenceNode) else []
        self.sub_groups = [_used(item, _SUB_GROUP) for item in listed]

    def spec(self) -> WorkflowSpec:
        name = self._name()
        group = self._pod_group()
        self._check_names()
        least = None if group is None else _least(group)
        pods = read_pods(self.meta.get("annotations"), self.metadata, least, self.rules)
        gang = None if group is None else self._gang(name, group, pods)
        return WorkflowSpec(
            name=name,
            groups=() if gang is None else (gang,),
            exec_timeout=self.rules.default_exec_timeout,
            queue_timeout=self.rules.default_queue_timeout,
            labels=self._labels(),
            priority=self._priority(),
        )

    def _check_api(self, place: YamlCursor | None) -> None:
        text = place.text() if place is not None else None
        if place is not None and text is not None and not is_of_kai(text):
            place.add_fault(Fault.BAD_VALUE, API_RULE)

    def _name(self) -> str:
        if "namespace" in self.meta:
            _warn_unused(self.meta["namespace"], "namespace")
        place = self.meta.get("name")
        if place is None:
            message = "The manifest has no name, which the workflow needs. Add `metadata.name`."
            self.faults.add("metadata.name", Fault.MISSING, message, self.metadata.line)
        return read_name(place)

    def _pod_group(self) -> PodGroup | None:
        """The PodGroup, with every violation noted; None if its structure is broken."""
        group, violations = read_podgroup(plain_value(self.node))
        for violation in violations:
            line = _line_of(self.node, violation.path)
            if violation.severity == WARNING:
                self.faults.add_warning(f"{violation.path} (line {line}): {violation.message}")
            else:
                self.faults.add(violation.path, violation.code, violation.message, line)
        return None if is_structural(violations) else group

    def _check_names(self) -> None:
        """Pods are named after their SubGroup, so its name must be valid for a task, and on a cluster for Kubernetes.
        Names that are missing, invalid or given twice were noted with the structure."""
        noted = {fault.path for fault in self.faults.violations}
        names = UniqueNames()
        for fields in self.sub_groups:
            place = fields.get("name")
            if place is None or place.path in noted:
                continue
            name = names.claim_name(place)
            if name and self.rules.on_cluster and not _LABEL.fullmatch(name):
                place.add_fault(
                    Fault.BAD_NAME,
                    "The name is not valid for a SubGroup on a cluster: at most 63 lower-case "
                    "letters, digits and `-`. Change it.",
                )

    def _gang(self, name: str, group: PodGroup, pods: Mapping[str, SubGroupPods]) -> GroupSpec:
        tasks = tuple(self._tasks(name, group, pods)) if self._is_within_bounds(group, pods) else ()
        if any(task.name == name for task in tasks):
            message = "One of the pods has this name, too. Choose another."
            self.meta["name"].add_fault(Fault.DUPLICATE_NAME, message)
        tree = tree_to_json(group.min_member, group.min_sub_group, group.groups)
        return GroupSpec(name, tasks, ignore_nonlead_status=False, gang=tree)

    def _is_within_bounds(self, group: PodGroup, pods: Mapping[str, SubGroupPods]) -> bool:
        """Whether the numbers of its pods and SubGroups are within the bounds of scheduling."""
        requested = sum(each.count for each in pods.values())
        bounds = (
            ("spec", requested, self.rules.max_pods, "pods"),
            ("spec.subGroups", len(group.groups), MAX_SUB_GROUPS, "SubGroups"),
        )
        for path, count, most, what in bounds:
            if count > most:
                message = f"The PodGroup has {count} {what}; at most {most} are allowed. Split it."
                self.faults.add(path, Fault.TOO_MANY_TASKS, message, _line_of(self.node, path))
        return all(count <= most for _, count, most, _ in bounds)

    def _tasks(self, name: str, group: PodGroup, pods: Mapping[str, SubGroupPods]) -> Iterator[TaskSpec]:
        exit_actions = read_exit_actions(None, self.rules.exit_actions, self.faults)
        for leaf, each in pods.items():
            for number in range(each.count):
                yield TaskSpec(
                    name=f"{leaf if group.groups else name}-{number}",
                    image=each.image,
                    command=each.command,
                    gpu=each.gpu,
                    platform=each.platform,
                    gpu_flavors=each.gpu_flavors,
                    exit_actions=exit_actions,
                    sub_group=leaf if group.groups else "",
                )

    def _labels(self) -> dict[str, str]:
        place = self.meta.get("labels")
        if place is None or place.is_absent:
            return {}
        labels = place.text_map("label: value")
        lines = {name: entry.file_line for name, entry in place.map_entries("").items()} if place.is_map else {}
        for fault in check_labels(labels, place.path, lines):
            self.faults.add(fault.path, fault.code, fault.message, fault.line)
        return labels

    def _priority(self) -> Priority | None:
        place = self.written.get("priorityClassName")
        name = place.text() if place is not None else None
        if place is None or name is None:
            return None
        if name not in PRIORITY_CLASSES:
            allowed = ", ".join(PRIORITY_CLASSES)
            place.add_fault(
                Fault.BAD_VALUE, f"The priority class is not one of {allowed}. Name one, or none for NORMAL."
            )
        elif name == "build-preemptible":
            place.add_warning("build-preemptible is read as LOW, which comes after build and may be preempted.")
        return PRIORITY_CLASSES.get(name)


def _least(group: PodGroup) -> dict[str, int]:
    """The minimum of each SubGroup without children by name, in the order of the file."""
    tree = group.tree()
    return {name: tree.thresholds[x] for name, x in tree.index.items() if tree.is_leaf(x)}


def _used(place: YamlCursor, known: Collection[str]) -> dict[str, YamlCursor]:
    """The known fields of a map that have a value. Each other field gets a warning that it has no effect, or is refused
    where it asks for devices that are not counted."""
    found = place.map_entries("") if place.is_map else {}
    for name in found:
        if name in CLAIM_FIELDS:
            found[name].add_fault(Fault.UNCOUNTED_DEVICES, uncounted_message(quote(name)))
        elif name not in known:
            _warn_unused(found[name], name, known)
    return {name: found[name] for name in known if name in found and not found[name].is_absent}


def _warn_unused(place: YamlCursor, name: str, known: Collection[str] = ()) -> None:
    near = place.faults.suggestion(name, known)
    place.add_warning(f"{quote(name)} is not used here{_REASON_NOT_USED.get(name, '')}.{near}")


def _line_of(node: Node, path: str) -> int:
    """The line of the value at `spec.subGroups[2].minSubGroup`, or of the nearest value around it."""
    line = node.line
    for step in _STEP.finditer(path):
        if isinstance(node, SequenceNode) and step[1] and int(step[1]) < len(node.items):
            node = node.items[int(step[1])]
            line = node.line
        elif isinstance(node, MapNode) and step[0] in node.entries:
            entry = node.entries[step[0]]
            node, line = entry.node, entry.line
        else:
            break
    return line
