"""What-if: the changes of a scenario, applied one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pools.domain.errors import Fault
from scheduling.scenario.draft import ScenarioDraft
from scheduling.scenario.fields import RecordReader, ScenarioValue
from scheduling.scenario.node_changes import NODE_CHANGE_KINDS, apply_node_change
from scheduling.scenario.workloads import read_workload

CHANGE_KINDS = ("set", "remove", "finish", "submit", *NODE_CHANGE_KINDS)
Setter = Any
"""`set_queue` or `set_cohort`: (the object as it is, the entry) → the object as it will be."""


def apply_changes(
    draft: ScenarioDraft, root: RecordReader, setters: Mapping[str, tuple[tuple[str, ...], Setter]]
) -> None:
    """Every entry of `changes`, in order; `setters` has for `queue` and `cohort` the keys and how to set them."""
    written = root.raw_value("changes")
    count, nodes = len(written) if isinstance(written, list) else 0, len(draft.queues) + len(draft.cohorts)
    if count * nodes > draft.bounds.pairs:
        message = f"{count} changes in a tree of {nodes} queues and cohorts are more than are allowed here."
        draft.faults.add("changes", Fault.BAD_VALUE, message)
        return
    for entry in root.records("changes", "a change"):
        entry.reject_unknown_keys(CHANGE_KINDS)
        kinds = [operation for operation in CHANGE_KINDS if entry.raw_value(operation) is not None]
        if entry.is_map and len(kinds) != 1:
            message = f"A change is one of {', '.join(CHANGE_KINDS)}; this one has {len(kinds)} of them."
            draft.faults.add(entry.path, Fault.BAD_VALUE, message)
            continue
        for operation in kinds:
            if operation == "set":
                _set(draft, entry, setters)
            elif operation == "remove":
                _remove(draft, entry)
            elif operation == "finish":
                _finish(draft, entry)
            elif operation in NODE_CHANGE_KINDS:
                apply_node_change(draft, entry, operation)
            else:
                read_workload(
                    draft, RecordReader(entry.raw_value("submit"), entry.path_of("submit"), draft.faults, "a workload")
                )


def _set(draft: ScenarioDraft, entry: RecordReader, setters: Mapping[str, tuple[tuple[str, ...], Setter]]) -> None:
    new = RecordReader(entry.raw_value("set"), entry.path_of("set"), draft.faults, "a queue or cohort")
    name = new.name("name", required=True)
    if name is None:
        return
    if name in draft.queues:
        keys, setter = setters["queue"]
        new.reject_unknown_keys(keys)
        draft.queues[name] = setter(draft.queues[name], new)
    elif name in draft.cohorts:
        keys, setter = setters["cohort"]
        new.reject_unknown_keys(keys)
        draft.cohorts[name] = setter(draft.cohorts[name], new)
    else:
        draft.faults.add(new.path_of("name"), Fault.UNKNOWN_NAME, "There is no queue or cohort of this name.")
        return
    if new.has_key("parent"):
        draft.check_parent(name, new.path_of("parent"))


def _remove(draft: ScenarioDraft, entry: RecordReader) -> None:
    name = entry.name("remove")
    if name is None:
        return
    if name not in draft.queues and name not in draft.cohorts:
        draft.faults.add(entry.path_of("remove"), Fault.UNKNOWN_NAME, "There is no queue or cohort of this name.")
        return
    draft.remove_node(name)


def _finish(draft: ScenarioDraft, entry: RecordReader) -> None:
    named = entry.raw_value("finish")
    names = named if isinstance(named, list) else [named]
    for position, name in enumerate(names):
        path = f"{entry.path_of('finish')}[{position}]" if isinstance(named, list) else entry.path_of("finish")
        if not isinstance(name, str):
            ScenarioValue(name, path, None, draft.faults).refuse("the name of a workload")
        elif name not in draft.gangs:
            draft.faults.add(path, Fault.UNKNOWN_NAME, "There is no workload of this name.")
        else:
            draft.finish_workload(name)
