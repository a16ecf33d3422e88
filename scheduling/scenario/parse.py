"""A document → the facts of a scenario, with everything that is wrong in it at once (design section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pools.domain.amounts import Number
from pools.domain.errors import DomainError, ErrorCode, Violation
from scheduling.domain.engine.facts import Cohort, Facts, Node, Queue
from scheduling.scenario.bounds import FILE, Bounds
from scheduling.scenario.changes import apply_changes
from scheduling.scenario.draft import Draft
from scheduling.scenario.fields import Fault, Record, read_resources
from scheduling.scenario.workloads import read_workload

ROOT_KEYS = ("nodes", "capacity", "cohorts", "queues", "usage", "demand", "workloads", "changes")
COHORT_KEYS = ("name", "parent", "quota", "borrowing_limit", "lending_limit", "weight")
QUEUE_KEYS = (*COHORT_KEYS, "limit", "priority", "created")


class ScenarioError(DomainError):
    """The scenario cannot be read; nothing was evaluated."""

    error_code = ErrorCode.SCENARIO

    @classmethod
    def of_faults(cls, faults: list[Violation]) -> ScenarioError:
        """All of them at once."""
        count = len(faults)
        message = "The scenario cannot be read: " + (faults[0].message if count == 1 else f"{count} faults.")
        return cls(message, faults)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a document says, changes applied. `paths` and `gang_paths` lead back to the file; `notes` are broken rules
    of the house that were found while reading."""

    facts: Facts
    paths: dict[str, str]
    gang_paths: dict[str, str]
    notes: list[Violation]


def parse(value: Any, *, bounds: Bounds = FILE) -> Scenario:
    """Read one document. Raises `ScenarioError` with every fault and its path."""
    draft = Draft(bounds=bounds)
    root = Record(value, "", draft.faults, "a scenario")
    root.only(*ROOT_KEYS)
    _nodes(draft, root)
    draft.capacity = root.amounts("capacity", unlimited=True)
    for entry in root.items("cohorts", "a cohort"):
        entry.only(*COHORT_KEYS)
        read_cohort(draft, entry)
    for entry in root.items("queues", "a queue"):
        entry.only(*QUEUE_KEYS)
        read_queue(draft, entry)
    draft.check_tree({name: f"{path}.parent" for name, path in draft.paths.items()})
    for key, holder in (("usage", draft.usage), ("demand", draft.demand)):
        holder.update(_by_queue(draft, root, key))
    for entry in root.items("workloads", "a workload"):
        read_workload(draft, entry)
    if not draft.faults.found:
        # On a tree that cannot be read, nothing sensible can be said about what would change in it.
        apply_changes(draft, root, SETTERS)
    if not draft.faults.found:
        draft.check_size()
    if draft.faults.found:
        raise ScenarioError.of_faults(draft.faults.found)
    return Scenario(draft.facts(), draft.paths, draft.gang_paths, draft.notes)


def _nodes(draft: Draft, root: Record) -> None:
    if root.get("nodes") is None:
        return
    draft.nodes = {}
    for entry in root.items("nodes", "a node"):
        entry.only("name", "gpus", "resources")
        name = entry.text("name", needed=True)
        resources = read_resources(entry)
        if name is None:
            continue
        if name in draft.nodes:
            draft.faults.note(entry.at("name"), Fault.DUPLICATE, f"There are two nodes '{name}'.")
        draft.nodes[name] = Node(name, resources)


def _by_queue(draft: Draft, root: Record, key: str) -> dict[str, dict[str, Number]]:
    if root.get(key) is None:
        return {}
    record = Record(root.get(key), key, draft.faults, f"'{key}' by queue")
    found: dict[str, dict[str, Number]] = {}
    for name in record:
        amounts = record.amounts(name)
        if name not in draft.queues:
            draft.faults.note(record.at(name), Fault.UNKNOWN_NAME, f"There is no queue '{name}'.")
        elif amounts is not None:
            found[name] = {key: amount for key, amount in amounts.items() if not isinstance(amount, float)}
    return found


def _name(draft: Draft, entry: Record) -> str | None:
    name = entry.text("name", needed=True)
    if name is not None and name in draft.paths:
        message = f"The name '{name}' is used twice; it is unique over queues and cohorts."
        draft.faults.note(entry.at("name"), Fault.DUPLICATE, message)
        return None
    return name


def read_cohort(draft: Draft, entry: Record) -> None:
    """One entry of `cohorts`."""
    name = _name(draft, entry)
    cohort = set_cohort(Cohort(name or ""), entry)
    if name is not None:
        draft.cohorts[name] = cohort
        draft.paths[name] = entry.path


def read_queue(draft: Draft, entry: Record) -> None:
    """One entry of `queues`."""
    draft.placed += 1
    name = _name(draft, entry)
    queue = set_queue(Queue(name or "", created=draft.placed), entry)
    if name is not None:
        draft.queues[name] = queue
        draft.paths[name] = entry.path


def set_cohort(cohort: Cohort, entry: Record) -> Cohort:
    """The cohort with the fields that the entry gives."""
    changes: dict[str, Any] = {}
    if entry.has("parent"):
        changes["parent"] = entry.text("parent")
    for key in ("quota", "borrowing_limit", "lending_limit"):
        if entry.has(key):
            changes[key] = entry.amounts(key, unlimited=True) or {}
    if entry.has("weight"):
        changes["weight"] = entry.number("weight", 1, least=0)
    return replace(cohort, **changes)


def set_queue(queue: Queue, entry: Record) -> Queue:
    """The queue with the fields that the entry gives."""
    changes: dict[str, Any] = {}
    if entry.has("parent"):
        changes["parent"] = entry.text("parent")
    if entry.has("quota"):
        changes["quota"] = entry.amounts("quota", unlimited=True)
    for key in ("limit", "borrowing_limit", "lending_limit"):
        if entry.has(key):
            changes[key] = entry.amounts(key, unlimited=True) or {}
    if entry.has("weight"):
        changes["weight"] = entry.number("weight", 1, least=0)
    if entry.has("priority"):
        changes["priority"] = entry.number("priority", 100)
    if entry.has("created"):
        changes["created"] = entry.number("created", queue.created)
    return replace(queue, **changes)


SETTERS = {"queue": (QUEUE_KEYS, set_queue), "cohort": (COHORT_KEYS, set_cohort)}
"""What `set` may change, and how."""
