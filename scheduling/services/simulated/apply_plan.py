"""Applying a plan: each unit in one transaction, and only if it is still valid under the locks.

A start and all evictions and moves for it are one unit. Starts without evictions are written in batches, tree by tree.
Before a unit is written, all trees that it touches are locked and the unit is checked again: its gangs wait and run as
the plan says, its nodes have the free capacity, the quotas and limits on the path of the start allow it, and a gang
that loses GPUs to another leaf is still judged by the numbers of the plan. A unit that is no longer valid is dropped;
the next plan starts from the new state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import NotRequired, TypedDict
from uuid import UUID

from pools.database.one_by_one import note_left_out
from pools.database.transactions import DatabaseLost, change
from pools.domain.errors import Busy
from pools.domain.people.roles import SYSTEM
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.locking import lock_cohort_trees, lock_pool_trees
from pools.models import Backend
from scheduling.domain.decision_messages import DecisionFacts, anonymous_decision_message, decision_message
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.flavor_choices import sum_by_flavor
from scheduling.domain.judgement.plan_units import Gates, LeafPaths, NodeCapacity, PlanUnit, split_plan, why_not
from scheduling.domain.priorities import Priority
from scheduling.domain.receipts.causes import QueueNumbers
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Decision, Group, SchedulingCycle, Task
from scheduling.selectors.queue.live_facts import GangRef, LiveFacts
from scheduling.selectors.queue.start_gates import read_gate_paths, read_tree_gates
from scheduling.services.decisions import DecisionRows, build_decision
from scheduling.services.receipts.plan_receipts import PlanReceipts
from scheduling.services.workflows.gpu_workers import NamespaceHeadroom
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_STARTS_TOGETHER, MAX_TREES_TOGETHER = 200, 8
"""The largest number of plain starts in one transaction, and of trees that it locks: submissions to these pools wait
for it."""

StepBody = TypedDict(
    "StepBody",
    {
        "pass": int,
        "action": str,
        "workflow": str,
        "group": str,
        "status": NotRequired[str],  # of the end of a gang; the others of a step of a plan
        "tasks": NotRequired[list[str]],
        "nodes": NotRequired[list[str]],
        "for": NotRequired[str | None],
        "message": NotRequired[str],
    },
)
"""A step that was done."""
UsageChange = tuple[int, Priority, int, str]
"""GPUs of a flavor that work of a priority gains (or, below 0, loses) on a leaf."""


@dataclass(slots=True)
class _Batch:
    """One transaction: the locked trees with their work, and what the units of the plan have changed there so far."""

    transitions: Mapping[int, WorkflowTransition]
    gates: Gates
    headroom: NamespaceHeadroom
    steps: list[StepBody] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    usage_changes: list[UsageChange] = field(default_factory=list)
    as_planned: bool = True

    def find_group(self, gang: GangRef) -> Group | None:
        """The row of a gang, if its workflow is still in a locked tree."""
        transition = self.transitions.get(gang.root)
        return None if transition is None else transition.groups.get(gang.workflow, {}).get(gang.group_name)

    def group(self, gang: GangRef) -> Group:
        """The row of a gang that was found before."""
        group = self.find_group(gang)
        assert group is not None, "the unit was checked before"
        return group

    def tasks(self, gang: GangRef, names: Iterable[str]) -> list[Task]:
        """The open attempts of these tasks of a gang."""
        requested = set(names)
        attempts = self.transitions[gang.root].attempts.open_attempts(gang.group)
        return [task for task in attempts if task.name in requested]

    def started(self, gang: GangRef, names: Iterable[str], now: datetime) -> datetime:
        """When the first of these tasks of a gang started."""
        return min((task.start_time for task in self.tasks(gang, names) if task.start_time is not None), default=now)

    def priority(self, gang: GangRef) -> Priority:
        """The priority of a gang's workflow."""
        return Priority(self.transitions[gang.root].workflows[gang.workflow].priority)

    def save(self) -> None:
        """Write the work and the record of the decisions."""
        for transition in self.transitions.values():
            transition.save()
        Decision.objects.bulk_create(self.decisions)


class PlanExecution:
    """The execution of one plan.

    `steps` are the steps that were done, in the form of the API. `as_planned` is False when a unit was dropped or ended
    otherwise than planned, so that the state differs from the planned result. `busy_error` is the error of the last
    tree that could not be locked in time.
    """

    def __init__(
        self, backend: Backend, live: LiveFacts, world: World, now: datetime, cycle: SchedulingCycle | None = None
    ) -> None:
        """`world` is the state that the plan leads to, with the shares by which it was made; `cycle` is written with
        the first decision."""
        self.steps: list[StepBody] = []
        self.as_planned = True
        self.busy_error: Busy | None = None
        self._backend, self._gangs, self._now = backend, live.gangs, now
        self._capacity = NodeCapacity(live.facts)
        self._planned_gates = Gates(live.gate_paths, live.tree_gates)
        self._why = PlanReceipts(live, world)
        self._busy_roots: set[int] = set()
        self._cycle = cycle

    def apply(self, steps: Iterable[Step]) -> None:
        """Do the steps of the plan in their order. A busy tree does not delay the others. A lost connection ends the
        execution: the lock of the reconciliation was lost with the connection, and the plan may be outdated."""
        plain: list[PlanUnit] = []
        units = list(split_plan(steps))
        if self._cycle is not None:
            self._cycle.units = len(units)
        for unit in units:
            if unit.is_plain_start:
                plain.append(unit)
            else:
                self._apply_plain_starts(plain)
                plain = []
                self._apply_together([unit])
        self._apply_plain_starts(plain)

    def _apply_plain_starts(self, plain: Sequence[PlanUnit]) -> None:
        """Starts without evictions may be done in any order: one transaction has many starts of a tree, and a few
        trees."""
        together: list[PlanUnit] = []
        for _, units in groupby(sorted(plain, key=self._root_id), key=self._root_id):
            for unit in units:
                if len(together) >= MAX_STARTS_TOGETHER:
                    self._apply_together(together)
                    together = []
                together.append(unit)
            if len(set(map(self._root_id, together))) >= MAX_TREES_TOGETHER:
                self._apply_together(together)
                together = []
        if together:
            self._apply_together(together)

    def _apply_together(self, units: Sequence[PlanUnit]) -> None:
        """Do these units in one transaction."""
        root_ids = {self._gangs[gang].root for unit in units for gang in unit.gangs}
        if root_ids & self._busy_roots:
            self.as_planned = False
            return
        before = self._capacity.mark()
        try:
            with change(actor=SYSTEM, description="reconciled", controller_of=self._backend.pk):
                batch = self._lock(root_ids, units)
                for unit in units:
                    self._apply_unit(batch, unit)
                batch.save()
                cycle = self._cycle if batch.decisions else None
                if cycle is not None:
                    cycle.save(force_insert=True)
        except DatabaseLost:
            raise
        except Busy as error:
            self._capacity.undo(before)
            if len(units) > 1 and len(root_ids) > 1:
                for root_id in sorted(root_ids):
                    self._apply_together([unit for unit in units if self._root_id(unit) == root_id])
            else:
                self._busy_roots |= root_ids
                self.busy_error, self.as_planned = error, False
            return
        except Exception as error:  # noqa: BLE001 (the plan of one gang that cannot be written leaves those of the others)
            self._capacity.undo(before)
            self.as_planned = False
            if len(units) == 1:
                note_left_out("the plan of a gang", ", ".join(sorted(units[0].gangs)), error)
            else:
                for unit in units:
                    self._apply_together([unit])
            return
        if cycle is not None:
            self._cycle = None
        self.steps += batch.steps
        self.as_planned &= batch.as_planned
        for added in batch.usage_changes:
            self._planned_gates.add_usage(*added)

    def _lock(self, root_ids: set[int], units: Sequence[PlanUnit]) -> _Batch:
        """Lock the trees of these units, and read their work and their numbers."""
        roots = lock_pool_trees(root_ids)
        tops = lock_cohort_trees({root.cohort_id for root in roots if root.cohort_id is not None})
        tree = read_tree_gates(roots, tops)
        workflows: dict[int, set[UUID]] = defaultdict(set)
        for gang in (self._gangs[name] for unit in units for name in unit.gangs):
            workflows[gang.root].add(gang.workflow)
        transitions: dict[int, WorkflowTransition] = {}
        paths: dict[int, LeafPaths] = {}
        for root in roots:
            if root.backend_id == self._backend.pk:
                root.backend = self._backend
            transitions[root.pk] = WorkflowTransition(root, workflows[root.pk], now=self._now)
            paths |= read_gate_paths(root)
        return _Batch(transitions, Gates(paths, tree), NamespaceHeadroom(roots))

    def _apply_unit(self, batch: _Batch, unit: PlanUnit) -> None:
        """Do the unit if it is still valid, else leave everything as it is."""
        before, headroom = self._capacity.mark(), batch.headroom.snapshot()
        numbers = self._why.queue_numbers(batch.gates, unit)
        if (
            self._has_planned_state(batch, unit)
            and self._capacity.book(unit)
            and self._fits_namespaces(batch, unit)
            and self._fits_quotas(batch, unit)
        ):
            for name, steps in _steps_by_gang(unit).items():
                self._write_steps(batch, self._gangs[name], steps, numbers)
        else:
            self._capacity.undo(before)
            batch.headroom.restore(headroom)
            batch.as_planned = False

    # -- is the unit still valid? ------------------------------------------------------------------------------------

    def _has_planned_state(self, batch: _Batch, unit: PlanUnit) -> bool:
        """Whether the gangs wait and run as the plan says. A gang that does not run yet starts with its minimum."""
        for step in unit.steps:
            gang = self._gangs[step.gang]
            group = batch.find_group(gang)
            if group is None:
                return False
            planned = TaskStatus.SCHEDULING if step.action is StepAction.START else TaskStatus.RUNNING
            tasks = [task for task in batch.tasks(gang, step.tasks) if task.status == planned]
            if len(tasks) < len(step.tasks):
                return False
            is_running = step.action is not StepAction.START or group.status == TaskStatus.RUNNING
            if not is_running and not batch.transitions[gang.root].has_minimum(group, tasks):
                return False
        return True

    def _fits_namespaces(self, batch: _Batch, unit: PlanUnit) -> bool:
        """Whether the GPU quotas of the pools' namespaces allow the unit; if they do, it is counted there."""
        for step in unit.steps:
            gang = self._gangs[step.gang]
            tasks = batch.tasks(gang, step.tasks)
            if step.action is StepAction.START and batch.headroom.count_start(gang.root, tasks):
                return False
            if step.action not in {StepAction.START, StepAction.MOVE}:
                batch.headroom.count_stop(gang.root, tasks)
        return True

    def _fits_quotas(self, batch: _Batch, unit: PlanUnit) -> bool:
        """Whether quotas and limits allow the unit; if they do, its usage is added to them."""
        for step in unit.steps:
            # A reclaim depends on fair shares that were computed from exactly these numbers.
            leaf = self._gangs[step.gang].leaf
            for flavor in self._gpus_by_flavor(batch, step) if step.action is StepAction.RECLAIM else ():
                planned = self._planned_gates.leaf_numbers(leaf, flavor)
                if batch.gates.leaf_numbers(leaf, flavor) != planned:
                    return False
        changes: list[UsageChange] = []
        for step in unit.steps:
            gang = self._gangs[step.gang]
            priority, is_start = batch.priority(gang), step.action is StepAction.START
            if step.action is StepAction.MOVE:
                continue
            for flavor, gpus in self._gpus_by_flavor(batch, step).items():
                if is_start and batch.gates.verdict(gang.leaf, priority, gpus, flavor) is not None:
                    for leaf, earlier, added, of in changes:
                        batch.gates.add_usage(leaf, earlier, -added, of)
                    return False
                changes.append((gang.leaf, priority, gpus if is_start else -gpus, flavor))
                batch.gates.add_usage(*changes[-1])
        batch.usage_changes += changes
        return True

    # -- write it ----------------------------------------------------------------------------------------------------

    def _write_steps(
        self, batch: _Batch, gang: GangRef, steps: Sequence[Step], numbers: Mapping[int, QueueNumbers]
    ) -> None:
        """Write all steps of a unit for one gang at once: evictions of its tasks, and moves to other nodes."""
        group, transition = batch.group(gang), batch.transitions[gang.root]
        decided = [self._decision_facts(batch, step) for step in steps]
        for step, facts in zip(steps, decided, strict=True):
            self._record(batch, step, facts)
        if steps[0].action is StepAction.START:
            nodes = dict(zip(steps[0].tasks, steps[0].nodes, strict=True))
            transition.start_tasks(group, nodes, _chosen_flavors(gang, steps[0]))
            return
        moved_to = {
            task: node
            for step in steps
            if step.action is StepAction.MOVE
            for task, node in zip(step.tasks, step.nodes, strict=True)
        }
        tasks = {task for step in steps for task in step.tasks}
        why = {
            name: facts
            for step in steps
            for facts in [self._why.facts(step, numbers, batch.started(gang, step.tasks, self._now))]
            for name in step.tasks
        }
        reason = self._reason(steps[0], decided[0])
        if not transition.preempt_tasks(group, reason, tasks=tasks, moved_to=moved_to, why=why):
            batch.as_planned = False

    def _record(self, batch: _Batch, step: Step, facts: DecisionFacts) -> None:
        gang = self._gangs[step.gang]
        node_of = {task.name: task.node_name for task in batch.tasks(gang, step.tasks)}
        nodes = list(step.nodes) or [node_of[name] for name in step.tasks]
        beneficiary = self._beneficiary(step)
        backend_id = batch.transitions[gang.root].root.backend_id
        assert backend_id is not None, "a top-level pool has a backend"
        rows = DecisionRows(
            backend_id,
            gang.root,
            gang.leaf,
            gang.workflow,
            gang.group,
            None if beneficiary is None else beneficiary.workflow,
        )
        batch.decisions.append(build_decision(facts, rows, time=self._now, tasks=step.tasks, nodes=nodes))
        batch.steps.append(
            {
                "pass": step.pass_number,
                "action": str(step.action),
                "workflow": gang.workflow_name,
                "group": gang.group_name,
                "tasks": list(step.tasks),
                "nodes": sorted(set(nodes)),
                "for": None if beneficiary is None else beneficiary.workflow_name,
                "message": decision_message(facts),
            }
        )

    def _decision_facts(self, batch: _Batch, step: Step) -> DecisionFacts:
        gang, beneficiary = self._gangs[step.gang], self._beneficiary(step)
        return DecisionFacts(
            StepAction(step.action),
            step.gang,
            gang.pool,
            self._gpus(batch, step),
            step.nodes,
            is_growth=batch.group(gang).status == TaskStatus.RUNNING,
            beneficiary=step.beneficiary or "",
            beneficiary_leaf="" if beneficiary is None else beneficiary.pool,
            is_least_lost=step.is_least_lost,
            by_flavor=self._gpus_by_flavor(batch, step) if gang.choices else {},
            preferred=self._preferred(batch, step),
            parts=batch.transitions[gang.root].root.part_flavors if gang.choices else (),
        )

    def _preferred(self, batch: _Batch, step: Step) -> list[tuple[str, str]]:
        """The flavors of the choices before that of a start, each with why the gang does not start there."""
        gang, found = self._gangs[step.gang], []
        if step.action is not StepAction.START or batch.group(gang).status == TaskStatus.RUNNING:
            return []
        tasks, priority = batch.tasks(gang, step.tasks), batch.priority(gang)
        chosen = set(_chosen_flavors(gang, step).values())
        for flavors in gang.choices[: step.choice]:
            of_tasks = [flavors.get(task.name, DEFAULT_FLAVOR) for task in tasks]
            needs = sum_by_flavor((task.gpu_count for task in tasks), of_tasks)
            verdicts = [batch.gates.verdict(gang.leaf, priority, gpus, flavor) for flavor, gpus in needs.items()]
            others = dict.fromkeys(flavor for flavor in of_tasks if flavor not in chosen)
            found.append((" and ".join(others), why_not(next((each for each in verdicts if each), None))))
        return found

    def _reason(self, step: Step, facts: DecisionFacts) -> str:
        """The message for the owner of the work. It names the beneficiary only if both workflows belong to the same
        pool."""
        beneficiary = self._beneficiary(step)
        is_known = beneficiary is None or beneficiary.root == self._gangs[step.gang].root
        return decision_message(facts) if is_known else anonymous_decision_message(facts)

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def _root_id(self, unit: PlanUnit) -> int:
        """The tree of a start."""
        return self._gangs[unit.steps[-1].gang].root

    def _beneficiary(self, step: Step) -> GangRef | None:
        return None if step.beneficiary is None else self._gangs[step.beneficiary]

    def _gpus(self, batch: _Batch, step: Step) -> int:
        return sum(self._gpus_by_flavor(batch, step).values())

    def _gpus_by_flavor(self, batch: _Batch, step: Step) -> dict[str, int]:
        """The GPUs of a step by flavor: of a start in those of its choice, else where they count now."""
        gang = self._gangs[step.gang]
        tasks = batch.tasks(gang, step.tasks)
        chosen = _chosen_flavors(gang, step) if step.action is StepAction.START else {}
        flavors = (chosen.get(task.name) or task.flavor or DEFAULT_FLAVOR for task in tasks)
        return sum_by_flavor((task.gpu_count for task in tasks), flavors)


def _chosen_flavors(gang: GangRef, step: Step) -> Mapping[str, str]:
    """The flavors of the tasks of a gang in the choice of a start; empty in a pool without flavors."""
    return gang.choices[step.choice] if gang.choices else {}


def _steps_by_gang(unit: PlanUnit) -> Mapping[str, list[Step]]:
    """The steps of each gang, in the order in which the gangs appear first."""
    found: dict[str, list[Step]] = defaultdict(list)
    for step in unit.steps:
        found[step.gang].append(step)
    return found
