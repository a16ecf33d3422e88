"""Settling a simulated backend: end what is due, then do what the engine says, until nothing moves.

One settling per backend at a time (an advisory lock). The plan is made from an unlocked snapshot and carried out deed
by deed (:mod:`scheduling.services.simulated.apply_plan`), so a crash between two deeds leaves nothing half done: a gang starts, with
all that is taken for it, in one transaction or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db.models import QuerySet
from django.utils import timezone

from pools.domain.errors import Busy, Conflict, NotFound
from pools.domain.roles import SYSTEM, Actor
from pools.locking import lock_pool_tree
from pools.models import Backend
from pools.permissions import require_platform
from pools.transactions import DatabaseLost, change, one_snapshot
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.engine.cycle import run_cycle as plan
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group, Task
from scheduling.selectors.live_facts import LiveFacts, read_live_facts
from scheduling.services import notifications
from scheduling.services.simulated.apply_plan import PlanExecution
from scheduling.services.simulated.dirty import (
    SchedulingSnapshot,
    Scope,
    find_clean_state,
    find_sufficient_state,
    mark_clean,
    mark_dirty,
    mark_new_work_done,
    mark_plan_started,
    new_workflow_names,
    take_snapshot,
)
from scheduling.services.workflows.transitions import WorkflowTransition

MAX_ROUNDS = 100  # plans of one settling
MAX_FRUITLESS_ROUNDS = 3  # of them in a row of which nothing could be done
MAX_ENDS = 1000  # gangs ended in one transaction
MANUAL_LOCK_TIMEOUT = 10.0  # seconds that somebody who asks for a settling waits for another one to finish
_LOCK_SPACE = 0x05E7  # first key of the advisory locks of settling; the second is the backend's id
_EVALUATION_LOCK_SPACE = 0x05E8  # the same, of looks at everything beside it

_MESSAGES = {
    TaskStatus.FAILED_EXEC_TIMEOUT: "ran longer than its exec_timeout",
    TaskStatus.FAILED_QUEUE_TIMEOUT: "waited longer than its queue_timeout",
}


class AlreadyReconciling(Busy):
    """Somebody else is at it."""


def reconcile_now(*, actor: Actor, backend: str) -> dict[str, Any]:
    """Settle by hand and say what moved (api.md, "Simulated backend"). `osmo-admin` only."""
    require_platform(actor)
    row = Backend.objects.filter(name=backend).first()
    if row is None:
        raise NotFound(f"Backend {backend} does not exist.")
    if row.kind != Backend.Kind.SIMULATED:
        raise Conflict(f"Backend {backend} is a Kubernetes cluster; there the cluster's scheduler decides.")
    return reconcile_backend(row.pk, lock_timeout=MANUAL_LOCK_TIMEOUT)


def reconcile_while_requested(backend_id: int, scope: Scope = Scope.HINT) -> None:
    """Settle as far as need be, and again while new hints came meanwhile.

    Beside a settling under way there is nothing to do: that one looks for hints after it has let go of its lock, so a
    hint whose task met the lock is not lost.
    """
    for _ in range(MAX_ROUNDS):
        try:
            reconcile_backend(backend_id, scope=scope)
        except AlreadyReconciling:
            return
        if not notifications.is_reconcile_requested(backend_id):
            return
        scope = Scope.HINT  # whatever else was asked for is done


def reconcile_backend(backend_id: int, *, lock_timeout: float = 0, scope: Scope = Scope.THOROUGH) -> dict[str, Any]:
    """End what is due and carry out plans until nothing moves: `{"steps": [...], "settled": bool}`. Only a thorough
    look is sure to be at everything (:mod:`scheduling.services.simulated.dirty`).

    Raises AlreadySettling when another settling of the same backend is not over after `lock_timeout` seconds, and Busy when
    a tree's lock was not had; the other trees were settled then all the same.
    """
    if scope is Scope.TICK:
        scope = _evaluate_beside(backend_id)
    with _backend_lock(backend_id, lock_timeout):
        notifications.reconcile_started(backend_id)  # what moves from now on asks for another settling
        backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.SIMULATED).first()
        if backend is None:
            return {"steps": [], "settled": True}
        settling = Reconciliation(backend)
        settled = settling.start_new_work(scope) or settling.run()
        return {"steps": settling.steps, "settled": settled}


def _evaluate_beside(backend_id: int) -> Scope:
    """Pay an owed look at everything beside whoever settles new work meanwhile: it takes seconds where thousands wait,
    and mostly finds nothing. What look is left to take then; all of it, where there is more to do than to start what
    is new.

    No lock is needed for that. What is found is true of one snapshot, and what came since is new work or a move.
    """
    backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.SIMULATED, offline=False).first()
    now = timezone.now()
    if (
        backend is None
        or find_sufficient_state(backend, Scope.TICK, now) is not None
        or (rest := find_clean_state(backend)) is None
    ):
        return Scope.TICK
    try:
        with _backend_lock(backend_id, 0, _EVALUATION_LOCK_SPACE):
            with one_snapshot():
                moment, new, live = take_snapshot(backend), set(new_workflow_names(rest)), read_live_facts(backend)
            planned = plan(live.facts)
            only_new = all(
                step.action is StepAction.START and live.gangs[step.gang].workflow_name in new for step in planned.steps
            )
            if moment.dirty_marks or not only_new or not planned.has_converged:
                return Scope.TICK
            if planned.steps:  # what is new stays new until it has started
                moment = SchedulingSnapshot(rest.snapshot, moment.dirty_marks)
            took = (timezone.now() - now).total_seconds()
            mark_clean(backend, moment, now=now, seconds=took, waits_for_external=live.waits_for_external)
    except AlreadyReconciling:
        pass  # somebody else looks
    return Scope.HINT


class Reconciliation:
    """One settling of one backend; its lock is held."""

    def __init__(self, backend: Backend) -> None:
        self.steps: list[dict[str, Any]] = []
        self._backend = backend
        self._pass_offset = 0

    def start_new_work(self, scope: Scope) -> bool:
        """Start what is new, where all else is known to be at rest. False: everything has to be looked at.

        Only starts that take nothing are done this way: they are the same whoever else waits. Where all of the new work
        starts in what is free, it does not even matter who runs.
        """
        now = timezone.now()
        rest = find_sufficient_state(self._backend, scope, now)
        if rest is None or self._backend.offline or self._due_groups(now).exists():
            return False
        for counted in (True, False):
            with one_snapshot():
                moment, new = take_snapshot(self._backend), new_workflow_names(rest)
                if moment.dirty_marks:
                    return False
                if not new:
                    return True
                if counted and _partly_started(new).exists():
                    continue  # who began it was killed: what is left of it cannot be told from a sum
                live = read_live_facts(self._backend, new_workflows=new, totals_only=counted)
            planned = plan(live.facts)
            if not counted or _starts_everything(live, planned):
                break
        if any(step.action is not StepAction.START for step in planned.steps):
            return False
        doing = self._apply(live, planned)
        if doing.as_planned and doing.busy_error is None:
            mark_new_work_done(rest, moment, waits_for_external=live.waits_for_external)
            return True
        return False

    def run(self) -> bool:
        """Round after round; whether it came to rest."""
        fruitless = 0
        for _ in range(MAX_ROUNDS):
            before, now = len(self.steps), timezone.now()
            busy = self._end_due()
            if self._backend.offline:
                rests = True
            else:
                with one_snapshot():
                    moment, live = take_snapshot(self._backend), read_live_facts(self._backend)
                planned = plan(live.facts)
                if planned.steps:
                    moment = mark_plan_started(self._backend, moment)
                doing = self._apply(live, planned)
                rests, busy = doing.as_planned, doing.busy_error or busy
            if busy is not None:
                raise busy
            if rests and not self._due_groups(timezone.now()).exists():
                if not self._backend.offline:
                    took = (timezone.now() - now).total_seconds()
                    mark_clean(self._backend, moment, now=now, seconds=took, waits_for_external=live.waits_for_external)
                return True
            fruitless = 0 if len(self.steps) > before else fruitless + 1
            if fruitless == MAX_FRUITLESS_ROUNDS:
                break
        return False

    def _apply(self, live: LiveFacts, planned: CycleResult) -> PlanExecution:
        doing = PlanExecution(self._backend, live, timezone.now())
        doing.apply(planned.steps)
        doing.as_planned &= planned.has_converged
        self._add_steps(doing.steps)
        return doing

    def _add_steps(self, steps: list[dict[str, Any]]) -> None:
        self.steps += [{**step, "pass": self._pass_offset + step["pass"]} for step in steps]
        self._pass_offset = max((step["pass"] for step in self.steps), default=0)

    def _due_groups(self, now: datetime) -> QuerySet[Group]:
        return Group.objects.filter(due_at__lte=now, workflow__root_pool__backend=self._backend)

    def _end_due(self) -> Busy | None:
        """End what has run its time, and what has run or waited longer than it may, tree by tree in the order of ids.
        A tree that is busy does not keep the others waiting; a lost connection does, for the settling's lock went with
        it."""
        now, busy = timezone.now(), None
        roots = self._due_groups(now).values_list("workflow__root_pool_id", flat=True)
        for root_id in sorted(set(roots)):
            try:
                while ended := _end_due_in_tree(root_id, now):
                    self._add_steps(ended)
            except DatabaseLost:
                raise
            except Busy as error:
                busy = error
        return busy


def _partly_started(workflows: Collection[str]) -> QuerySet[Task]:
    """The tasks of these workflows that wait beside others of their gang, which run."""
    return Task.objects.filter(
        group__workflow__name__in=workflows, group__status=TaskStatus.RUNNING, status=TaskStatus.SCHEDULING
    )


def _starts_everything(live: LiveFacts, planned: CycleResult) -> bool:
    """Whether the plan is to start every task of the gangs, and nothing else."""
    waiting = Counter({gang.name: len(gang.tasks) for gang in live.facts.gangs if gang.name in live.gangs})
    started = Counter(name for step in planned.steps for name in [step.gang] * len(step.tasks))
    return waiting == started and all(step.action is StepAction.START for step in planned.steps)


@contextmanager
def _backend_lock(backend_id: int, lock_timeout: float, lock_space: int = _LOCK_SPACE) -> Iterator[None]:
    """Hold the backend's lock of that space. It belongs to the connection, so it goes with a process that dies, and
    with a connection that is lost."""
    with connection.cursor() as cursor:
        for _ in range(1 + round(lock_timeout * 10)):
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [lock_space, backend_id])
            if cursor.fetchone()[0]:
                break
            cursor.execute("SELECT pg_sleep(%s)", [0.1 if lock_timeout else 0])
        else:
            raise AlreadyReconciling("This backend is being settled already; try again in a moment.", retry_after=1)
    try:
        yield
    finally:
        with suppress(OperationalError, InterfaceError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [lock_space, backend_id])


def _end_due_in_tree(root_id: int, now: datetime) -> list[dict[str, Any]]:
    with change(actor=SYSTEM, description="settled"):
        root = lock_pool_tree(root_id)
        due = Group.objects.filter(due_at__lte=now, workflow__root_pool=root).order_by("due_at")
        work = WorkflowTransition(root, set(due.values_list("workflow_id", flat=True)[:MAX_ENDS]), now=now)
        steps = _end_those_due(work)
        work.save()
        if steps and root.backend_id is not None:
            mark_dirty(root.backend_id)  # should nobody come to the plan that follows
        return steps


def _end_those_due(work: WorkflowTransition) -> list[dict[str, Any]]:
    before = {group.pk: group.status for groups in work.groups.values() for group in groups.values()}
    for workflow in work.workflows.values():
        groups = list(work.groups[workflow.pk].values())
        verdicts = {group.pk: work.group_deadlines(group).verdict(work.now) for group in groups}
        for group in groups:
            status = verdicts[group.pk]
            if status is TaskStatus.COMPLETED:
                work.report_end(group, status)
            elif status is TaskStatus.FAILED_QUEUE_TIMEOUT:
                work.end_group(group, status, _MESSAGES[status])
        if TaskStatus.FAILED_EXEC_TIMEOUT in verdicts.values():  # the time is the workflow's, so all of it ends
            late = TaskStatus.FAILED_EXEC_TIMEOUT
            work.end_open_groups(workflow, late, _MESSAGES[late], include_waiting=False)
    return [
        {
            "pass": 1,
            "action": "end",
            "workflow": work.workflows[group.workflow_id].name,
            "group": name,
            "status": group.status if TaskStatus(group.status).is_finished else TaskStatus.RESCHEDULED,
        }
        for groups in work.groups.values()
        for name, group in groups.items()
        if group.status != before[group.pk]
    ]
