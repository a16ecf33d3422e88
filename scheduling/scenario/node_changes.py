"""Changes of nodes in a what-if: nodes that are gone, and nodes of another size (docs/bad-day.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pools.domain.errors import Fault
from pools.domain.values.amounts import simplify
from scheduling.domain.engine.facts import NodeFacts
from scheduling.domain.judgement.node_loss import gang_after_loss
from scheduling.domain.label_selectors import selector_pattern
from scheduling.domain.lists import parse_label_selector
from scheduling.scenario.draft import ScenarioDraft
from scheduling.scenario.fields import RecordReader, ScenarioValue, read_resources

NODE_CHANGE_KINDS = ("set_node", "remove_node", "remove_nodes", "remove_backend")
SET_NODE_KEYS = ("name", "gpus", "resources")
SELECTOR_KEYS = ("name", "label")


def without_node_changes(question: Mapping[str, Any]) -> dict[str, Any]:
    """The same document or question as if its changes of nodes were not there."""
    changes = question.get("changes")
    if not isinstance(changes, list):
        return dict(question)
    kept = [each for each in changes if not (isinstance(each, Mapping) and is_node_change(each))]
    return {**question, "changes": kept}


def typed_node_changes(nodes: str, gpus: int | None = None) -> list[dict[str, Any]]:
    """The changes that a person typed in one line: names with spaces or commas between them, `KEY=VALUE` of a label, or
    a pattern of names. `gpus`: what is left of each named node; None where they are gone."""
    names = nodes.replace(",", " ").split()
    if gpus is not None:
        return [{"set_node": {"name": name, "gpus": gpus}} for name in names]
    if len(names) == 1 and "=" in nodes:
        return [{"remove_nodes": {"label": names[0]}}]
    if len(names) == 1 and any(sign in nodes for sign in "*(|"):
        return [{"remove_nodes": {"name": names[0]}}]
    return [{"remove_nodes": names}]


def has_node_changes(question: Any) -> bool:
    """Whether a document or question changes nodes."""
    changes = question.get("changes") if isinstance(question, Mapping) else None
    return isinstance(changes, list) and any(isinstance(each, Mapping) and is_node_change(each) for each in changes)


def removed_backend(question: Mapping[str, Any]) -> str | None:
    """The cluster that a question takes away."""
    changes = question.get("changes")
    entries = changes if isinstance(changes, list) else ()
    names = (each.get("remove_backend") for each in entries if isinstance(each, Mapping))
    return next((name for name in names if isinstance(name, str)), None)


def is_node_change(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `changes` changes nodes."""
    return any(entry.get(kind) is not None for kind in NODE_CHANGE_KINDS)


def apply_node_change(draft: ScenarioDraft, entry: RecordReader, kind: str) -> None:
    """One entry of `changes` that changes nodes."""
    if kind == "set_node":
        _resize(draft, entry)
    elif kind == "remove_node":
        name = entry.name("remove_node")
        if name is not None and _knows(draft, name, entry.path_of("remove_node")):
            lose_nodes(draft, [name])
    elif kind == "remove_nodes":
        lose_nodes(draft, _chosen(draft, entry))
    else:
        name = entry.name("remove_backend")
        if name is not None and name != draft.backend:
            message = (
                'A file has no clusters: remove all its nodes with `remove_nodes: {name: "*"}`.'
                if draft.backend is None
                else "The question is about another cluster."
            )
            draft.faults.add(entry.path_of("remove_backend"), Fault.UNKNOWN_NAME, message)
        elif name is not None:
            lose_nodes(draft, list(draft.nodes or ()))


def lose_nodes(draft: ScenarioDraft, names: Collection[str]) -> None:
    """Take nodes away with the work on them."""
    nodes = draft.nodes or {}
    lost = {name: nodes[name] for name in names if name in nodes}
    if not lost:
        return
    draft.lost_nodes.update(lost)
    draft.nodes = {name: node for name, node in nodes.items() if name not in lost}
    _change_capacity(draft, lost.values(), -1)
    now = None if draft.policy is None else draft.policy.now
    for name, gang in draft.gangs.items():
        after = gang_after_loss(gang, lost, now=now)
        if after is not gang:
            draft.lost_gangs.setdefault(name, gang)
            draft.gangs[name] = after


def _resize(draft: ScenarioDraft, entry: RecordReader) -> None:
    new = RecordReader(entry.raw_value("set_node"), entry.path_of("set_node"), draft.faults, "a node")
    new.reject_unknown_keys(SET_NODE_KEYS)
    name, resources = new.name("name", required=True), read_resources(new)
    if name is None or not _knows(draft, name, new.path_of("name")):
        return
    assert draft.nodes is not None
    before = draft.nodes[name]
    after = replace(before, resources={**before.resources, **resources})
    draft.nodes[name] = after
    draft.resized_nodes.setdefault(name, before)
    _change_capacity(draft, [before], -1)
    _change_capacity(draft, [after], 1)


def _change_capacity(draft: ScenarioDraft, nodes: Collection[NodeFacts], sign: int) -> None:
    """The capacity that fair share divides, where it is given apart from the nodes, follows them."""
    if draft.capacity is None:
        return
    capacity = dict(draft.capacity)
    for node in nodes:
        for key, amount in node.resources.items():
            if key in capacity:
                capacity[key] = max(0, capacity[key] + sign * amount)
    draft.capacity = {
        key: amount if isinstance(amount, float) else simplify(amount) for key, amount in capacity.items()
    }


def _knows(draft: ScenarioDraft, name: str, path: str) -> bool:
    if draft.nodes is not None and name in draft.nodes and draft.may_name(name):
        return True
    draft.faults.add(path, Fault.UNKNOWN_NAME, "There is no node of this name.")
    return False


def _chosen(draft: ScenarioDraft, entry: RecordReader) -> list[str]:
    """The nodes of a list of names, or of a map with a pattern of names or a label."""
    written, path = entry.raw_value("remove_nodes"), entry.path_of("remove_nodes")
    if isinstance(written, list):
        return [name for at, name in enumerate(written) if _is_node(draft, name, f"{path}[{at}]")]
    chooser = RecordReader(written, path, draft.faults, "names of nodes in a list, or a map with `name` or `label`")
    chooser.reject_unknown_keys(SELECTOR_KEYS)
    given = [key for key in SELECTOR_KEYS if chooser.is_given(key)]
    if chooser.is_map and len(given) != 1:
        draft.faults.add(path, Fault.BAD_VALUE, "Name one of `name` and `label`.")
        return []
    tests = [test for key in given if (test := _test(chooser, key)) is not None]
    if not tests:
        return []
    found = [name for name, node in (draft.nodes or {}).items() if draft.may_name(name) and tests[0](node)]
    if not found:
        draft.faults.add(chooser.path_of(given[0]), Fault.UNKNOWN_NAME, "No node matches.")
    return found


def _is_node(draft: ScenarioDraft, name: Any, path: str) -> bool:
    if not isinstance(name, str):
        ScenarioValue(name, path, None, draft.faults).refuse("the name of a node")
        return False
    return _knows(draft, name, path)


def _test(chooser: RecordReader, key: str) -> Callable[[NodeFacts], bool] | None:
    text = chooser.name(key)
    if text is None:
        return None
    if key == "name":
        pattern = selector_pattern(text)
        if pattern is None:
            chooser.field(key).refuse("a name, with * for anything and (A|B) for alternatives")
            return None
        names = re.compile(pattern)
        return lambda node: names.search(node.name) is not None
    label = parse_label_selector(text)
    if label is None:
        chooser.field(key).refuse("KEY=VALUE, with * for anything and (A|B) for alternatives")
        return None
    values = re.compile(label[1])
    return lambda node: label[0] in node.labels and values.search(node.labels[label[0]]) is not None
