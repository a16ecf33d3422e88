"""The log of promised starts: a certain latest start is written once, and with what became of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.models import Backend
from scheduling.domain.promised_starts import GRACE, PromiseOutcome, WithdrawalReason
from scheduling.history.starts import background as forecasts
from scheduling.models import BackendSchedulingState, Group, PromiseCount, PromisedStart, StartReservation, Workflow
from scheduling.services.simulated import reconcile as reconciliation
from scheduling.services.simulated.apply_plan import PlanExecution
from scheduling.services.simulated.reconcile import Scope, reconcile_backend
from scheduling.services.verify import verify
from tests.integration.engine.conftest import Cluster
from tests.integration.engine.test_start_reservations import GANG, wait_since
from tests.support import world

pytestmark = pytest.mark.django_db

LIMIT = timedelta(hours=3)


@pytest.fixture(scope="module")
def cluster(module_data: world.ModuleData) -> Cluster:
    """Two nodes of 8; four NORMAL jobs of 2 GPUs with a time limit on each, and a HIGH gang of 8+8 that waits for two
    hours."""
    with module_data():
        cluster = Cluster({"n1": 8, "n2": 8}, {"team": 16})
        for n in range(8):
            cluster.submit(f"s{n}", "team", gpus=2)
        cluster.reconcile()
        for n in range(8):
            limit(f"s{n}")
        cluster.submit("big", "team", "HIGH", file=GANG)
        wait_since("big", 2)
        return cluster


def limit(name: str, span: timedelta = LIMIT) -> None:
    with world.triggers_off():
        work = Workflow.objects.get(spec_name=name)
        Workflow.objects.filter(pk=work.pk).update(exec_timeout=span)
        Group.objects.filter(workflow=work, start_time__isnull=False).update(due_at=work.start_time + span)


def change_promise(**values: Any) -> None:
    with world.triggers_off():
        assert PromisedStart.objects.update(**values) == 1


def promises() -> list[tuple[str, str]]:
    return list(PromisedStart.objects.order_by("pk").values_list("outcome", "reason"))


def end_jobs(cluster: Cluster) -> None:
    for n in range(8):
        cluster.end(f"s{n}")


def let_the_time_pass(more: timedelta = GRACE * 2) -> None:
    """The promised time was `more` ago."""
    latest = timezone.now() - more
    change_promise(latest_start=latest, made_at=latest - timedelta(hours=1))


def test_a_certain_latest_start_is_written_once(cluster: Cluster) -> None:
    cluster.reconcile()
    (promise,) = PromisedStart.objects.all()
    group = Group.objects.get(workflow__spec_name="big")
    ends = max(Group.objects.filter(workflow__spec_name__startswith="s").values_list("due_at", flat=True))
    assert (promise.group_id, promise.backend_id, promise.gang) == (group.pk, cluster.backend.pk, "big-1")
    assert (promise.waits_since, promise.outcome, promise.ended_at) == (group.ready_at, PromiseOutcome.OPEN, None)
    assert abs(promise.latest_start - ends) <= timedelta(seconds=1)
    versions = row_versions()
    cluster.reconcile()
    assert row_versions() == versions, "a cycle that changes nothing writes nothing"


def row_versions() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, ctid::text FROM scheduling_promisedstart ORDER BY id")
        return cursor.fetchall()


def test_an_uncertain_latest_start_is_no_promise(cluster: Cluster) -> None:
    with world.triggers_off():
        Workflow.objects.filter(spec_name="s0").update(exec_timeout=None)
    cluster.reconcile()
    assert StartReservation.objects.exists()
    assert promises() == []


def test_an_earlier_end_makes_the_promise_earlier(cluster: Cluster) -> None:
    limit("s0", LIMIT + timedelta(hours=1))
    cluster.reconcile()
    before = PromisedStart.objects.get().latest_start
    cluster.end("s0")
    cluster.reconcile()
    (promise,) = PromisedStart.objects.all()
    assert timedelta(minutes=59) < before - promise.latest_start < timedelta(minutes=61)
    assert promise.outcome == PromiseOutcome.OPEN


def test_it_is_kept_by_a_start(cluster: Cluster) -> None:
    cluster.reconcile()
    end_jobs(cluster)
    cluster.reconcile()
    cluster.assert_running("big")
    assert promises() == [(PromiseOutcome.KEPT, "")]
    promise = PromisedStart.objects.get()
    assert promise.ended_at == promise.group.start_time
    assert list(PromiseCount.objects.values_list("backend_id", "outcome", "count")) == [
        (cluster.backend.pk, PromiseOutcome.KEPT, 1)
    ]


def test_a_moment_after_the_time_is_in_time(cluster: Cluster) -> None:
    cluster.reconcile()
    let_the_time_pass(timedelta(seconds=5))
    cluster.reconcile()
    assert promises() == [(PromiseOutcome.OPEN, "")], "what ends the work before it may come with the next tick"
    end_jobs(cluster)
    cluster.reconcile()
    assert promises() == [(PromiseOutcome.KEPT, "")]


def test_a_wait_beyond_the_time_breaks_it_once(cluster: Cluster) -> None:
    cluster.reconcile()
    let_the_time_pass()
    with transaction.atomic():
        BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - timedelta(hours=1))
        assert verify() == [], "after a pause of the whole installation the first cycle decides"
        transaction.set_rollback(True)
    reconcile_backend(cluster.backend.pk)
    assert promises() == [(PromiseOutcome.BROKEN, "")]
    reconcile_backend(cluster.backend.pk)
    assert promises() == [(PromiseOutcome.BROKEN, "")], "no other promise hides the broken one"
    (found,) = verify()
    assert found.code == "promise"
    assert found.message.startswith("big-1 was promised to start by ")
    end_jobs(cluster)
    cluster.reconcile()


def test_a_cancelled_gang_withdraws_it(cluster: Cluster) -> None:
    cluster.reconcile()
    let_the_time_pass(GRACE / 2)
    answer = cluster.admin.post("/api/workflow/big-1/cancel", "{}", content_type="application/json")
    assert answer.status_code == 200
    cluster.reconcile()
    assert promises() == [(PromiseOutcome.WITHDRAWN, WithdrawalReason.ENDED)]
    promise = PromisedStart.objects.get()
    assert promise.ended_at == promise.group.end_time


def run_out_of_time() -> None:
    with world.triggers_off():
        Workflow.objects.filter(spec_name="big").update(queue_timeout=timedelta(minutes=1))
        Group.objects.filter(workflow__spec_name="big").update(due_at=timezone.now())


def lower_the_limit() -> None:
    world.apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 15}}}))


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (run_out_of_time, WithdrawalReason.ENDED),
        (lower_the_limit, WithdrawalReason.NO_RESERVATION),
    ],
)
def test_what_forbids_a_start_in_the_minute_of_grace_withdraws_it(
    cluster: Cluster, happens: Callable[[], None], reason: WithdrawalReason
) -> None:
    for n in range(4):  # room under a lower quota
        cluster.end(f"s{n}")
    cluster.reconcile()
    let_the_time_pass(GRACE / 2)
    happens()
    reconcile_backend(cluster.backend.pk)
    assert promises() == [(PromiseOutcome.WITHDRAWN, reason)]
    reconcile_backend(cluster.backend.pk)
    assert promises() == [(PromiseOutcome.WITHDRAWN, reason)]


def test_a_later_bound_withdraws_it_for_another_one(cluster: Cluster) -> None:
    cluster.reconcile()
    limit("s0", LIMIT + timedelta(hours=1))
    cluster.reconcile()
    assert promises() == [(PromiseOutcome.WITHDRAWN, WithdrawalReason.CHANGED), (PromiseOutcome.OPEN, "")]
    first, second = PromisedStart.objects.order_by("pk")
    assert second.latest_start > first.latest_start


def test_a_setting_without_reservations_withdraws_it(cluster: Cluster) -> None:
    cluster.reconcile()
    Backend.objects.update(reserve_after=None, ageing=None)
    cluster.reconcile()
    assert promises() == [(PromiseOutcome.WITHDRAWN, WithdrawalReason.NO_RESERVATION)]


def test_an_offline_backend_promises_nothing(cluster: Cluster) -> None:
    cluster.reconcile()
    Backend.objects.update(offline=True)
    reconcile_backend(cluster.backend.pk)
    assert promises() == [(PromiseOutcome.WITHDRAWN, WithdrawalReason.NO_RESERVATION)]
    Backend.objects.update(offline=False)
    cluster.reconcile()
    assert promises()[1:] == [(PromiseOutcome.OPEN, "")]


def test_the_periodic_full_cycle_notices_a_time_that_is_over(cluster: Cluster) -> None:
    cluster.reconcile()
    let_the_time_pass()
    BackendSchedulingState.objects.update(full_cycle_at=timezone.now() - timedelta(minutes=10))
    reconcile_backend(cluster.backend.pk, scope=Scope.TICK)
    assert promises() == [(PromiseOutcome.BROKEN, "")]


def test_a_killed_process_leaves_the_log_to_the_next_cycle(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after the start of the gang and before it has written what the start means."""
    cluster.reconcile()
    end_jobs(cluster)

    def dies(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as killed:
        killed.setattr(reconciliation, "save_promise_changes", dies)
        with pytest.raises(SystemExit):
            reconcile_backend(cluster.backend.pk)
    cluster.assert_running("big")
    assert promises() == [(PromiseOutcome.OPEN, "")]
    cluster.end("big")  # it may even have ended meanwhile
    cluster.reconcile()
    assert promises() == [(PromiseOutcome.KEPT, "")]


def test_a_plan_that_was_not_carried_out_promises_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.reconcile()
    end_jobs(cluster)

    def drops(execution: PlanExecution, _steps: Any) -> None:
        execution.as_planned = False

    with monkeypatch.context() as broken:
        broken.setattr(PlanExecution, "apply", drops)
        assert not reconcile_backend(cluster.backend.pk)["settled"]
    assert promises() == [(PromiseOutcome.OPEN, "")]


def test_old_promises_are_forgotten(cluster: Cluster) -> None:
    cluster.reconcile()
    end_jobs(cluster)
    cluster.reconcile()
    forecasts.forecast_starts()
    assert PromisedStart.objects.exists()
    change_promise(ended_at=timezone.now() - forecasts.KEPT - timedelta(hours=1))
    forecasts.forecast_starts()
    assert not PromisedStart.objects.exists()
