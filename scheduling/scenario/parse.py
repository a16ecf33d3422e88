"""A document → the facts of a scenario, or all its faults at once (docs/scenarios.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pools.domain.configuration.backend_config import POLICY_DEFAULTS, POLICY_TIMES, VictimRule
from pools.domain.errors import DomainError, ErrorCode, Fault, Violation
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.shortage.degraded import DegradedRule
from pools.domain.values.amounts import GPU, Number, is_gpu
from scheduling.domain.engine.facts import (
    ClusterFacts,
    CohortFacts,
    GangFacts,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    WhenCanBorrow,
    WhenCanPreempt,
)
from scheduling.scenario.bounds import FILE_BOUNDS, ScenarioBounds
from scheduling.scenario.changes import apply_changes
from scheduling.scenario.draft import ScenarioDraft
from scheduling.scenario.fields import RecordReader, read_resources
from scheduling.scenario.node_changes import has_node_changes, without_node_changes
from scheduling.scenario.workloads import TIME_KEYS, read_workload

ROOT_KEYS = ("nodes", "capacity", "cohorts", "queues", "usage", "demand", "workloads", "changes", "policy")
COHORT_KEYS = ("name", "parent", "quota", *LIMIT_KEYS, "weight")
NODE_KEYS = ("name", "gpus", "resources", "labels")
POLICY_KEYS = (*POLICY_DEFAULTS, "now")
QUEUE_KEYS = (*COHORT_KEYS, "limit", "priority", "created", "when_can_borrow", "when_can_preempt")


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
class NodeLoss:
    """What changes of nodes did. `baseline` are the facts with all other changes; `lost` and `resized` are nodes, and
    `gangs` the work that lost one of them, as they were before. `platforms`: of queues at the top, those whose nodes
    they may use; a queue that is not in it may use all."""

    baseline: ClusterFacts
    lost: Mapping[str, NodeFacts]
    resized: Mapping[str, NodeFacts]
    gangs: Mapping[str, GangFacts]
    degraded: DegradedRule
    platforms: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The facts of a document with its changes applied. `paths` and `gang_paths` lead back to the file;
    `rule_violations` are broken rules that were found while reading. `loss` is there if nodes were changed."""

    facts: ClusterFacts
    paths: dict[str, str]
    gang_paths: dict[str, str]
    rule_violations: list[Violation]
    loss: NodeLoss | None = None


def parse_scenario(value: Any, *, bounds: ScenarioBounds = FILE_BOUNDS) -> Scenario:
    """Read one document. Raises `ScenarioError` with every fault and its path."""
    draft = _read_draft(value, bounds)
    if not has_node_changes(value):
        return draft_scenario(draft)
    return draft_scenario(draft, _read_draft(without_node_changes(value), bounds).to_facts())


def draft_scenario(draft: ScenarioDraft, baseline: ClusterFacts | None = None) -> Scenario:
    """The scenario of a draft that has been read; `baseline` are its facts without the changes of nodes, if it has
    some."""
    loss = None
    if baseline is not None:
        loss = NodeLoss(
            baseline, draft.lost_nodes, draft.resized_nodes, draft.lost_gangs, draft.degraded, draft.platforms
        )
    return Scenario(draft.to_facts(), draft.paths, draft.gang_paths, draft.rule_violations, loss)


def _read_draft(value: Any, bounds: ScenarioBounds) -> ScenarioDraft:
    draft = ScenarioDraft(bounds=bounds)
    root = RecordReader(value, "", draft.faults, "a scenario")
    root.reject_unknown_keys(ROOT_KEYS)
    _nodes(draft, root)
    draft.capacity = root.amounts("capacity", unlimited=True)
    _policy(draft, root)
    for entry in root.records("cohorts", "a cohort"):
        entry.reject_unknown_keys(COHORT_KEYS)
        read_cohort(draft, entry)
    for entry in root.records("queues", "a queue"):
        entry.reject_unknown_keys(QUEUE_KEYS)
        read_queue(draft, entry)
    draft.check_tree({name: f"{path}.parent" for name, path in draft.paths.items()})
    for key, holder in (("usage", draft.usage), ("demand", draft.demand)):
        holder.update(_by_queue(draft, root, key))
    for entry in root.records("workloads", "a workload"):
        read_workload(draft, entry)
    if not draft.faults.violations:
        # Changes to a tree that cannot be read would only add misleading faults.
        apply_changes(draft, root, CHANGE_SETTERS)
    if not draft.faults.violations:
        draft.check_size()
        _note_unread_times(draft)
    if draft.faults.violations:
        raise ScenarioError.of_faults(draft.faults.violations)
    return draft


def _note_unread_times(draft: ScenarioDraft) -> None:
    """Report times of workloads that nothing reads: only a policy does, and checkpoints only one of least loss."""
    policy, why = draft.policy, "a policy reads, and the scenario has no `policy`"
    unread: Sequence[str] = TIME_KEYS
    if policy is not None:
        unread = () if policy.victims is VictimRule.LEAST_LOST else ("checkpoint_every",)
        why = "`victims: least_lost` reads, and the policy has other victims"
    for name, gang in draft.gangs.items():
        for key in unread:
            if getattr(gang, key) is not None:
                message = f"'{name}' has a time that only {why}."
                draft.rule_violations.append(Violation(f"{draft.gang_paths[name]}.{key}", Fault.NO_EFFECT, message))


def _nodes(draft: ScenarioDraft, root: RecordReader) -> None:
    if root.raw_value("nodes") is None:
        return
    draft.nodes = {}
    for entry in root.records("nodes", "a node"):
        entry.reject_unknown_keys(NODE_KEYS)
        name = entry.name("name", required=True)
        resources, labels = read_resources(entry), _labels(entry)
        if name is None:
            continue
        if name in draft.nodes:
            draft.faults.add(entry.path_of("name"), Fault.DUPLICATE_NAME, "Two nodes have this name.")
        draft.nodes[name] = NodeFacts(name, resources, labels)


def _labels(entry: RecordReader) -> dict[str, str]:
    if not entry.is_given("labels"):
        return {}
    record = RecordReader(entry.raw_value("labels"), entry.path_of("labels"), entry.faults, "labels")
    return {key: text for key in record if (text := record.name(key)) is not None}


def _policy(draft: ScenarioDraft, root: RecordReader) -> None:
    """The policy; a time that is not given is 0, and null means never."""
    if root.raw_value("policy") is None:
        return
    entry = RecordReader(root.raw_value("policy"), "policy", draft.faults, "a policy")
    entry.reject_unknown_keys(POLICY_KEYS)
    times = {key: entry.number(key, 0, minimum=0) if entry.is_given(key) else None for key in (*POLICY_TIMES, "now")}
    draft.policy = PolicyFacts(
        now=times["now"] or 0,
        reserve_after=times["reserve_after"],
        ageing=times["ageing"],
        victims=VictimRule(entry.choice("victims", VictimRule, VictimRule.YOUNGEST)),
    )
    draft.degraded = DegradedRule(entry.choice("degraded", DegradedRule, DegradedRule.PROPORTIONAL))


def _by_queue(draft: ScenarioDraft, root: RecordReader, key: str) -> dict[str, dict[str, Number]]:
    if root.raw_value(key) is None:
        return {}
    record = RecordReader(root.raw_value(key), key, draft.faults, f"'{key}' by queue")
    found: dict[str, dict[str, Number]] = {}
    for name in record:
        amounts = record.amounts(name)
        if name not in draft.queues:
            draft.faults.add(record.path_of(name), Fault.UNKNOWN_NAME, "There is no queue of this name.")
        elif amounts is not None:
            found[name] = {key: amount for key, amount in amounts.items() if not isinstance(amount, float)}
    return found


def _name(draft: ScenarioDraft, entry: RecordReader) -> str | None:
    name = entry.name("name", required=True)
    if name is not None and name in draft.paths:
        message = "The name is used twice; it is unique over queues and cohorts."
        draft.faults.add(entry.path_of("name"), Fault.DUPLICATE_NAME, message)
        return None
    return name


def read_cohort(draft: ScenarioDraft, entry: RecordReader) -> None:
    """One entry of `cohorts`."""
    name = _name(draft, entry)
    cohort = set_cohort(CohortFacts(name or ""), entry)
    if name is not None:
        draft.cohorts[name] = cohort
        draft.paths[name] = entry.path


def read_queue(draft: ScenarioDraft, entry: RecordReader) -> None:
    """One entry of `queues`."""
    draft.queue_count += 1
    name = _name(draft, entry)
    queue = set_queue(QueueFacts(name or "", created=draft.queue_count), entry)
    if name is not None:
        draft.queues[name] = queue
        draft.paths[name] = entry.path


def _changed_amounts(
    before: Mapping[str, Any] | None, entry: RecordReader, key: str, quota: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The amounts of `entry`, and those before of resources that it does not name; null and `{}` are none at all. A
    number means the flavor of a node whose `quota` has one, and is refused where it has several."""
    named = entry.amounts(key, unlimited=True)
    kinds = [kind for kind in quota or {} if is_gpu(kind)]
    if named and kinds and GPU not in kinds and not entry.field(key).is_map:
        if len(kinds) > 1:
            listed = ", ".join(f"{kind}: …" for kind in kinds)
            entry.add_fault(key, Fault.BAD_VALUE, f"is a number, and the quota is by flavor: give {{{listed}}}.")
        named = {kinds[0]: named[GPU]}
    return {**(before or {}), **named} if named else named


def set_cohort(cohort: CohortFacts, entry: RecordReader) -> CohortFacts:
    """The cohort with the fields that the entry gives."""
    changes: dict[str, Any] = {}
    if entry.has_key("parent"):
        changes["parent"] = entry.name("parent")
    for key in ("quota", *LIMIT_KEYS):
        if entry.has_key(key):
            changes[key] = _changed_amounts(getattr(cohort, key), entry, key, cohort.quota) or {}
    if entry.has_key("weight"):
        changes["weight"] = entry.number("weight", 1, minimum=0)
    return replace(cohort, **changes)


def set_queue(queue: QueueFacts, entry: RecordReader) -> QueueFacts:
    """The queue with the fields that the entry gives."""
    changes: dict[str, Any] = {}
    if entry.has_key("parent"):
        changes["parent"] = entry.name("parent")
    if entry.has_key("quota"):
        changes["quota"] = _changed_amounts(queue.quota, entry, "quota", queue.quota)
    for key in ("limit", *LIMIT_KEYS):
        if entry.has_key(key):
            changes[key] = _changed_amounts(getattr(queue, key), entry, key, queue.quota) or {}
    if entry.has_key("weight"):
        changes["weight"] = entry.number("weight", 1, minimum=0)
    if entry.has_key("priority"):
        changes["priority"] = entry.number("priority", 100)
    if entry.has_key("created"):
        changes["created"] = entry.number("created", queue.created)
    if entry.has_key("when_can_borrow"):
        changes["when_can_borrow"] = entry.choice("when_can_borrow", WhenCanBorrow, WhenCanBorrow.BORROW)
    if entry.has_key("when_can_preempt"):
        changes["when_can_preempt"] = entry.choice("when_can_preempt", WhenCanPreempt, WhenCanPreempt.NEXT)
    return replace(queue, **changes)


CHANGE_SETTERS = {"queue": (QUEUE_KEYS, set_queue), "cohort": (COHORT_KEYS, set_cohort)}
"""The keys that `set` may change, and the function that changes them."""
