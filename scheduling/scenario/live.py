"""What-if on facts that come from somewhere else than a file: the changes of a scenario, applied to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduling.domain.engine.facts import Facts
from scheduling.scenario.bounds import too_large
from scheduling.scenario.changes import apply_changes
from scheduling.scenario.draft import Draft
from scheduling.scenario.fields import Record
from scheduling.scenario.parse import SETTERS, Scenario, ScenarioError

KEYS = ("live", "backend", "changes")
GROUP_SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class Manners:
    """How people speak of these facts. `queues`: what else a queue is called; `submits_to`: the same where work is
    submitted, which goes to a leaf; `allowed`: by leaf, the nodes that new work there may stand on, None for all."""

    queues: Mapping[str, str] = field(default_factory=dict)
    submits_to: Mapping[str, str] = field(default_factory=dict)
    allowed: Mapping[str, frozenset[str] | None] = field(default_factory=dict)


def live_scenario(facts: Facts, question: Any, manners: Manners) -> Scenario:
    """The facts with the `changes` of `question` (`{live: true, changes: [...]}`) applied in order; the names in it are
    written out in place. Raises `ScenarioError` with every fault."""
    draft = Draft(
        nodes=None if facts.nodes is None else {node.name: node for node in facts.nodes},
        capacity=facts.capacity,
        cohorts={cohort.name: cohort for cohort in facts.cohorts},
        queues={queue.name: queue for queue in facts.queues},
        gangs={gang.name: gang for gang in facts.gangs},
        usage=dict(facts.usage),
        demand=dict(facts.demand),
        paths={name: f"live.{name}" for name in (*(c.name for c in facts.cohorts), *(q.name for q in facts.queues))},
        gang_paths={gang.name: f"live.{gang.name}" for gang in facts.gangs},
        placed=len(facts.queues),
        submitted=max((gang.submitted for gang in facts.gangs), default=0),
        allowed=manners.allowed,
        units=facts.units,
    )
    root = Record(question, "", draft.faults, "a question about the live state")
    root.only(*KEYS)
    live = root.get("live")
    if root.flag("live") is False or live is None:  # anything else that is not true is told already
        draft.faults.bad("live", "'live' is true", live)
    _write_out(root.get("changes"), manners, draft.gangs)
    apply_changes(draft, root, SETTERS)
    if not draft.faults.found:
        # What is large already was settled before; only what the changes make of it can be refused.
        draft.check_size(but={fault.path for fault in too_large(facts, draft.bounds, draft.gang_paths)})
    if draft.faults.found:
        raise ScenarioError.of_faults(draft.faults.found)
    return Scenario(draft.facts(), draft.paths, draft.gang_paths, draft.notes)


def _write_out(changes: Any, manners: Manners, gangs: Collection[str]) -> None:
    for entry in changes if isinstance(changes, list) else ():
        if not isinstance(entry, dict):
            continue
        for holder, key, names in (
            (entry.get("set"), "name", manners.queues),
            (entry.get("set"), "parent", manners.queues),
            (entry, "remove", manners.queues),
            (entry.get("submit"), "queue", manners.submits_to),
        ):
            if isinstance(holder, dict) and isinstance(holder.get(key), str):
                holder[key] = names.get(holder[key], holder[key])
        if isinstance(entry.get("finish"), str | list):
            entry["finish"] = _with_groups(entry["finish"], gangs)


def _with_groups(named: str | list[Any], gangs: Collection[str]) -> str | list[Any]:
    """A workflow of several groups ends with all of them."""
    ended: list[Any] = []
    for name in [named] if isinstance(named, str) else named:
        known = not isinstance(name, str) or name in gangs
        groups = [] if known else [gang for gang in gangs if gang.startswith(f"{name}{GROUP_SEPARATOR}")]
        ended += groups or [name]
    return named if ended in (named, [named]) else ended
