"""What-if: the changes of a scenario, applied one after the other to what was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.scenario.draft import Draft
from scheduling.scenario.fields import Fault, Record, shown
from scheduling.scenario.workloads import read_workload

DEEDS = ("set", "remove", "finish", "submit")
Setter = Any
"""`set_queue` or `set_cohort`: (the object as it is, the entry) → the object as it will be."""


def apply_changes(draft: Draft, root: Record, setters: Mapping[str, tuple[tuple[str, ...], Setter]]) -> None:
    """Every entry of `changes`, in order; `setters` has for `queue` and `cohort` the keys and how to set them."""
    written = root.get("changes")
    count, nodes = len(written) if isinstance(written, list) else 0, len(draft.queues) + len(draft.cohorts)
    if count * nodes > draft.bounds.pairs:
        message = f"{count} changes in a tree of {nodes} queues and cohorts are more than are worked out here."
        draft.faults.note("changes", Fault.BAD_VALUE, message)
        return
    for entry in root.items("changes", "a change"):
        entry.only(*DEEDS)
        deeds = [deed for deed in DEEDS if entry.get(deed) is not None]
        if entry.readable and len(deeds) != 1:
            message = f"A change is one of {', '.join(DEEDS)}; this one has {len(deeds)} of them."
            draft.faults.note(entry.path, Fault.BAD_VALUE, message)
            continue
        for deed in deeds:
            if deed == "set":
                _set(draft, entry, setters)
            elif deed == "remove":
                _remove(draft, entry)
            elif deed == "finish":
                _finish(draft, entry)
            else:
                read_workload(draft, Record(entry.get("submit"), entry.at("submit"), draft.faults, "a workload"))


def _set(draft: Draft, entry: Record, setters: Mapping[str, tuple[tuple[str, ...], Setter]]) -> None:
    new = Record(entry.get("set"), entry.at("set"), draft.faults, "a queue or cohort")
    name = new.text("name", needed=True)
    if name is None:
        return
    if name in draft.queues:
        keys, setter = setters["queue"]
        new.only(*keys)
        draft.queues[name] = setter(draft.queues[name], new)
    elif name in draft.cohorts:
        keys, setter = setters["cohort"]
        new.only(*keys)
        draft.cohorts[name] = setter(draft.cohorts[name], new)
    else:
        draft.faults.note(new.at("name"), Fault.UNKNOWN_NAME, f"There is no queue or cohort '{name}'.")
        return
    if new.has("parent"):
        draft.check_parent(name, new.at("parent"))


def _remove(draft: Draft, entry: Record) -> None:
    name = entry.text("remove")
    if name is None:
        return
    if name not in draft.queues and name not in draft.cohorts:
        draft.faults.note(entry.at("remove"), Fault.UNKNOWN_NAME, f"There is no queue or cohort '{name}'.")
        return
    draft.remove(name)


def _finish(draft: Draft, entry: Record) -> None:
    named = entry.get("finish")
    names = named if isinstance(named, list) else [named]
    for position, name in enumerate(names):
        path = f"{entry.at('finish')}[{position}]" if isinstance(named, list) else entry.at("finish")
        if not isinstance(name, str):
            draft.faults.bad(path, "'finish' names workloads", name)
        elif name not in draft.gangs:
            draft.faults.note(path, Fault.UNKNOWN_NAME, f"There is no workload {shown(name)}.")
        else:
            draft.finish(name)
