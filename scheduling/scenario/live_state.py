"""What-if on the facts of the live state: the changes of a scenario, applied to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pools.domain.shortage.degraded import DegradedRule
from scheduling.domain.engine.facts import ClusterFacts, NodeBar
from scheduling.domain.engine.moved_nodes import nodes_after
from scheduling.scenario.bounds import find_broken_bounds
from scheduling.scenario.changes import apply_changes
from scheduling.scenario.draft import ScenarioDraft
from scheduling.scenario.fields import RecordReader
from scheduling.scenario.node_changes import has_node_changes, without_node_changes
from scheduling.scenario.parse import CHANGE_SETTERS, Scenario, ScenarioError, draft_scenario

LIVE_KEYS = ("live", "backend", "changes")
GROUP_SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class LiveNames:
    """The names that users know for these facts. `queues`: other names of queues; `submission_aliases`: the same where
    work is submitted, which goes to a leaf; `allowed_nodes`: by leaf, the nodes that new work there may
    use, None for all; `bars`: what keeps it from the others. `backend`: the name of the cluster; `nodes`: those that
    the asker may name, None for all; `degraded`: how its pools share too few GPUs; `platforms`: of the
    queues at the top, those whose nodes they may use; `flavors`: by leaf, the GPU flavors of its pool."""

    queue_aliases: Mapping[str, str] = field(default_factory=dict)
    submission_aliases: Mapping[str, str] = field(default_factory=dict)
    allowed_nodes: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    bars: Mapping[str, tuple[NodeBar, ...]] = field(default_factory=dict)
    backend: str | None = None
    nodes: Collection[str] | None = None
    degraded: DegradedRule = DegradedRule.PROPORTIONAL
    platforms: Mapping[str, frozenset[str]] = field(default_factory=dict)
    flavors: Mapping[str, Sequence[str]] = field(default_factory=dict)


def build_live_scenario(facts: ClusterFacts, question: Any, names: LiveNames) -> Scenario:
    """The facts with the `changes` of `question` (`{live: true, changes: [...]}`) applied in order; the names in it are
    written out in place. Raises `ScenarioError` with every fault."""
    draft = _read_draft(facts, question, names)
    if not has_node_changes(question):
        return draft_scenario(draft)
    return draft_scenario(draft, _read_draft(facts, without_node_changes(question), names).to_facts())


def _read_draft(facts: ClusterFacts, question: Any, names: LiveNames) -> ScenarioDraft:
    draft = ScenarioDraft(
        nodes=None if facts.nodes is None else {node.name: node for node in facts.nodes},
        capacity=facts.capacity,
        cohorts={cohort.name: cohort for cohort in facts.cohorts},
        queues={queue.name: queue for queue in facts.queues},
        gangs={gang.name: gang for gang in facts.gangs},
        usage=dict(facts.usage),
        demand=dict(facts.demand),
        paths={name: f"live.{name}" for name in (*(c.name for c in facts.cohorts), *(q.name for q in facts.queues))},
        gang_paths={gang.name: f"live.{gang.name}" for gang in facts.gangs},
        queue_count=len(facts.queues),
        last_submitted=max((gang.submitted for gang in facts.gangs), default=0),
        allowed_nodes=names.allowed_nodes,
        flavors=names.flavors,
        bars=names.bars,
        units=facts.units,
        parts=facts.parts,
        policy=facts.policy,
        degraded=names.degraded,
        platforms=names.platforms,
        backend=names.backend,
        nameable_nodes=names.nodes,
    )
    root = RecordReader(question, "", draft.faults, "a question about the live state")
    root.reject_unknown_keys(LIVE_KEYS)
    live = root.raw_value("live")
    if not root.boolean("live", default=True) or live is None:  # another type is reported already
        root.field("live").refuse("true")
    _write_out(root.raw_value("changes"), names, draft.gangs)
    apply_changes(draft, root, CHANGE_SETTERS)
    if not draft.faults.violations:
        # The live state may break bounds already; only the changes can be refused for it.
        draft.check_size(
            ignored_paths={fault.path for fault in find_broken_bounds(facts, draft.bounds, draft.gang_paths)}
        )
    if draft.faults.violations:
        raise ScenarioError.of_faults(draft.faults.violations)
    if draft.nodes is not None:
        gone = [
            task
            for before in facts.gangs
            if (after := draft.gangs[before.name]) is not before
            for task, now in zip(before.tasks, after.tasks, strict=True)
            if task.node is not None and now.node is None
        ]
        draft.nodes = {node.name: node for node in nodes_after(draft.nodes.values(), gone)}
    return draft


def _write_out(changes: Any, manners: LiveNames, gangs: Collection[str]) -> None:
    for entry in changes if isinstance(changes, list) else ():
        if not isinstance(entry, dict):
            continue
        for holder, key, names in (
            (entry.get("set"), "name", manners.queue_aliases),
            (entry.get("set"), "parent", manners.queue_aliases),
            (entry, "remove", manners.queue_aliases),
            (entry.get("submit"), "queue", manners.submission_aliases),
        ):
            if isinstance(holder, dict) and isinstance(holder.get(key), str):
                holder[key] = names.get(holder[key], holder[key])
        if isinstance(entry.get("finish"), str | list):
            entry["finish"] = _with_groups(entry["finish"], gangs)


def _with_groups(named: str | list[Any], gangs: Collection[str]) -> str | list[Any]:
    """The gangs of a workflow: a workflow of several groups ends with all of them."""
    ended: list[Any] = []
    for name in [named] if isinstance(named, str) else named:
        known = not isinstance(name, str) or name in gangs
        groups = [] if known else [gang for gang in gangs if gang.startswith(f"{name}{GROUP_SEPARATOR}")]
        ended += groups or [name]
    return named if ended in (named, [named]) else ended
