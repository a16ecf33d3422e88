"""A replay sees what people did in the order in which the cycles of the record saw it, not by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from pools.database.transactions import database_time
from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Backend
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history import RecordedHistory
from scheduling.history.replay.history_clock import HistoryClock, first_difference
from scheduling.models import Decision, SchedulingCycle, Workflow
from scheduling.services.simulated import reconcile
from scheduling.services.simulated.dirty import Scope
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world
from tests.support.threads import run_concurrently

pytestmark = pytest.mark.usefixtures("ledger")


@pytest.fixture
def backend() -> Backend:
    """Two nodes of four GPUs, one pool."""
    found = world.make_backend(nodes=2, gpus=4)
    world.make_pool("one", 8, on=found, a=4)
    return found


def send(pool: str, gpus: int, priority: Priority = Priority.LOW) -> None:
    """Submit one task."""
    task = "{name: t, image: i, command: [c]}"
    body = f"workflow:\n  name: job\n  resources: {{default: {{gpu: {gpus}}}}}\n  tasks: [{task}]\n"
    submit(actor=world.admin_actor(), pool=pool, submission=Submission(body, priority))


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Commit something from another connection while the next cycle plans: it has read, and has decided nothing."""

    def arrange(call: Callable[[], Any]) -> None:
        run, waiting = reconcile._run_cycle, [call]

        def plan(facts: Any) -> Any:
            if waiting:
                (result,) = run_concurrently([waiting.pop()])
                assert not isinstance(result, Exception), result
            return run(facts)

        monkeypatch.setattr(reconcile, "_run_cycle", plan)

    return arrange


def replays(backend: Backend, since: datetime) -> Iterator[RecordedHistory]:
    """The history from `since` on, replayed without a difference."""
    history = read_history(backend, since, database_time())
    assert first_difference(history.steps, HistoryClock(history).run().steps) is None
    yield history


def test_work_that_was_submitted_while_a_cycle_ran_starts_in_the_next(backend: Backend, beside: Any) -> None:
    begin = database_time()
    send("one--a", 4)
    beside(lambda: send("one--a", 4, Priority.HIGH))
    first = reconcile.reconcile_backend(backend.pk)
    assert [step["workflow"] for step in first["steps"]] == ["job-1"]
    reconcile.reconcile_backend(backend.pk)
    late = Workflow.objects.get(name="job-2")
    cycle = SchedulingCycle.objects.order_by("time")[0]
    assert late.submit_time < cycle.time
    assert Decision.objects.filter(workflow=late).get().time > cycle.time
    (history,) = replays(backend, begin)
    assert history.exact_since is None
    assert len(history.steps) == 2
    by_the_clock = replace(history, cycles=(), jobs=[replace(job, ready_seen=0) for job in history.jobs])
    assert first_difference(history.steps, HistoryClock(by_the_clock).run().steps) is not None


def test_work_that_was_cancelled_while_a_cycle_ran_does_not_start(backend: Backend, beside: Any) -> None:
    begin = database_time()
    for _ in range(2):
        send("one--a", 4)
    beside(lambda: world.apply_change(CancelWorkflow(name="job-1"), actor=world.admin_actor()))
    reconcile.reconcile_backend(backend.pk)
    send("one--a", 4)
    reconcile.reconcile_backend(backend.pk)
    assert set(Decision.objects.values_list("workflow__name", flat=True)) == {"job-2", "job-3"}
    list(replays(backend, begin))


def test_a_quota_that_was_lowered_while_a_cycle_ran_stops_the_next_work(backend: Backend, beside: Any) -> None:
    begin = database_time()
    send("one--a", 4, Priority.NORMAL)
    beside(lambda: world.apply_change(ResizeSubpool(parent="one", subpool_name="a", quota=2)))
    reconcile.reconcile_backend(backend.pk)
    send("one--a", 2, Priority.NORMAL)
    reconcile.reconcile_backend(backend.pk)
    list(replays(backend, begin))


def test_a_cluster_that_goes_offline_while_a_cycle_runs_starts_nothing_in_the_next_round(
    backend: Backend, beside: Any
) -> None:
    """A cancellation makes the reconciliation plan again, and `job-3` would start in the place of `job-1`."""
    begin = database_time()
    for _ in range(3):
        send("one--a", 4)

    def cancel_and_set_offline() -> None:
        world.apply_change(CancelWorkflow(name="job-1"), actor=world.admin_actor())
        Backend.objects.filter(pk=backend.pk).update(offline=True)

    beside(cancel_and_set_offline)
    reconcile.reconcile_backend(backend.pk)
    assert set(Decision.objects.values_list("workflow__name", flat=True)) == {"job-2"}
    (history,) = replays(backend, begin)
    assert len(history.steps) == 1


def test_a_policy_that_changes_while_a_cycle_runs_holds_from_the_next_round_on(backend: Backend, beside: Any) -> None:
    for _ in range(3):
        send("one--a", 4)

    def cancel_and_reserve() -> None:
        world.apply_change(CancelWorkflow(name="job-1"), actor=world.admin_actor())
        Backend.objects.filter(pk=backend.pk).update(reserve_after=60)

    beside(cancel_and_reserve)
    Backend.objects.filter(pk=backend.pk).update(reserve_after=None, ageing=None)
    seen = []
    run = reconcile._run_cycle
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconcile, "_run_cycle", lambda facts: (seen.append(facts.policy), run(facts))[1])
        reconcile.reconcile_backend(backend.pk)
    assert seen[0] is None
    assert {policy.reserve_after for policy in seen[1:]} == {60}


def test_a_cycle_of_new_work_leaves_other_work_waiting(backend: Backend) -> None:
    begin = database_time()
    send("one--a", 4)
    send("one--a", 4)
    reconcile.reconcile_backend(backend.pk)
    send("one", 3)
    reconcile.reconcile_backend(backend.pk, scope=Scope.HINT)
    send("one--a", 4, Priority.HIGH)
    reconcile.reconcile_backend(backend.pk, scope=Scope.HINT)
    list(replays(backend, begin))


def test_a_process_that_dies_between_two_units_is_a_part_of_the_record(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = database_time()
    world.make_pool("two", 4, on=backend)
    for pool in ("one--a", "two"):
        send(pool, 2)
    monkeypatch.setattr("scheduling.services.simulated.apply_plan.MAX_TREES_TOGETHER", 1)

    class Died(BaseException):
        pass

    original = reconcile.PlanExecution._apply_together
    done = []

    def apply(self: Any, units: Any) -> None:
        if done:
            raise Died
        original(self, units)
        done.append(units)

    monkeypatch.setattr(reconcile.PlanExecution, "_apply_together", apply)
    with pytest.raises(Died):
        reconcile.reconcile_backend(backend.pk)
    monkeypatch.setattr(reconcile.PlanExecution, "_apply_together", original)
    assert Decision.objects.count() == 1
    reconcile.reconcile_backend(backend.pk)
    assert Decision.objects.count() == 2
    (history,) = replays(backend, begin)
    assert [cycle.units for cycle in history.cycles] == [2, 1]


def test_decisions_without_a_cycle_say_since_when_a_replay_is_exact(backend: Backend) -> None:
    """Those of an earlier version, and of another server from which the database was restored."""
    begin = database_time()
    send("one--a", 4)
    reconcile.reconcile_backend(backend.pk)
    SchedulingCycle.objects.all().delete()
    send("one--a", 4)
    reconcile.reconcile_backend(backend.pk)
    history = read_history(backend, begin, database_time())
    first, second = history.steps
    assert history.exact_since == first.time + 1
    assert history.exact_since < second.time
