"""New work alone is planned where nothing else has changed; everything is planned where that is not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool
from pools.models import Backend, GpuUsage, Node, Pool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.judgement.plan_units import PlanUnit
from scheduling.domain.priorities import Priority
from scheduling.models import BackendSchedulingState, Group, Workflow
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts
from scheduling.services.simulated import reconcile as reconciliation
from scheduling.services.simulated.apply_plan import PlanExecution
from scheduling.services.simulated.dirty import FULL_CYCLE_PACE, MAX_STATE_AGE, Scope, find_clean_state, take_snapshot
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def full_team() -> Pool:
    """8 GPUs on 2 nodes, one GPU of each is free: `old-1` and `old-2` hold 6."""
    backend = world.make_backend(nodes=2, gpus=4)
    pool = world.make_pool("team", 6, on=backend)
    for _ in range(2):
        world.submit_workflow(world.admin_actor(), "team", 3, name="old")
    world.submit_workflow(world.admin_actor(), "team", 3, name="waits", priority=Priority.LOW)
    reconcile_backend(backend.pk)
    return pool


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[LiveFacts]:
    """The facts that are read from now on, in order."""
    found: list[LiveFacts] = []

    def read(*args: Any, **more: Any) -> LiveFacts:
        found.append(read_live_facts(*args, **more))
        return found[-1]

    monkeypatch.setattr(reconciliation, "read_live_facts", read)
    return found


def names(live: LiveFacts) -> set[str]:
    """The gangs that are listed one by one."""
    return {gang.name for gang in live.facts.gangs if gang.name in live.gangs}


def reconcile_scope(full_team: Pool, scope: Scope = Scope.HINT) -> list[tuple[str, str]]:
    """Reconcile as after a notification; returns (action, workflow) of each step."""
    assert full_team.backend_id is not None
    answer = reconcile_backend(full_team.backend_id, scope=scope)
    assert answer["settled"]
    return [(step["action"], step["workflow"]) for step in answer["steps"]]


def die_after_first_unit(full_team: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconcile as after a notification; the process dies when the first unit of the plan is committed."""
    once = PlanExecution._apply_together

    def dies(self: PlanExecution, units: Sequence[PlanUnit]) -> None:
        once(self, units[:1])
        raise SystemExit

    with monkeypatch.context() as killed:
        killed.setattr(PlanExecution, "_apply_together", dies)
        with pytest.raises(SystemExit):
            reconcile_scope(full_team)


def state_of(full_team: Pool) -> BackendSchedulingState:
    """The scheduling state of the backend."""
    return BackendSchedulingState.objects.get(backend=full_team.backend_id)


def is_clean(pool: Pool) -> bool:
    """Whether nothing but submissions was committed since the last full cycle."""
    assert pool.backend is not None
    return find_clean_state(pool.backend) is not None


def test_new_work_starts_and_waiting_work_is_not_read(full_team: Pool, reads: list[LiveFacts]) -> None:
    for scope in (Scope.HINT, Scope.TICK):
        assert reconcile_scope(full_team, scope) == []
    assert reads == [], "without new work nothing is read"
    world.submit_workflow(world.admin_actor(), "team", 3, name="large", priority=Priority.LOW)
    assert reconcile_scope(full_team) == []
    reads.clear()
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    assert reconcile_scope(full_team) == [("start", "new-1")]
    (live,) = reads
    assert names(live) == {"new-1"}, "planned work is not new the next time"
    assert state_of(full_team).full_cycle_due


def test_new_work_without_free_capacity_is_planned_with_running_work(full_team: Pool, reads: list[LiveFacts]) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    world.submit_workflow(world.admin_actor(), "team", 3, name="waits-too", priority=Priority.LOW)
    assert reconcile_scope(full_team) == [("start", "new-1")]
    quick, live = reads
    assert names(quick) == {"new-1", "waits-too-1"}
    assert names(live) == {"old-1", "old-2", "new-1", "waits-too-1"}
    assert live.facts.demand["osmo-pool-ns-team--_shared"]["default/gpu"] == 3  # waits-1
    assert state_of(full_team).full_cycle_due


def test_a_process_that_dies_after_ending_due_work_leaves_that_noted(
    full_team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends are committed before the plan is made; because the plan is unfinished the next reconciliation uses the
    free capacity."""
    world.submit_workflow(world.admin_actor(), "team", 2, name="next", priority=Priority.HIGH)
    assert reconcile_scope(full_team) == []
    now = timezone.now()
    Group.objects.filter(workflow__name="old-1").update(due_at=now, ends_at=now)

    def dies(*_: Any, **__: Any) -> LiveFacts:
        raise SystemExit

    with monkeypatch.context() as killed:
        killed.setattr(reconciliation, "read_live_facts", dies)
        with pytest.raises(SystemExit):
            reconcile_scope(full_team)
    assert Workflow.objects.get(name="old-1").status == "COMPLETED"
    assert ("start", "next-1") in reconcile_scope(full_team)


def test_killed_in_the_middle_of_a_plan_the_next_request_does_the_rest_of_it(
    full_team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = world.admin_actor()
    for name, gpus in (("filler", 1), ("filler", 1), ("low", 3), ("tiny", 1)):
        world.submit_workflow(admin, "team", gpus, name=name, priority=Priority.LOW)
    Node.objects.create(backend=full_team.backend, name="small", gpus=3)
    Pool.objects.filter(name="team").update(guarantee=8)
    reconcile_backend(full_team.backend_id or 0)
    world.submit_workflow(admin, "team", 2, name="firm")
    die_after_first_unit(full_team, monkeypatch)
    assert Workflow.objects.get(name="firm-1").status == "RUNNING"
    assert reconcile_scope(full_team) == [("start", "tiny-1")]  # in the rest of the capacity that was freed for firm-1
    assert is_clean(full_team)
    assert not state_of(full_team).full_cycle_due


def test_a_submission_that_commits_late_is_not_missed(full_team: Pool, reads: list[LiveFacts]) -> None:
    """Its transaction began before that of another submission, and committed after the other was reconciled."""
    admin = world.admin_actor()
    other = world.make_user("other-admin", "osmo-admin")  # submissions of one user are counted one after the other
    world.make_pool("other", 6, on=full_team.backend)
    reconcile_backend(full_team.backend_id or 0)
    reads.clear()
    made, go_on = Event(), Event()

    def late() -> None:
        with transaction.atomic():
            world.submit_workflow(other, "other", 1, name="late", priority=Priority.LOW)
            made.set()
            assert go_on.wait(60)
        connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(late)
        assert made.wait(60)
        world.submit_workflow(admin, "team", 1, name="quick", priority=Priority.LOW)
        assert reconcile_scope(full_team) == [("start", "quick-1")]
        go_on.set()
        waiting.result(60)
    assert reconcile_scope(full_team) == [("start", "late-1")]
    assert [("waits-1" in names(live)) for live in reads] == [False, False]


@pytest.mark.parametrize("what", ["cancel", "quota"])
def test_any_other_change_plans_everything(full_team: Pool, reads: list[LiveFacts], what: str) -> None:
    operations: dict[str, Callable[[], object]] = {
        "cancel": lambda: world.apply_change(CancelWorkflow(name="old-1"), actor=world.admin_actor()),
        "quota": lambda: world.apply_change(
            PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 7, "maximum": -1}}})
        ),
    }
    operations[what]()
    assert not is_clean(full_team)
    reconcile_scope(full_team)
    assert "waits-1" in names(reads[0])
    assert is_clean(full_team)
    assert Workflow.objects.get(name="waits-1").status == ("RUNNING" if what == "cancel" else "PENDING")
    reads.clear()
    assert reconcile_scope(full_team) == []
    assert reads == []


def test_a_change_that_is_rolled_back_leaves_the_state_clean(full_team: Pool) -> None:
    with transaction.atomic():
        Node.objects.filter(name="sim-n1").update(cpu=129)
        transaction.set_rollback(True)
    assert is_clean(full_team)


def test_a_start_that_evicts_is_planned_with_all_work(full_team: Pool, reads: list[LiveFacts]) -> None:
    world.submit_workflow(world.admin_actor(), "team", 2, name="low", priority=Priority.LOW)
    Pool.objects.filter(name="team").update(guarantee=8)
    Node.objects.create(backend=full_team.backend, name="small", gpus=2)
    reconcile_backend(full_team.backend_id or 0)
    reads.clear()
    world.submit_workflow(world.admin_actor(), "team", 2, name="firm")
    assert reconcile_scope(full_team) == [("preempt", "low-1"), ("start", "firm-1")]
    assert [("waits-1" in names(live)) for live in reads] == [False, False, True]
    assert not state_of(full_team).full_cycle_due


def test_the_periodic_task_runs_a_due_full_cycle_at_its_pace(full_team: Pool, reads: list[LiveFacts]) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    reconcile_scope(full_team)
    reads.clear()
    BackendSchedulingState.objects.update(
        full_cycle_seconds=2, full_cycle_at=timezone.now() - timedelta(seconds=2 * FULL_CYCLE_PACE - 30)
    )
    reconcile_scope(full_team, Scope.TICK)
    assert reads == []
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - timedelta(seconds=2 * FULL_CYCLE_PACE))
    reconcile_scope(full_team, Scope.HINT)  # a notification runs no full cycle
    assert reads == []
    reconcile_scope(full_team, Scope.TICK)
    assert [("waits-1" in names(live)) for live in reads] == [True]
    assert not state_of(full_team).full_cycle_due


def test_new_work_does_not_wait_for_a_full_cycle(full_team: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = world.admin_actor()
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - MAX_STATE_AGE)
    looking, go_on = Event(), Event()

    def slowly(backend: Backend, **more: Any) -> LiveFacts:
        found = read_live_facts(backend, **more)
        if not more:
            looking.set()
            assert go_on.wait(60)
        return found

    monkeypatch.setattr(reconciliation, "read_live_facts", slowly)

    def run_periodic_task() -> list[tuple[str, str]]:
        try:
            return reconcile_scope(full_team, Scope.TICK)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        periodic_run = pool.submit(run_periodic_task)
        assert looking.wait(60)
        world.submit_workflow(admin, "team", 1, name="new", priority=Priority.LOW)
        assert reconcile_scope(full_team) == [("start", "new-1")]
        assert reconcile_scope(full_team, Scope.TICK) == []  # one full cycle at a time
        go_on.set()
        assert periodic_run.result(60) == []
    assert state_of(full_team).full_cycle_at > timezone.now() - MAX_STATE_AGE


def test_a_full_cycle_leaves_new_work_to_the_reconciliation(full_team: Pool, reads: list[LiveFacts]) -> None:
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - MAX_STATE_AGE)
    before = state_of(full_team).full_cycle_at
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    assert reconcile_scope(full_team, Scope.TICK) == [("start", "new-1")]
    assert [("waits-1" in names(live)) for live in reads] == [True, False]
    assert state_of(full_team).full_cycle_at > before  # else a full cycle would never end under many submissions
    BackendSchedulingState.objects.update(full_cycle_seconds=3600)  # the next one is not due, however slow the test is
    assert reconcile_scope(full_team, Scope.TICK) == []
    assert len(reads) == 2


def test_the_plan_of_a_full_cycle_is_applied(full_team: Pool) -> None:
    """A change that moves no token."""
    Node.objects.create(backend=full_team.backend, name="more", gpus=4)
    assert full_team.backend is not None
    BackendSchedulingState.objects.update(
        plan_token=take_snapshot(full_team.backend).plan_token, full_cycle_at=timezone.now() - MAX_STATE_AGE
    )
    assert reconcile_scope(full_team, Scope.TICK) == [("start", "waits-1")]


def test_new_work_that_waits_for_its_namespace_is_planned_by_the_periodic_task(full_team: Pool) -> None:
    """Headroom in a namespace does not move the token, so each periodic run plans the work that waits for it."""
    worth = {"default": {"gpu_tflops": "100", "gpu_vram": "80Gi"}}
    world.apply_change(PatchPool(name="team", patch={"gpu_quota_namespace": "team-a", "platforms": worth}))

    def permit_workers(workers: int) -> None:
        usage = GpuUsage.objects.filter(pk="team-a").first()
        most = workers + (0 if usage is None else usage.workers)
        world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": most}}))

    permit_workers(1)
    reconcile_backend(full_team.backend_id or 0)
    assert not state_of(full_team).waits_for_external
    world.submit_workflow(world.admin_actor(), "team", 1, name="fits", priority=Priority.LOW)
    assert reconcile_scope(full_team) == [("start", "fits-1")]
    world.submit_workflow(world.admin_actor(), "team", 1, name="held", priority=Priority.LOW)
    assert reconcile_scope(full_team) == []
    permit_workers(1)
    assert reconcile_scope(full_team, Scope.TICK) == [("start", "held-1")]


def test_the_periodic_task_plans_everything_where_changes_move_no_token(
    full_team: Pool, reads: list[LiveFacts]
) -> None:
    for number, change in enumerate(
        ({"waits_for_external": True}, {"full_cycle_at": timezone.now() - timedelta(minutes=2)}), start=1
    ):
        BackendSchedulingState.objects.update(**change)
        reconcile_scope(full_team, Scope.TICK)
        assert len(reads) == number, change


def test_a_submission_leaves_the_full_cycle_to_the_periodic_task_while_it_runs(
    full_team: Pool, reads: list[LiveFacts]
) -> None:
    """The periodic task runs an overdue full cycle; if that task does not run, the next notification starts the
    cycle."""
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - MAX_STATE_AGE)
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    assert reconcile_scope(full_team) == [("start", "new-1")]
    assert [names(live) for live in reads] == [{"new-1"}]
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - 2 * MAX_STATE_AGE)
    reconcile_scope(full_team)
    assert "waits-1" in names(reads[-1])


def test_work_that_is_due_ends_first(full_team: Pool, reads: list[LiveFacts]) -> None:
    assert reconciliation.reconcile_now(actor=world.admin_actor(), backend="sim") == {"steps": [], "settled": True}
    assert "waits-1" in names(reads[0]), "a manual request plans everything"
    Group.objects.filter(workflow__name="old-1").update(ends_at=timezone.now(), due_at=timezone.now())
    assert reconcile_scope(full_team) == [("end", "old-1"), ("start", "waits-1")]


def test_killed_between_the_pods_of_new_work_the_next_request_starts_the_rest(
    full_team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction does not hold all starts of a large elastic gang."""
    notes = "{osmo/gpus-per-pod: 1, osmo/pods: 2}"
    file = f"kind: PodGroup\nmetadata: {{name: new, annotations: {notes}}}\nspec: {{minMember: 1}}\n"
    submit(actor=world.admin_actor(), pool="team", submission=Submission(file, Priority.LOW))
    die_after_first_unit(full_team, monkeypatch)
    assert Workflow.objects.get(name="new-1").status == "RUNNING"
    assert reconcile_scope(full_team) == [("start", "new-1")]


def test_the_note_of_new_work_is_asynchronous_and_nothing_after_it(
    full_team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk need not confirm the note; every other commit of the connection waits for the disk as before."""
    commits: list[str] = []
    mark_done = reconciliation.mark_new_work_done

    def mark_and_look(*arguments: Any, **more: Any) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            mark_done(*arguments, **more)
            cursor.execute("SHOW synchronous_commit")
            commits.append(cursor.fetchone()[0])

    monkeypatch.setattr(reconciliation, "mark_new_work_done", mark_and_look)
    world.submit_workflow(world.admin_actor(), "team", 1, name="new", priority=Priority.LOW)
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")  # the database of the tests waits for no disk
        reconcile_backend(full_team.backend_id, scope=Scope.HINT)
        cursor.execute("SHOW synchronous_commit")
        after = cursor.fetchone()[0]
        cursor.execute("RESET synchronous_commit")  # other tests use this session
        assert [*commits, after] == ["off", "on"]
    assert BackendSchedulingState.objects.get().full_cycle_due
