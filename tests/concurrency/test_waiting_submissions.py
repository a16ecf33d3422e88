"""Submissions of one user to one leaf that wait for the same lock: each has its own transaction and its own answer."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from pools.database import transactions
from pools.domain.changes.users import RevokeRole
from pools.domain.errors import BadInput, Busy, Conflict, DomainError, Forbidden, NotFound, Throttled
from pools.domain.people.roles import Actor
from pools.locking import lock_pool_tree
from pools.models import AuditEntry, LeafUsage, LiveWork, Pool, User
from pools.services.changes import idempotency
from scheduling.models import Workflow
from scheduling.services.verify import verify
from scheduling.services.workflows import submission
from scheduling.services.workflows.insert_rows import insert_workflows
from scheduling.services.workflows.submission import Submission, SubmissionReceipt, submit
from tests.support import world
from tests.support.kube_server import wait_for
from tests.support.preloading import start_program
from tests.support.services import Services

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

Outcome = SubmissionReceipt | BaseException
POOL = "team"


@pytest.fixture
def ann() -> Actor:
    world.make_pool(POOL, 10)
    return world.make_user("ann", "osmo-team-user")


def _submit(actor: Actor, name: str, gpus: int = 1) -> SubmissionReceipt:
    return submit(actor=actor, pool=POOL, submission=Submission(file=world.workflow_file(name, gpus)))


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def _waiting() -> int:
    """Sessions of this database that wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


def _run_together(*calls: Callable[[], Any], before_release: Callable[[], None] = lambda: None) -> list[Any]:
    """What each call returned or raised. The request ids are `r0`, `r1`, …; the calls come one after the other while
    the tree of the pool is locked, so all wait for it."""

    def run(number: int, call: Callable[[], Any]) -> Any:
        transactions.request_id.set(f"r{number}")
        try:
            return call()
        except Exception as problem:  # noqa: BLE001  (the caller judges each outcome)
            return problem
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as threads:
        futures = []
        with transaction.atomic():
            lock_pool_tree(Pool.objects.get(name=POOL).pk)
            for number, call in enumerate(calls):
                futures.append(threads.submit(run, number, call))
                _wait_until(lambda number=number: _waiting() > number)  # type: ignore[misc]
            before_release()
        return [future.result(60) for future in futures]


def _submissions(actor: Actor, sizes: Sequence[int]) -> list[Callable[[], SubmissionReceipt]]:
    return [lambda n=n, gpus=gpus: _submit(actor, f"job{n}", gpus) for n, gpus in enumerate(sizes)]  # type: ignore[misc]


def _transactions() -> list[list[str]]:
    """The request ids of the submissions of each transaction."""
    found: dict[int, list[str]] = {}
    for entry in AuditEntry.objects.filter(action="workflow.submitted").order_by("id"):
        found.setdefault(entry.transaction, []).append(entry.request_id)
    return list(found.values())


def _set_limits(settings: Any, **limits: int) -> None:
    settings.OSMO = dataclasses.replace(settings.OSMO, **limits)


def test_each_has_a_transaction_with_its_request_id(ann: Actor) -> None:
    results = _run_together(*_submissions(ann, [1, 2, 3, 4]))
    assert [result.workflow.name for result in results] == ["job0-1", "job1-1", "job2-1", "job3-1"]
    entries = AuditEntry.objects.filter(action="workflow.submitted").order_by("object")
    assert [(entry.object, entry.request_id, entry.actor) for entry in entries] == [
        (f"workflow/job{n}-1", f"r{n}", "ann") for n in range(4)
    ]
    assert sorted(_transactions()) == [["r0"], ["r1"], ["r2"], ["r3"]]
    assert LeafUsage.objects.get(pool__name=POOL).live_workflows == 4
    assert LiveWork.objects.get(pool__name=POOL, owner="ann").workflows == 4
    assert verify() == []


def test_one_of_several_is_refused_with_its_own_numbers(ann: Actor) -> None:
    results = _run_together(*_submissions(ann, [1, 50, 1, 60]))
    with pytest.raises(BadInput) as alone:
        _submit(ann, "job1", 50)
    assert [type(result) for result in results] == [SubmissionReceipt, BadInput, SubmissionReceipt, BadInput]
    assert (results[1].message, results[1].details) == (alone.value.message, alone.value.details)
    assert results[1].workflow_id == "job1"
    assert "60" in results[3].message
    assert sorted(_transactions()) == [["r0"], ["r2"]]


def test_all_are_refused_without_a_commit(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit would wait for the disk, because the lock of the tree is a write."""
    monkeypatch.setattr(transactions, "_announce_and_commit", lambda: pytest.fail("a commit"))
    results = _run_together(*_submissions(ann, [50, 51, 52]))
    assert [type(result) for result in results] == [BadInput] * 3
    assert Workflow.objects.count() == 0


def test_the_limit_of_live_workflows_is_reached_in_the_middle(ann: Actor, settings: Any) -> None:
    _set_limits(settings, max_live_workflows=3)
    _submit(ann, "first")
    results = _run_together(*_submissions(ann, [1, 1, 1, 1]))
    refused = [result for result in results if isinstance(result, Throttled)]
    assert [dict(result.details[0].numbers) for result in refused] == [{"live": 3, "requested": 1, "limit": 3}] * 2
    assert sum(isinstance(result, SubmissionReceipt) for result in results) == 2
    assert Workflow.objects.count() == 3


def test_each_request_has_the_roles_of_its_own_actor(ann: Actor) -> None:
    Pool.objects.filter(name=POOL).update(enable_maintenance=True)
    admin = dataclasses.replace(ann, roles=ann.roles | {"osmo-admin"})
    results = _run_together(lambda: _submit(ann, "a"), lambda: _submit(admin, "b"), lambda: _submit(ann, "c"))
    assert [type(result) for result in results] == [BadInput, SubmissionReceipt, BadInput]
    assert _transactions() == [["r1"]]


def test_a_role_that_is_removed_while_others_wait_counts_for_the_next_request(ann: Actor) -> None:
    """Those that wait were permitted when they came, like every request that waits for a lock."""
    refused: list[Exception] = []

    def remove_role_and_submit() -> None:
        world.apply_change(RevokeRole(username="ann", role_name="osmo-team-user"))
        try:
            _submit(User.objects.get(username="ann").as_actor(), "late")
        except (Forbidden, NotFound) as refusal:
            refused.append(refusal)

    results = _run_together(*_submissions(ann, [1, 1]), before_release=remove_role_and_submit)
    assert [type(result) for result in results] == [SubmissionReceipt] * 2
    assert len(refused) == 1


def test_a_failure_is_that_of_its_own_request(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = insert_workflows

    def insert_unless_broken(owner: str, workflows: Sequence[Workflow], *more: Any) -> None:
        insert(owner, workflows, *more)
        if any(workflow.spec_name == "job1" for workflow in workflows):
            raise ValueError("a defect")

    monkeypatch.setattr(submission, "insert_workflows", insert_unless_broken)
    results = _run_together(*_submissions(ann, [1, 1, 1]))
    assert [type(result) for result in results] == [SubmissionReceipt, ValueError, SubmissionReceipt]
    assert sorted(_transactions()) == [["r0"], ["r2"]]
    assert verify() == []


def test_a_violated_rule_of_the_database_too(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = insert_workflows

    def insert_twice(owner: str, workflows: Sequence[Workflow], *more: Any) -> None:
        if any(workflow.spec_name == "job2" for workflow in workflows):
            Workflow.objects.bulk_create(workflows)
        insert(owner, workflows, *more)

    monkeypatch.setattr(submission, "insert_workflows", insert_twice)
    results = _run_together(*_submissions(ann, [1, 1, 1]))
    assert [type(result) for result in results] == [SubmissionReceipt, SubmissionReceipt, Conflict]


def test_a_commit_whose_outcome_is_unknown_is_not_repeated(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = transactions._announce_and_commit

    def commit_and_lose_the_answer() -> None:
        commit()
        connection.connection.close()

    monkeypatch.setattr(transactions, "_announce_and_commit", commit_and_lose_the_answer)
    results = _run_together(*_submissions(ann, [1, 1, 1]))
    assert [type(result).__name__ for result in results] == ["DatabaseLost"] * 3
    assert all("not known" in result.message for result in results)
    assert sorted(_transactions()) == [["r0"], ["r1"], ["r2"]]


def test_a_lost_connection_leaves_nothing_and_all_can_try_again(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = insert_workflows

    def insert_and_lose_the_server(*arguments: Any) -> None:
        insert(*arguments)
        connection.connection.close()

    with monkeypatch.context() as lost:
        lost.setattr(submission, "insert_workflows", insert_and_lose_the_server)
        results = _run_together(*_submissions(ann, [1, 1, 1]))
    assert [type(result).__name__ for result in results] == ["DatabaseLost"] * 3
    assert all(result.retry_after for result in results)
    assert Workflow.objects.count() == 0
    assert len(_run_together(*_submissions(ann, [1, 1, 1]))) == Workflow.objects.count() == 3


def test_a_process_that_dies_after_the_insertion_leaves_nothing(ann: Actor, template: Services, tmp_path: Path) -> None:
    address, output = template.database_url(connection.settings_dict["NAME"]), tmp_path / "said"
    process = start_program("tests.concurrency.submission_process", POOL, "ann", address=address, output=output)
    try:
        wait_for(lambda: output.read_text() == "inserted\n", description="it inserts")
    finally:
        process.kill_group()
    assert len(_run_together(*_submissions(ann, [1, 1, 1]))) == 3  # waits until PostgreSQL has noticed the death
    assert list(Workflow.objects.order_by("name").values_list("name", flat=True)) == ["job0-1", "job1-1", "job2-1"]
    assert LeafUsage.objects.get(pool__name=POOL).live_workflows == 3
    assert verify() == []


def test_a_key_is_used_once_among_others(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_FOR_FIRST", "20s")

    def submit_once() -> Any:
        with idempotency.run_once(actor=ann, address="POST /x", key="k", body=b"") as slot:
            if slot.is_repeat:
                return slot.stored
            receipt = _submit(ann, "once")
            assert receipt.workflow is not None
            slot.answer = receipt.workflow.name
            return slot.answer

    keyed: list[Any] = []

    def run_keyed() -> None:
        try:
            while len(keyed) < 2:
                with suppress(Busy):  # a machine that stands still; a client repeats the request, too
                    keyed.append(submit_once())
                    return
        finally:
            connections.close_all()

    repeats = [threading.Thread(target=run_keyed) for _ in range(2)]

    def start_repeats() -> None:
        for thread in repeats:
            thread.start()

    results = _run_together(*_submissions(ann, [1, 1]), before_release=start_repeats)
    for thread in repeats:
        thread.join(60)
    assert keyed == ["once-1", "once-1"]
    assert not any(isinstance(result, DomainError) for result in results)
    assert Workflow.objects.count() == 3
