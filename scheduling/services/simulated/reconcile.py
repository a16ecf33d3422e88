"""Reconciliation of a simulated backend: end what is due, then run scheduling cycles until nothing changes.

At most one reconciliation per backend runs at a time (an advisory lock). A plan is made from an unlocked snapshot and
applied unit by unit (:mod:`scheduling.services.simulated.apply_plan`), so a crash between two units leaves nothing half
done: a gang starts, with all evictions for it, in one transaction or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TypedDict

from django.db.models import QuerySet

from pools.database.transactions import database_time, one_snapshot
from pools.domain.errors import Conflict, NotFound
from pools.domain.people.roles import Actor
from pools.models import Backend
from pools.permissions import require_platform
from scheduling.domain.engine.cycle import CycleResult, run_cycle
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.judgement.new_work import starts_everything
from scheduling.domain.statuses import TaskStatus
from scheduling.garbage_collector import garbage_collector
from scheduling.locking import (
    CYCLE_LOCK_SPACE,
    EVALUATION_LOCK_SPACE,
    AlreadyReconciling,
    LongWorkRuns,
    hold_backend_lock,
    hold_long_work_turn,
)
from scheduling.models import SchedulingCycle, Task
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts
from scheduling.services import notifications
from scheduling.services.simulated.apply_plan import PlanExecution, StepBody
from scheduling.services.simulated.dirty import (
    MAX_STATE_AGE,
    SchedulingSnapshot,
    Scope,
    find_clean_state,
    find_sufficient_state,
    mark_clean,
    mark_new_work_done,
    mark_still_clean,
    mark_unfinished,
    new_workflow_names,
    take_snapshot,
)
from scheduling.services.simulated.end_due import due_groups, end_due_groups
from scheduling.services.simulated.promised_starts import find_promise_changes, read_bounds, save_promise_changes
from scheduling.services.simulated.shown_effects import (
    judge_open_effects,
    read_open_effects,
    withdraw_open_effects,
)
from scheduling.services.simulated.start_reservations import changes_reservations, save_reservations
from scheduling.services.simulated.stuck_gangs import find_stuck_changes, save_stuck_changes, stuck_by_group

MAX_ROUNDS = 100  # plans of one reconciliation
MAX_FRUITLESS_ROUNDS = 3  # plans in a row of which no step could be done
MANUAL_LOCK_TIMEOUT = 10.0  # seconds that a person's request waits for another reconciliation to finish


class ReconcileAnswer(TypedDict):
    """The steps that were taken, and whether nothing is left to do."""

    steps: list[StepBody]
    settled: bool


def reconcile_now(*, actor: Actor, backend: str) -> ReconcileAnswer:
    """Reconcile on request and return the steps (design, A3). `osmo-admin` only."""
    require_platform(actor)
    row = Backend.objects.filter(name=backend).first()
    if row is None:
        raise NotFound(f"Cluster {backend} does not exist.")
    if row.kind != Backend.Kind.SIMULATED:
        raise Conflict(f"Cluster {backend} runs on Kubernetes; there the cluster's scheduler decides.")
    return reconcile_backend(row.pk, lock_timeout=MANUAL_LOCK_TIMEOUT)


def reconcile_while_requested(backend_id: int, scope: Scope = Scope.HINT) -> None:
    """Reconcile as far as the scope asks for, and again while new requests arrive.

    While another reconciliation runs there is nothing to do: the other one checks for new requests after it has
    released its lock, so no request is lost. After one that did nothing the next one is postponed.
    """
    for _ in range(MAX_ROUNDS):
        if notifications.is_reconcile_postponed(backend_id, scope):
            return
        notifications.await_reconcile_turn(backend_id)
        begin = time.monotonic()
        try:
            result = reconcile_backend(backend_id, scope=scope)
        except AlreadyReconciling:
            return
        if scope is Scope.HINT and not result["steps"]:
            notifications.postpone_reconcile(backend_id, time.monotonic() - begin)
        if not notifications.is_reconcile_requested(backend_id):
            return
        scope = Scope.HINT  # the wider scope has been dealt with


def reconcile_backend(backend_id: int, *, lock_timeout: float = 0, scope: Scope = Scope.THOROUGH) -> ReconcileAnswer:
    """End what is due and apply plans until nothing changes: `{"steps": [...], "settled": bool}`. Only a thorough scope
    always reads everything (:mod:`scheduling.services.simulated.dirty`).

    Raises AlreadyReconciling when another reconciliation of this backend has not finished after `lock_timeout` seconds,
    and Busy when a tree could not be locked in time; the other trees were reconciled nevertheless.
    """
    if scope is Scope.TICK:
        scope = _run_due_full_cycle(backend_id)
    with hold_backend_lock(backend_id, space=CYCLE_LOCK_SPACE, timeout=lock_timeout):
        notifications.reconcile_started(backend_id)  # a later change needs another request
        backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.SIMULATED).first()
        if backend is None:
            return {"steps": [], "settled": True}
        reconciliation = Reconciliation(backend)
        has_converged = reconciliation.start_new_work(scope) or reconciliation.run()
        return {"steps": reconciliation.steps, "settled": has_converged}


def _run_due_full_cycle(backend_id: int) -> Scope:
    """Run a full cycle, if it is due, at the same time as reconciliations of new work. It takes seconds when thousands
    of gangs wait, and mostly finds nothing to do. Returns the scope that the next reconciliation needs: everything, if
    there is more to do than to start new work.

    No lock of the backend is needed: the result is valid for one snapshot, and later changes are new work or move
    the token of the plan. Other long background work comes first for a while, so that a process of the worker stays
    free for new work.
    """
    backend = Backend.objects.filter(pk=backend_id, kind=Backend.Kind.SIMULATED, offline=False).first()
    now = database_time()
    if (
        backend is None
        or find_sufficient_state(backend, Scope.TICK, now) is not None
        or (state := find_clean_state(backend)) is None
    ):
        return Scope.TICK
    is_late = now - state.full_cycle_at >= 2 * MAX_STATE_AGE
    turn = nullcontext() if is_late else hold_long_work_turn()
    try:
        with turn, hold_backend_lock(backend_id, space=EVALUATION_LOCK_SPACE):
            with one_snapshot():
                snapshot, live = take_snapshot(backend), read_live_facts(backend)
                new = set(new_workflow_names(state))
            plan = _run_cycle(live.facts)
            only_new = all(
                step.action is StepAction.START and live.gangs[step.gang].workflow_name in new for step in plan.steps
            )
            if (
                snapshot.plan_token != state.plan_token
                or not only_new
                or not plan.has_converged
                or _has_news(backend, live, plan)
            ):
                return Scope.TICK
            if plan.steps:  # new work stays new until it has started
                snapshot = SchedulingSnapshot(state.snapshot, snapshot.plan_token)
            seconds = (database_time() - now).total_seconds()
            mark_still_clean(backend, snapshot, now=now, seconds=seconds, waits_for_external=live.waits_for_external)
    except (AlreadyReconciling, LongWorkRuns):
        pass  # another process runs the full cycle, or the next tick does
    return Scope.HINT


def _run_cycle(facts: ClusterFacts) -> CycleResult:
    with garbage_collector.paused():
        return run_cycle(facts, notes_spared=True)


def _has_news(backend: Backend, live: LiveFacts, plan: CycleResult) -> bool:
    """Whether a reconciliation would write something about reservations, promised starts or stuck gangs."""
    return (
        changes_reservations(live, plan)
        or bool(find_promise_changes(backend, read_bounds(live, plan)))
        or bool(find_stuck_changes(backend, stuck_by_group(live, plan)))
    )


class Reconciliation:
    """One reconciliation of one backend, whose lock is held."""

    def __init__(self, backend: Backend) -> None:
        self.steps: list[StepBody] = []
        self._backend = backend
        self._pass_offset = 0

    def start_new_work(self, scope: Scope) -> bool:
        """Start new work alone, if nothing else has changed. False: everything has to be planned.

        Only starts without evictions are applied here; they do not depend on the gangs that wait. If all new work
        starts in free capacity, they do not depend on the running gangs either.
        """
        now = database_time()
        state = find_sufficient_state(self._backend, scope, now)
        if state is None or self._backend.offline or due_groups(self._backend, now).exists():
            return False
        new_since = state.snapshot
        for totals_only in (True, False):
            with one_snapshot():
                if self._is_offline_now():
                    return False
                snapshot, new = take_snapshot(self._backend), new_workflow_names(state)
                if snapshot.plan_token != state.plan_token:
                    return False
                if not new:
                    return True
                if totals_only and _partly_started(new).exists():
                    continue  # a killed process left a gang half started; totals do not show its waiting tasks
                live = read_live_facts(self._backend, new_workflows=new, totals_only=totals_only)
            plan = _run_cycle(live.facts)
            if not totals_only or starts_everything(live.facts, live.gangs, plan.steps):
                break
        if any(step.action is not StepAction.START for step in plan.steps):
            return False
        execution = self._apply(live, plan, snapshot, new_since)
        if execution.as_planned and execution.busy_error is None:
            mark_new_work_done(state, snapshot, waits_for_external=live.waits_for_external)
            return True
        return False

    def run(self) -> bool:
        """Plan and apply, round after round; returns whether nothing is left to do."""
        fruitless = 0
        for _ in range(MAX_ROUNDS):
            before, now = len(self.steps), database_time()
            ended, busy = end_due_groups(self._backend)
            self._add_steps(ended)
            with one_snapshot():
                live = None
                if not self._is_offline_now():
                    snapshot, live = take_snapshot(self._backend), read_live_facts(self._backend)
                    effects = read_open_effects(self._backend)
            if live is None:
                withdraw_open_effects(self._backend)
                has_converged = True
            else:
                plan = _run_cycle(live.facts)
                if plan.steps:
                    mark_unfinished(self._backend)
                save_reservations(self._backend, live, plan)
                execution = self._apply(live, plan, snapshot)
                judge_open_effects(self._backend, effects, live, execution)
                has_converged, busy = execution.as_planned, execution.busy_error or busy
            if busy is not None:
                raise busy
            if has_converged and not due_groups(self._backend, database_time()).exists():
                self._note_result(None if live is None else (live, plan))
                if live is not None:
                    seconds = (database_time() - now).total_seconds()
                    external = live.waits_for_external
                    mark_clean(self._backend, snapshot, now=now, seconds=seconds, waits_for_external=external)
                return True
            fruitless = 0 if len(self.steps) > before else fruitless + 1
            if fruitless == MAX_FRUITLESS_ROUNDS:
                break
        return False

    def _is_offline_now(self) -> bool:
        """Read the backend again: a person may have changed its settings since the last round."""
        now = Backend.objects.filter(pk=self._backend.pk).first()
        if now is None:  # removed
            return True
        self._backend = now
        return now.offline

    def _apply(
        self, live: LiveFacts, plan: CycleResult, snapshot: SchedulingSnapshot, new_since: str | None = None
    ) -> PlanExecution:
        now = database_time()
        cycle = _seen_by_cycle(self._backend, live, now, snapshot.seen, new_since)
        execution = PlanExecution(self._backend, live, plan.world, now, cycle)
        execution.apply(plan.steps)
        execution.as_planned &= plan.has_converged
        self._add_steps(execution.steps)
        return execution

    def _note_result(self, settled: tuple[LiveFacts, CycleResult] | None) -> None:
        """Write what the settled result says about promised starts and stuck gangs; None while the backend is offline,
        which promises nothing. If the process dies before, no cycle is noted as done, and the next one follows."""
        bounds = {} if settled is None else read_bounds(*settled)
        stuck = {} if settled is None else stuck_by_group(*settled)
        save_promise_changes(self._backend, find_promise_changes(self._backend, bounds))
        save_stuck_changes(self._backend, find_stuck_changes(self._backend, stuck))

    def _add_steps(self, steps: list[StepBody]) -> None:
        self.steps += [{**step, "pass": self._pass_offset + step["pass"]} for step in steps]
        self._pass_offset = max((step["pass"] for step in self.steps), default=0)


def _partly_started(workflows: Collection[str]) -> QuerySet[Task]:
    """The tasks of these workflows that wait while other tasks of their gang run."""
    return Task.objects.filter(
        group__workflow__name__in=workflows, group__status=TaskStatus.RUNNING, status=TaskStatus.SCHEDULING
    )


def _seen_by_cycle(
    backend: Backend, live: LiveFacts, now: datetime, snapshot: str | None, new_since: str | None
) -> SchedulingCycle:
    """The row of a cycle that read these facts, not yet saved, for a replay that judges in the same order
    (:mod:`scheduling.history.replay.seen_order`). `now` is the time of its decisions."""
    policy = live.facts.policy
    judged_at = now if policy is None else datetime.fromtimestamp(int(policy.now), tz=UTC)
    reservations = () if policy is None else policy.reservations
    return SchedulingCycle(
        backend=backend, time=now, judged_at=judged_at, snapshot=snapshot, new_since=new_since,
        reservations=[[each.gang, each.since, each.nodes, each.placed] for each in reservations],
    )  # fmt: skip
