"""Carrying out a plan: each deed in one transaction, and only if it is still right under the locks.

A start goes together with what is taken or moved for it. Starts that take nothing are written tree by tree, many at
once. Before a deed is written, under the locks of all trees it touches: its gangs wait and run as the plan says, its
nodes have the room, quotas and limits on the path of the start let it happen, and whoever loses something to another
leaf stands by the very numbers it was judged by. What is not right any more is dropped; the next plan will know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from pools.domain.errors import Busy
from pools.domain.roles import SYSTEM
from pools.locking import lock_cohort_trees, lock_pool_trees
from pools.models import Backend
from pools.signals import backend_changed
from pools.transactions import DatabaseLost, change
from scheduling.domain.decision_messages import DecisionFacts, anonymous_decision_message, decision_message
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.plan_units import GatePath, Gates, NodeCapacity, PlanUnit, split_plan
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Decision, Group, Task, Workflow
from scheduling.selectors.live_facts import GangRef, LiveFacts
from scheduling.selectors.start_gates import read_gate_paths, read_tree_gates
from scheduling.services.gpu_quota.workloads import NamespaceHeadroom
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_STARTS_TOGETHER, MAX_TREES_TOGETHER = 200, 8
"""Plain starts written in one transaction, and in how many trees: submissions to these pools wait for it."""

StepBody = dict[str, Any]


class PlanExecution:
    """The carrying out of one plan. `steps` is what was done, as the API tells it; `as_planned` is False when something
    was dropped or ended otherwise than planned, so that the state is not the one in which the plan ended; `busy` is the
    last tree that was not had in time."""

    def __init__(self, backend: Backend, live: LiveFacts, now: datetime) -> None:
        self.steps: list[StepBody] = []
        self.as_planned = True
        self.busy_error: Busy | None = None
        self._backend, self._live, self._now = backend, live, now
        self._capacity = NodeCapacity(live.facts)
        self._planned_gates = Gates(live.gate_paths, live.tree_gates)
        self._busy_roots: set[int] = set()

    def apply(self, steps: Iterable[Step]) -> None:
        """Do what the plan says, in its order. A tree that is busy does not keep the others waiting; a lost connection
        does, for the settling's lock went with it and the plan may be old."""
        plain: list[PlanUnit] = []
        for deed in split_plan(steps):
            if deed.is_plain_start:
                plain.append(deed)
            else:
                self._apply_plain_starts(plain)
                plain = []
                self._apply_together([deed])
        self._apply_plain_starts(plain)

    def _apply_plain_starts(self, plain: Sequence[PlanUnit]) -> None:
        """Starts that take nothing, and so in any order: many of a tree together, and a few trees."""
        together: list[PlanUnit] = []
        for _, found in groupby(sorted(plain, key=self._root), key=self._root):
            for deed in found:
                if len(together) >= MAX_STARTS_TOGETHER:
                    self._apply_together(together)
                    together = []
                together.append(deed)
            if len(set(map(self._root, together))) >= MAX_TREES_TOGETHER:
                self._apply_together(together)
                together = []
        if together:
            self._apply_together(together)

    def _apply_together(self, asked: Sequence[PlanUnit]) -> None:
        """Do these in one transaction."""
        root_ids = {self._row(gang).root for deed in asked for gang in deed.gangs}
        if root_ids & self._busy_roots:
            self.as_planned = False
            return
        before = self._capacity.mark()
        try:
            with change(actor=SYSTEM, description="settled"):
                hands = _Hands(self, root_ids, asked)
                for deed in asked:
                    hands.do(deed)
                hands.save()
        except DatabaseLost:
            raise
        except Busy as error:
            self._capacity.undo(before)
            if len(asked) > 1 and len(root_ids) > 1:
                for root_id in sorted(root_ids):
                    self._apply_together([deed for deed in asked if self._root(deed) == root_id])
            else:
                self._busy_roots |= root_ids
                self.busy_error, self.as_planned = error, False
            return
        self.steps += hands.told
        self.as_planned &= hands.as_planned
        for leaf, priority, gpus in hands.moved:
            self._planned_gates.add_usage(leaf, priority, gpus)

    def _root(self, deed: PlanUnit) -> int:
        """The tree of a start."""
        return self._row(deed.steps[-1].gang).root

    def _row(self, gang: str) -> GangRef:
        return self._live.gangs[gang]


class _Hands:
    """One transaction: the locked trees and their work."""

    def __init__(self, doing: PlanExecution, root_ids: set[int], asked: Sequence[PlanUnit]) -> None:
        self.told: list[StepBody] = []
        self.as_planned = True
        self.moved: list[tuple[int, Priority, int]] = []
        self._doing, self._backend, self._now = doing, doing._backend, doing._now
        self._rows = {gang: doing._row(gang) for deed in asked for gang in deed.gangs}
        roots = lock_pool_trees(root_ids)
        tree = read_tree_gates(
            roots, lock_cohort_trees({root.cohort_id for root in roots if root.cohort_id is not None})
        )
        workflows: dict[int, set[Any]] = defaultdict(set)
        for row in self._rows.values():
            workflows[row.root].add(row.workflow)
        self._work: dict[int, WorkflowTransition] = {}
        paths: dict[int, GatePath] = {}
        for root in roots:
            if root.backend_id == self._backend.pk:
                root.backend = self._backend
            else:  # a cohort's other backend, on which something is taken back
                backend_changed(root.backend_id)
            self._work[root.pk] = WorkflowTransition(root, workflows[root.pk], now=self._now)
            paths |= read_gate_paths(root)
        self._gates = Gates(paths, tree)
        self._rooms = NamespaceHeadroom(roots)
        self._decisions: list[Decision] = []

    def do(self, deed: PlanUnit) -> None:
        """Do it if it is still right; else leave everything as it is."""
        room = self._doing._capacity
        before, counted = room.mark(), self._rooms.snapshot()
        if self._stands(deed) and room.book(deed) and self._fits_namespaces(deed) and self._allowed(deed):
            for gang, steps in _by_gang(deed).items():
                self._move(gang, steps)
        else:
            room.undo(before)
            self._rooms.restore(counted)
            self.as_planned = False

    def save(self) -> None:
        """Write the work and the record of the decisions."""
        for work in self._work.values():
            work.save()
        Decision.objects.bulk_create(self._decisions)

    # -- is it still right? ------------------------------------------------------------------------------------------

    def _stands(self, deed: PlanUnit) -> bool:
        """Whether its gangs wait and run as the plan says. What does not run begins with its minimum."""
        for step in deed.steps:
            group = self._group(step.gang)
            if group is None:
                return False
            here = TaskStatus.SCHEDULING if step.action is StepAction.START else TaskStatus.RUNNING
            there = [task for task in self._tries(step.gang) if task.name in step.tasks and task.status == here]
            if len(there) < len(step.tasks):
                return False
            is_begun = step.action is not StepAction.START or group.status == TaskStatus.RUNNING
            if not is_begun and not self._work[self._rows[step.gang].root].has_minimum(group, there):
                return False
        return True

    def _fits_namespaces(self, deed: PlanUnit) -> bool:
        """Whether the GPU quotas of the pools' namespaces allow it; then they count it."""
        for step in deed.steps:
            root = self._rows[step.gang].root
            tasks = [task for task in self._tries(step.gang) if task.name in step.tasks]
            if step.action is StepAction.START and self._rooms.count_start(root, tasks):
                return False
            if step.action not in {StepAction.START, StepAction.MOVE}:
                self._rooms.count_stop(root, tasks)
        return True

    def _allowed(self, deed: PlanUnit) -> bool:
        """Whether the numbers allow it; then they are moved by what it does."""
        for step in deed.steps:
            # Who loses something to another leaf was judged by fair shares made from these very numbers.
            leaf = self._rows[step.gang].leaf
            if step.action is StepAction.RECLAIM and self._gates.leaf_numbers(
                leaf
            ) != self._doing._planned_gates.leaf_numbers(leaf):
                return False
        moved: list[tuple[int, Priority, int]] = []
        for step in deed.steps:
            leaf, priority, gpus = self._rows[step.gang].leaf, self._priority(step.gang), self._gpus(step)
            if step.action is StepAction.MOVE:
                continue
            if step.action is StepAction.START and self._gates.verdict(leaf, priority, gpus) is not None:
                for before in moved:
                    self._gates.add_usage(*before[:2], -before[2])
                return False
            moved.append((leaf, priority, gpus if step.action is StepAction.START else -gpus))
            self._gates.add_usage(*moved[-1])
        self.moved += moved
        return True

    # -- doing it ----------------------------------------------------------------------------------------------------

    def _move(self, gang: str, steps: Sequence[Step]) -> None:
        """Everything that the deed does to one gang, in one go: what it loses for good and what starts elsewhere."""
        group, work = self._known(gang), self._work[self._rows[gang].root]
        decided = [self._decided(step) for step in steps]
        for step, each in zip(steps, decided, strict=True):
            self._record(step, each)
        if steps[0].action is StepAction.START:
            work.start_tasks(group, dict(zip(steps[0].tasks, steps[0].nodes, strict=True)))
            return
        elsewhere = {
            task: node
            for step in steps
            if step.action is StepAction.MOVE
            for task, node in zip(step.tasks, step.nodes, strict=True)
        }
        tasks = {task for step in steps for task in step.tasks}
        if not work.preempt_tasks(group, self._reason(steps[0], decided[0]), tasks=tasks, moved_to=elsewhere):
            self.as_planned = False

    def _record(self, step: Step, decided: DecisionFacts) -> None:
        row, tries = self._rows[step.gang], {task.name: task for task in self._tries(step.gang)}
        nodes = list(step.nodes) or [tries[name].node_name for name in step.tasks]
        whom = None if step.beneficiary is None else self._rows[step.beneficiary]
        where = self._work[row.root].root.backend_id
        assert where is not None, "a top-level pool has a backend"
        decision = Decision(
            time=self._now,
            action=step.action,
            backend_id=where,
            root_pool_id=row.root,
            pool_id=row.leaf,
            workflow_id=row.workflow,
            group_id=row.group,
            tasks=list(step.tasks),
            nodes=nodes,
            gpus=decided.gpus,
            for_workflow_id=None if whom is None else whom.workflow,
            sentence=decision_message(decided),
            sentence_without_name=anonymous_decision_message(decided),
        )
        self._decisions.append(decision)
        self.told.append(
            {
                "pass": step.pass_number,
                "action": str(step.action),
                "workflow": row.workflow_name,
                "group": row.group_name,
                "tasks": decision.tasks,
                "nodes": sorted(set(nodes)),
                "for": None if whom is None else whom.workflow_name,
                "message": decision.sentence,
            }
        )

    def _decided(self, step: Step) -> DecisionFacts:
        row = self._rows[step.gang]
        whom = None if step.beneficiary is None else self._rows[step.beneficiary]
        return DecisionFacts(
            StepAction(step.action),
            step.gang,
            row.pool,
            self._gpus(step),
            step.nodes,
            is_growth=self._known(step.gang).status == TaskStatus.RUNNING,
            beneficiary=step.beneficiary or "",
            beneficiary_leaf="" if whom is None else whom.pool,
        )

    def _reason(self, step: Step, decided: DecisionFacts) -> str:
        """What the owner of the work reads: the name of the other one only if both are of one pool."""
        whom = None if step.beneficiary is None else self._rows[step.beneficiary]
        is_known = whom is None or whom.root == self._rows[step.gang].root
        return decision_message(decided) if is_known else anonymous_decision_message(decided)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _group(self, gang: str) -> Group | None:
        row = self._rows[gang]
        work = self._work.get(row.root)
        return None if work is None else work.groups.get(row.workflow, {}).get(row.group_name)

    def _known(self, gang: str) -> Group:
        group = self._group(gang)
        assert group is not None, "somebody looked before"
        return group

    def _tries(self, gang: str) -> Sequence[Task]:
        row = self._rows[gang]
        return self._work[row.root].attempts.open_attempts(row.group)

    def _priority(self, gang: str) -> Priority:
        row = self._rows[gang]
        workflow: Workflow = self._work[row.root].workflows[row.workflow]
        return Priority(workflow.priority)

    def _gpus(self, step: Step) -> int:
        return sum(task.gpu_count for task in self._tries(step.gang) if task.name in step.tasks)


def _by_gang(deed: PlanUnit) -> Mapping[str, list[Step]]:
    """The steps of each gang, in the order in which the gangs come first."""
    found: dict[str, list[Step]] = defaultdict(list)
    for step in deed.steps:
        found[step.gang].append(step)
    return found
