"""Races about work: submissions, ends and deletes that meet."""

from __future__ import annotations

import re
from functools import partial

import pytest

from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.errors import BadInput, Busy, Conflict, DomainError
from pools.domain.people.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import AuditEntry, LeafUsage, Pool, Reservation
from pools.services.configuration import subpools
from pools.services.configuration.subpools import SubpoolResult, archive_drained
from scheduling.domain.changes.workflows import CancelWorkflow, EndStatus, EndWorkflow
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows import insert_rows, submission
from scheduling.services.workflows.submission import Submission, SubmissionReceipt, submit
from tests.support import world
from tests.support.races import Rendezvous, remove_tree_lock, without_triggers
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _submit_one(name: str = "job", to: str = "team--a", actor: Actor | None = None) -> SubmissionReceipt:
    return submit(actor=actor or world.admin_actor(), pool=to, submission=Submission(file=world.workflow_file(name)))


class TestSubmitAgainstDelete:
    """The submission has read an ACTIVE subpool, the delete has read no live workflow on it; then both write."""

    def _race(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        world.make_pool("team", 100, a=60)
        world.admin_actor()
        meeting = Rendezvous(2)
        meeting.after_call(monkeypatch, submission, "find_refusal")
        real = subpools.subpool_lifecycle.state_after_delete

        def decide_then_meet(*, live_workflows: int) -> SubpoolState:
            target = real(live_workflows=live_workflows)
            meeting.wait()
            return target

        monkeypatch.setattr(subpools.subpool_lifecycle, "state_after_delete", decide_then_meet)
        return list(
            run_concurrently([_submit_one, lambda: world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))])  # type: ignore[list-item]
        )

    def test_without_lock_and_constraint_work_stays_on_an_archived_subpool(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remove_tree_lock(monkeypatch, subpools)
        with (
            without_triggers("pools_reservation", "leaf_takes_work"),
            without_triggers("pools_pool", "state_machine"),
        ):
            results = self._race(monkeypatch)
        assert not any(isinstance(result, Exception) for result in results)
        assert Pool.objects.get(name="team--a").subpool_state == "ARCHIVED"
        assert "archived" in {difference.code for difference in verify()}

    def test_with_the_lock_they_follow_one_another(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent, deleted = self._race(monkeypatch)
        assert isinstance(deleted, SubpoolResult)
        if isinstance(sent, SubmissionReceipt):  # it came first, so the subpool drains
            assert deleted.subpool.state is SubpoolState.DELETING
        else:
            assert isinstance(sent, DomainError)
            assert deleted.subpool.state is SubpoolState.ARCHIVED
        assert verify() == []


def test_the_last_workflow_ending_against_the_monitor() -> None:
    """Both may archive, one does, and the audit trail has one entry. The archiving statement checks the state again
    under the row's lock, so it is safe by itself; the tree's lock prevents a recreate in between (test_subpools)."""
    admin = world.admin_actor()
    root = world.make_pool("team", 100, **{f"s{number}": 5 for number in range(8)})
    for number in range(8):
        world.submit_workflow(admin, f"team--s{number}")
    assert root.backend_id is not None
    reconcile_backend(root.backend_id)
    for number in range(8):
        world.apply_change(DeleteSubpool(parent="team", subpool_name=f"s{number}"))
    names = list(Workflow.objects.values_list("name", flat=True))
    ends = [
        lambda name=name: world.apply_change(EndWorkflow(name=name, status=EndStatus.COMPLETED), actor=admin)
        for name in names
    ]
    results = run_concurrently([*ends, archive_drained, archive_drained])  # type: ignore[list-item]
    assert not [result for result in results if isinstance(result, Exception)]
    assert set(Pool.objects.filter(parent=root).values_list("subpool_state", flat=True)) == {"ARCHIVED"}
    assert AuditEntry.objects.filter(action="subpool.archived").count() == 8
    assert verify() == []


def test_two_monitors_at_once_do_no_harm() -> None:
    root = world.make_pool("team", 100, **{f"s{number}": 1 for number in range(20)})
    Pool.objects.filter(parent=root).update(subpool_state=SubpoolState.DELETING)
    results = run_concurrently([archive_drained] * 4)
    assert sum(result for result in results if isinstance(result, int)) == 20
    assert AuditEntry.objects.filter(action="subpool.archived").count() == 20


def test_16_parallel_submissions_are_all_counted() -> None:
    world.make_pool("team", 100, a=60)
    world.admin_actor()
    results = run_concurrently([lambda n=n: _submit_one(f"job{n}") for n in range(16)])  # type: ignore[misc]
    assert all(isinstance(result, SubmissionReceipt) for result in results)
    assert LeafUsage.objects.get(pool__name="team--a").live_workflows == 16
    assert Reservation.objects.count() == 16
    assert verify() == []


class TestEightClientsWithOneWorkflowName:
    def test_without_the_row_of_the_name_they_collide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`1 + highest`, read from the workflows: what OSMO's own service does."""
        for number in range(8):
            world.make_pool(f"team{number}", 100)
        people = [world.make_user(f"u{number}", "osmo-admin") for number in range(8)]  # one waits for oneself
        count = r"INSERT INTO scheduling_workflowname.*?RETURNING name AS spec_name, last_number"
        counting = re.compile(count, re.DOTALL)
        highest_plus_one = """
            SELECT spec_name, many + (SELECT count(*) FROM scheduling_workflow WHERE spec_name = totals.spec_name)
                AS last_number FROM totals, pg_sleep(0.5)
        """
        statement, replaced = counting.subn(highest_plus_one, insert_rows._insert_statement())
        assert replaced == 1
        monkeypatch.setattr(insert_rows, "_insert_statement", lambda: statement)
        results = run_concurrently([lambda n=n: _submit_one("same", f"team{n}", people[n]) for n in range(8)])  # type: ignore[misc]
        assert any(isinstance(result, Conflict) for result in results), results

    @pytest.mark.parametrize("pools", [1, 8], ids=["one pool", "eight pools"])
    def test_with_the_row_numbers_are_dense_and_no_request_fails(self, pools: int) -> None:
        for number in range(pools):
            world.make_pool(f"team{number}", 100)
        world.admin_actor()
        results = run_concurrently([lambda n=n: _submit_one("same", f"team{n % pools}") for n in range(8)])  # type: ignore[misc]
        assert all(isinstance(result, SubmissionReceipt) for result in results)
        assert set(Workflow.objects.values_list("name", flat=True)) == {f"same-{n}" for n in range(1, 9)}
        assert verify() == []


def test_a_form_that_arrives_twice_at_once_submits_once() -> None:
    """A double click without scripts, or a proxy that repeats a request."""
    world.make_pool("team", 100, a=60)
    world.make_user("worker", "osmo-team-user")
    browsers = [world.sign_in("worker") for _ in range(2)]
    browsers[1].cookies = browsers[0].cookies
    page = browsers[0].get("/submit").content.decode()
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    shown = {"pool": "team--a", "file": world.workflow_file("job"), "step": "submit", "csrfmiddlewaretoken": token}
    answers = run_concurrently([partial(browser.post, "/submit", shown) for browser in browsers])
    assert [getattr(each, "url", each) for each in answers] == ["/workflows/job-1"] * 2
    assert Workflow.objects.count() == 1
    assert AuditEntry.objects.filter(action="workflow.submitted").count() == 1


def test_two_reconciliations_start_each_gang_once() -> None:
    admin = world.admin_actor()
    root = world.make_pool("team", 100)
    for _ in range(12):
        world.submit_workflow(admin, "team", 4)
    assert root.backend_id is not None
    backend_id = root.backend_id
    run_concurrently([lambda: reconcile_backend(backend_id) for _ in range(4)])
    assert Workflow.objects.filter(status=WorkflowStatus.RUNNING).count() == 12
    assert AuditEntry.objects.filter(action="workflow.started").count() == 12
    assert verify() == []


def test_cancel_against_start_and_end() -> None:
    """The held GPUs are released once, whichever operation is first."""
    admin = world.admin_actor()
    root = world.make_pool("team", 100)
    names = [world.submit_workflow(admin, "team", 4).name for _ in range(6)]
    assert root.backend_id is not None
    backend_id = root.backend_id
    cancels = [lambda name=name: world.apply_change(CancelWorkflow(name=name), actor=admin) for name in names]
    results = run_concurrently([*cancels, lambda: reconcile_backend(backend_id), lambda: reconcile_backend(backend_id)])  # type: ignore[list-item]
    assert not [
        result for result in results if isinstance(result, Exception) and not isinstance(result, BadInput | Busy)
    ]
    assert not Workflow.objects.active().exists()
    assert LeafUsage.objects.get(pool__name="team").total_usage == 0
    assert verify() == []


def test_a_lock_timeout_is_a_503_and_changes_nothing(settings: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from django.db import connection, transaction

    from pools.locking import lock_pool_tree

    root = world.make_pool("team", 100, a=60)
    world.admin_actor()
    settings.OSMO = replace(settings.OSMO, lock_timeout_ms=200)  # type: ignore[attr-defined]
    with transaction.atomic():
        lock_pool_tree(root.pk)
        (result,) = run_concurrently([_submit_one])
    assert isinstance(result, Busy)
    assert result.retry_after == 1
    assert not Workflow.objects.exists()
    assert connection.is_usable()
