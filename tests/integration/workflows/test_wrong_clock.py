"""A process whose clock is wrong: times that one process sets and another obeys come from the database's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.gpu_quota.workers import GpuAmounts
from pools.domain.values.quantities import parse_quantity
from pools.models import GpuAllocation, IdempotencyRecord
from pools.services.changes.idempotency import purge_old_records
from pools.services.gpu_quota.gpu_allocations import expire_assumed
from pools.services.people.client_logins import find_client_login, start_client_login
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.models import Decision, Group, WaitSpan, Workflow
from scheduling.services.decisions import delete_old_decisions
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.usage import delete_old_usage
from tests.support import world

pytestmark = pytest.mark.django_db
MINUTE, DAY = timedelta(minutes=1), timedelta(hours=26)


@contextmanager
def clock_ahead(by: timedelta = DAY) -> Iterator[None]:
    """Inside, the clock of this process is ahead of the database's."""
    with time_machine.travel(timezone.now() + by, tick=True):
        yield


def is_near(time: Any) -> bool:
    return abs(time - timezone.now()) < MINUTE


def test_a_repeated_request_is_not_carried_out_again(alice: Any) -> None:
    first = alice.submit("team", world.workflow_file(), Idempotency_Key="k")
    with clock_ahead():
        again = alice.submit("team", world.workflow_file(), Idempotency_Key="k")
    assert (alice.status, again) == (200, first)
    assert Workflow.objects.count() == 1


def test_stored_answers_are_kept_for_a_day(alice: Any) -> None:
    alice.submit("team", world.workflow_file(), Idempotency_Key="k")
    with clock_ahead():
        assert purge_old_records() == 0
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert purge_old_records() == 1


def test_work_is_queued_by_the_time_of_its_submission(alice: Any) -> None:
    with clock_ahead():
        alice.submit("team", world.workflow_file("early"))
    alice.submit("team", world.workflow_file("late"))
    assert [row.spec_name for row in Workflow.objects.order_by("submit_time")] == ["early", "late"]
    assert is_near(Workflow.objects.get(spec_name="early").submit_time)


def test_running_work_is_not_ended_early_and_ends_in_time(alice: Any, team: Any) -> None:
    type(team.backend).objects.update(auto_end=True)
    alice.submit("team", world.workflow_file("first", **{"osmo/simulated-runtime": "2h"}))
    reconcile_backend(team.backend_id)
    alice.submit("team", world.workflow_file("second", **{"osmo/simulated-runtime": "2h"}))
    with clock_ahead():
        reconcile_backend(team.backend_id)
    assert set(Workflow.objects.values_list("status", flat=True)) == {"RUNNING"}
    for group in Group.objects.all():
        assert is_near(group.start_time)
        assert is_near(group.due_at - timedelta(hours=2))


def test_a_cancellation_ends_work_now(alice: Any) -> None:
    name = alice.submit("team", world.workflow_file())["name"]
    with clock_ahead():
        world.apply_change(CancelWorkflow(name=name), actor=alice.actor)
    assert is_near(Workflow.objects.get().end_time)


def test_an_assumed_allocation_keeps_its_half_hour() -> None:
    with clock_ahead(-DAY):
        make_assumed("first")
    make_assumed("second")
    assert expire_assumed() == 0
    with clock_ahead():
        assert expire_assumed() == 0
    assert set(GpuAllocation.objects.values_list("state", flat=True)) == {"assumed"}


def test_nothing_is_deleted_before_its_time(alice: Any, team: Any) -> None:
    """What a worker with a wrong clock deletes is gone for good."""
    alice.submit("team", world.workflow_file())
    reconcile_backend(team.backend_id)
    assert (Decision.objects.count(), WaitSpan.objects.count()) == (1, 1)
    with clock_ahead(timedelta(days=4000)):
        assert (delete_old_decisions(), delete_old_usage()) == (0, 0)


def test_a_client_waits_for_its_person() -> None:
    with clock_ahead(-DAY):
        login, _ = start_client_login(client_name="laptop", address="192.0.2.1")
    assert find_client_login(login.user_code) == login


def make_assumed(name: str) -> None:
    amounts = GpuAmounts(parse_quantity("1"), parse_quantity("1Gi"))
    worker = AllocateWorker(namespace="team-a", id=name, workload="infer", request=amounts, limit=amounts, assume=True)
    world.apply_change(worker)
