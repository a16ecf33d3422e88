"""One row with an error that nobody foresaw: every periodic job, and the loops of clusters, go on with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import connection
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from prometheus_client import REGISTRY

from pools.database.one_by_one import left_out_on_error, work_in_batch
from pools.domain.changes.notices import CreateTarget
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.errors import Busy
from pools.domain.people.notices import PERSONAL_KINDS
from pools.models import ApprovalRequest, Backend, GpuAllocation, Notice, NoticeCondition, Pool
from pools.services.gpu_quota import gpu_allocations
from scheduling import tasks
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.statuses import TaskStatus
from scheduling.history.starts import background as forecasts
from scheduling.models import Group, HistoryReplay
from scheduling.services import notifications, periodic_tasks, task_names, usage
from scheduling.services.kubernetes import heartbeats
from scheduling.services.notices import conditions, planning, sending
from scheduling.services.simulated import end_due
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.agent_harness import kubernetes_backend
from tests.support.notices import plan_notices

ONE_STATEMENT = {
    task_names.FORGET_DECISIONS: "one statement deletes what is too old; no row is read",
    task_names.FORGET_AUDIT: "one function of the database deletes what is too old",
    task_names.FORGET_NOTICES: "one statement deletes what is too old",
    task_names.CLOSE_USAGE_HOURS: "one statement computes the sums of all leaves",
    task_names.FIND_COHORT_CYCLES: "one computation over the whole tree of cohorts",
}
"""Periodic jobs without a loop over rows, with the reason."""


Prepare = Callable[[pytest.MonkeyPatch, Callable[[str, str], None]], Callable[[], bool]]
CASES: dict[str, Prepare] = {}
"""A job prepares rows of which one is broken; the answer says after the run whether the others were served."""


def case(task: str) -> Callable[[Any], Any]:
    def add(prepare: Any) -> Any:
        CASES[task] = prepare
        return prepare

    return add


def fail_once(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The first call of this function fails; the arguments of the others."""
    original, served, calls = getattr(owner, name), list[Any](), list[int]()

    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("an unforeseen error")
        served.append(arguments)
        return original(*arguments, **options)

    patch.setattr(owner, name, call)
    return served


@contextmanager
def database_refuses(table: str, condition: str) -> Iterator[None]:
    """A rule of the database that no change of a row may pass for which the condition holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF {condition} THEN RAISE EXCEPTION 'an unforeseen error'; END IF; RETURN NEW; END $$"
        )
        cursor.execute(
            f"CREATE TRIGGER a_refuse_row BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_row()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TRIGGER a_refuse_row ON {table}")
            cursor.execute("DROP FUNCTION refuse_row()")


@pytest.fixture
def refuse(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    def add(table: str, condition: str) -> None:
        context = database_refuses(table, condition)
        context.__enter__()
        request.addfinalizer(lambda: context.__exit__(None, None, None))

    return add


def test_every_periodic_job_is_here(db: None, settings: Any) -> None:
    periodic_tasks.ensure_periodic_tasks()
    known = set(PeriodicTask.objects.exclude(task__startswith="celery.").values_list("task", flat=True))
    assert known | {task_names.CHECK_SIGN_ONS} == set(CASES) | set(ONE_STATEMENT)


@pytest.mark.parametrize("task", sorted({
    "scheduling.settle_all", "scheduling.sync_all_queues", "scheduling.archive_drained",
    "scheduling.end_temporary_quotas", "scheduling.expire_approvals", "scheduling.expire_gpu_reservations",
    "scheduling.sample_gpu_usage", "scheduling.find_silent_clusters", "scheduling.note_wait_causes",
    "scheduling.forget_idempotency_keys", "scheduling.forget_old_usage", "scheduling.forecast_starts",
    "scheduling.check_sign_ons", "scheduling.send_notices", "scheduling.find_notice_conditions",
    "scheduling.resume_replays",
}))  # fmt: skip
def test_the_others_are_served(
    task: str, db: None, monkeypatch: pytest.MonkeyPatch, refuse: Any, caplog: pytest.LogCaptureFixture
) -> None:
    others_are_served = CASES[task](monkeypatch, refuse)
    before = _faults()
    current_app.tasks[task]()
    assert others_are_served()
    assert _faults() == before + 1
    assert "is left out for an unforeseen error" in caplog.text


def _faults() -> float:
    return sum(
        sample.value
        for metric in REGISTRY.collect()
        if metric.name == "osmo_row_faults"
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


@case(task_names.RECONCILE_ALL)
def _reconcile(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    for name in ("a", "b"):
        world.make_backend(name)
    served = fail_once(patch, notifications, "enqueue_periodic_reconcile")
    return lambda: len(served) == 1


@case(task_names.SYNC_ALL_QUEUES)
def _sync(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    for name in ("a", "b"):
        kubernetes_backend(f"ns-{name}", name)
    served = fail_once(patch, notifications, "enqueue_queue_sync")
    return lambda: len(served) == 1


@case(task_names.RESUME_REPLAYS)
def _replays(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    backend = world.make_backend()
    for name in ("ann", "bob"):
        HistoryReplay.objects.create(
            user_id=world.make_user(name).user_id,
            backend_id=backend.pk,
            question={},
            reads_all=True,
            pools=[],
            status="WAITING",
        )
    served = fail_once(patch, notifications, "enqueue_history_replay")
    return lambda: len(served) == 1


@case(task_names.DRAIN_MONITOR)
def _drained(_: pytest.MonkeyPatch, refuse: Any) -> Callable[[], bool]:
    world.make_pool("team", 100, a=30, b=20, c=10)
    Pool.objects.exclude(parent=None).update(subpool_state="DELETING")
    refuse("pools_pool", "NEW.name = 'team--a'")
    return lambda: [*Pool.objects.exclude(parent=None).order_by("name").values_list("subpool_state", flat=True)] == [
        "DELETING", "ARCHIVED", "ARCHIVED",
    ]  # fmt: skip


@case(task_names.END_TEMPORARY_QUOTAS)
def _temporary(_: pytest.MonkeyPatch, refuse: Any) -> Callable[[], bool]:
    world.make_pool("team", 100, a=30, b=20)
    for name in ("a", "b"):
        until = timezone.now() + timedelta(days=1)
        world.apply_change(ResizeSubpool(parent="team", subpool_name=name, quota=40, until=until))
    Pool.objects.exclude(parent=None).update(quota_until=timezone.now() - timedelta(seconds=1))
    refuse("pools_pool", "NEW.name = 'team--a'")
    return lambda: (
        [*Pool.objects.exclude(parent=None).order_by("name").values_list("last_quota", flat=True)] == [40, 20]
    )


@case(task_names.EXPIRE_APPROVALS)
def _approvals(_: pytest.MonkeyPatch, refuse: Any) -> Callable[[], bool]:
    now = timezone.now()
    root = world.make_pool("team", 100, a=30)
    for number in range(2):
        ApprovalRequest.objects.create(
            pool_id_then=root.pk, pool="team", subject=f"pool/team--{number}", requested_by="ann", service="x",
            arguments={}, needs=[], above=1, expires_at=now - timedelta(hours=1),
        )  # fmt: skip
    refuse("pools_approvalrequest", "NEW.subject = 'pool/team--0'")
    return lambda: [*ApprovalRequest.objects.order_by("subject").values_list("state", flat=True)] == [
        "waiting", "expired",
    ]  # fmt: skip


@case(task_names.EXPIRE_RESERVATIONS)
def _reservations(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    for namespace in ("a", "b"):
        GpuAllocation.objects.create(
            namespace=namespace, name="x", state="assumed", source="api",
            expires_at=timezone.now() - timedelta(minutes=1),
        )  # fmt: skip
    fail_once(patch, gpu_allocations, "release_rows")
    return lambda: [*GpuAllocation.objects.order_by("namespace").values_list("state", flat=True)] == [
        "assumed", "released",
    ]  # fmt: skip


@case(task_names.SAMPLE_GPU_USAGE)
def _samples(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    fail_once(patch, tasks, "sample_usage")
    served = list[int]()
    patch.setattr(tasks, "purge_released", lambda: served.append(1))
    return lambda: served == [1]


@case(task_names.FORGET_KEYS)
def _keys(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    fail_once(patch, tasks, "purge_old_records")
    served = list[int]()
    patch.setattr(tasks.SessionStore, "clear_expired", lambda: served.append(1))
    return lambda: served == [1]


@case(task_names.FIND_SILENT)
def _silent(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    for name in ("a", "b"):
        kubernetes_backend(f"ns-{name}", name)
    Backend.objects.update(offline=False)
    fail_once(patch, heartbeats, "_set_offline")
    return lambda: [*Backend.objects.order_by("name").values_list("offline", flat=True)] == [False, True]


@case(task_names.NOTE_WAIT_CAUSES)
def _causes(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    for name in ("a", "b"):
        world.make_backend(name)
    served = fail_once(patch, usage, "_note_causes")
    return lambda: len(served) == 1


@case(task_names.FORECAST_STARTS)
def _forecasts(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    for name in ("a", "b"):
        world.make_backend(name)
    served = fail_once(patch, forecasts, "_forecast")
    return lambda: len(served) == 1


@case(task_names.FORGET_USAGE)
def _old_usage(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    first, *others = (*usage._SUMS, *usage._DAYS)
    deleted = list[str]()

    def delete(rows: Any) -> tuple[int, dict[str, int]]:
        if rows.model is first:
            raise RuntimeError("an unforeseen error")
        deleted.append(rows.model.__name__)
        return 0, {}

    patch.setattr("django.db.models.query.QuerySet.delete", delete)
    return lambda: {model.__name__ for model in others} < set(deleted)


@case(task_names.CHECK_SIGN_ONS)
def _sign_ons(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    """With a provider in tests/integration/sign_on/test_unreadable_claims.py; here the loop alone."""
    from pools.models import SignOnIdentity, User
    from pools.sign_on import accounts as sign_on
    from pools.sign_on.providers import OpenIdProvider

    provider = OpenIdProvider("corp", "Corp", "https://id.example", "osmo", "")
    patch.setattr(sign_on, "configured_providers", lambda: {"corp": provider})
    for name in ("ann", "bob"):
        world.make_user(name)
        SignOnIdentity.objects.create(
            user=User.objects.get(username=name), provider="corp", issuer=provider.issuer, subject=name,
            refresh_token="x", session_until=timezone.now() + timedelta(hours=1),
            checked_at=timezone.now() - timedelta(hours=1),
        )  # fmt: skip
    patch.setattr(sign_on, "_check_identity", lambda *_: True)
    served = fail_once(patch, sign_on, "_check_identity")
    return lambda: len(served) == 1


@case(task_names.SEND_NOTICES)
def _notices(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    fail_once(patch, tasks, "plan_notices")
    served = list[int]()
    patch.setattr(tasks, "send_notices", lambda: served.append(1))
    return lambda: served == [1]


@case(task_names.FIND_CONDITIONS)
def _conditions(patch: pytest.MonkeyPatch, _: Any) -> Callable[[], bool]:
    """A search that fails neither begins nor ends its conditions; the others do."""
    NoticeCondition.objects.create(kind="job_late", subject="job/x", message="late")
    NoticeCondition.objects.create(kind="cluster_silent", subject="backend/x", message="silent")
    patch.setattr(conditions, "_chosen_kinds", lambda: {"job_late", "cluster_silent"})
    fail_once(patch, conditions, "late_jobs")
    return lambda: [*NoticeCondition.objects.values_list("kind", flat=True)] == ["job_late"]


class TestNotices:
    @pytest.mark.django_db(transaction=True)
    def test_an_entry_that_cannot_be_read_leaves_the_others_and_is_not_read_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The reader of a kind of entry fails with the first one; the position in the trail moves beyond both."""
        plan_notices()
        world.make_pool("team", 100)
        actor = world.make_user("ann", "osmo-team-user")
        values = {"name": "hook", "channel": "webhook", "address": "https://hook.example", "kinds": PERSONAL_KINDS}
        world.apply_change(CreateTarget(**values), actor=actor)
        for name in ("bad", "good"):
            work = world.submit_workflow(actor, "team", name=name)
            world.apply_change(CancelWorkflow(name=work.name), actor=actor)
        fail_once(monkeypatch, planning, "_read_facts")
        plan_notices()
        assert [each.data["subject"].split("-")[0] for each in Notice.objects.all()] == ["workflow/good"]
        assert planning.plan_notices() == 0 and Notice.objects.count() == 1

    def test_a_target_that_fails_leaves_the_others(self, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
        due = iter([[1, 2], [], []])
        served = list[int]()

        def begin(target: int) -> None:
            if target == 1:
                raise RuntimeError("an unforeseen error")
            served.append(target)

        monkeypatch.setattr(sending, "_due_targets", lambda *_, **__: next(due))
        monkeypatch.setattr(sending, "begin_attempt", begin)
        assert sending._send_due(float("inf")) == 0 and served == [2]


class TestWork:
    def test_a_due_gang_that_cannot_end_leaves_the_others(
        self, db: None, monkeypatch: pytest.MonkeyPatch, refuse: Any
    ) -> None:
        world.make_pool("team", 100)
        actor = world.make_user("ann", "osmo-team-user")
        for name in ("bad", "good"):
            world.submit_workflow(actor, "team", name=name)
        backend = Backend.objects.get()
        reconcile_backend(backend.pk)
        Group.objects.update(due_at=timezone.now(), ends_at=timezone.now())
        bad = Group.objects.get(workflow__name__startswith="bad")
        refuse("scheduling_group", f"NEW.uuid = '{bad.pk}'")
        steps, busy = end_due.end_due_groups(backend)
        assert busy is None and [step["workflow"].split("-")[0] for step in steps] == ["good"]

    def test_a_gang_that_cannot_start_leaves_the_others(self, db: None, refuse: Any) -> None:
        world.make_pool("team", 100)
        actor = world.make_user("ann", "osmo-team-user")
        for name in ("bad", "good"):
            world.submit_workflow(actor, "team", name=name)
        bad = Group.objects.get(workflow__name__startswith="bad")
        refuse("scheduling_group", f"NEW.uuid = '{bad.pk}' AND NEW.status = 'RUNNING'")
        reconcile_backend(Backend.objects.get().pk)
        assert [*Group.objects.order_by("workflow__name").values_list("status", flat=True)] == [
            TaskStatus.SCHEDULING, TaskStatus.RUNNING,
        ]  # fmt: skip


class TestTheHelper:
    def test_a_busy_row_is_no_fault(self, db: None, caplog: pytest.LogCaptureFixture) -> None:
        before = _faults()
        with left_out_on_error("some work", "a row"):
            raise Busy("locked", retry_after=1)
        assert _faults() == before and "unforeseen" not in caplog.text

    @pytest.mark.django_db(transaction=True)
    def test_a_lost_connection_ends_the_run(self) -> None:
        done = list[int]()

        def work(rows: Any) -> int:
            done.extend(rows)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return 1

        with pytest.raises(Exception, match="terminating connection"):
            work_in_batch("some work", [1, 2], work)
        assert done == [1, 2]
        connection.close()
