"""Limits of a user hold for requests that run side by side."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pools import locking
from pools.domain.changes.tokens import CreateToken
from pools.domain.errors import DomainError, Throttled
from pools.locking import LOCK_ANSWERS_SQL
from pools.models import AccessToken, IdempotencyRecord, LiveWork, User
from pools.services.changes import idempotency
from pools.services.changes.idempotency import run_once
from pools.services.people import access_tokens
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.models import Workflow
from scheduling.services.verify import verify
from scheduling.services.workflows import submission
from scheduling.services.workflows.submission import Submission, submit
from scheduling.services.workflows.user_actions import cancel_workflow
from tests.support import world
from tests.support.races import Rendezvous
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def limit(settings: Any) -> Callable[..., None]:
    def change(**limits: int) -> None:
        settings.OSMO = dataclasses.replace(settings.OSMO, **limits)

    return change


@pytest.fixture(params=["locked", "without the lock"])
def most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of two get in, where one is allowed: without the lock both have counted before either commits."""
    if request.param == "locked":
        return 1
    monkeypatch.setattr(Rendezvous, "timeout_seconds", 30.0)
    store = idempotency._STORE_SQL
    assert store.count(LOCK_ANSWERS_SQL) == 1
    monkeypatch.setattr(locking, "_LOCK_LIVE_WORK_SQL", "SELECT %s")
    monkeypatch.setattr(idempotency, "_STORE_SQL", store.replace(LOCK_ANSWERS_SQL, "SELECT %s"))
    monkeypatch.setattr(access_tokens, "lock_user", lambda _: None)
    return 2


@pytest.mark.parametrize(
    ("setting", "question", "refusal"),
    [
        ("max_live_workflows", "lock_live_work", "too_many_live_workflows"),
        ("max_submissions_per_minute", "find_pace_refusal", "too_many_submissions"),
    ],
)
def test_submissions_to_several_pools(
    most: int, limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch, setting: str, question: str, refusal: str
) -> None:
    """The locks of two trees do not order the two submissions; that of the user's live work does."""
    limit(**{setting: 1})
    for name in ("one", "two"):
        world.make_pool(name, 10)
    actor = world.make_user("ann", "osmo-one-user", "osmo-two-user")
    Rendezvous(2).after_call(monkeypatch, submission, question)

    def send(pool: str) -> object:
        return submit(actor=actor, pool=pool, submission=Submission(file=world.workflow_file(pool)))

    results = run_concurrently([lambda: send("one"), lambda: send("two")])
    refusals = [result.details[0].code for result in results if isinstance(result, Throttled)]
    assert refusals == [refusal] * (2 - most)
    assert Workflow.objects.count() == most


def test_users_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row that counts live work is shared by users, or by trees."""
    for name in ("one", "two"):
        world.make_pool(name, 10)
    people = {name: world.make_user(f"of-{name}", f"osmo-{name}-user") for name in ("one", "two")}
    both_inserted = threading.Barrier(2)
    insert = submission.insert_workflows

    def insert_and_wait(*arguments: Any) -> None:
        insert(*arguments)
        both_inserted.wait(30)  # fails if the other one waits for the commit of this one

    monkeypatch.setattr(submission, "insert_workflows", insert_and_wait)
    results = run_concurrently(
        [
            lambda pool=name, actor=actor: submit(  # type: ignore[misc]
                actor=actor, pool=pool, submission=Submission(file=world.workflow_file(pool))
            )
            for name, actor in people.items()
        ]
    )
    assert [result for result in results if isinstance(result, BaseException)] == []
    assert Workflow.objects.count() == 2


def test_the_end_of_work_does_not_wait_for_a_submission_of_its_user_to_another_pool(
    limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(max_live_workflows=2)
    for name in ("one", "two"):
        world.make_pool(name, 10)
    actor = world.make_user("ann", "osmo-one-user", "osmo-two-user")
    first = world.submit_workflow(actor, "one")
    insert = submission.insert_workflows
    ended: list[object] = []

    def insert_after_an_end(*arguments: Any) -> None:
        ended.extend(run_concurrently([lambda: cancel_workflow(CancelWorkflow(name=first.name), actor=actor)]))
        insert(*arguments)

    monkeypatch.setattr(submission, "insert_workflows", insert_after_an_end)
    world.submit_workflow(actor, "two")
    assert [result for result in ended if isinstance(result, BaseException)] == []
    assert dict(LiveWork.objects.values_list("pool__name", "workflows")) == {"one": 0, "two": 1}
    assert verify() == []


def test_tokens(most: int, limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    limit(max_tokens=1)
    actor = world.make_user("ann")
    Rendezvous(2).after_call(monkeypatch, access_tokens, "_require_room")
    results = run_concurrently(
        [lambda n=n: world.apply_change(CreateToken(owner="ann", name=f"t{n}"), actor=actor) for n in range(2)]  # type: ignore[misc]
    )
    refusals = [result.details[0].code for result in results if isinstance(result, Throttled)]
    assert refusals == ["too_many_tokens"] * (2 - most)
    assert AccessToken.objects.count() == most


def test_stored_answers(most: int, limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    limit(max_stored_answers=1)
    actor = world.make_user("ann")
    Rendezvous(2).after_call(monkeypatch, idempotency, "_store")

    def send(number: int) -> None:
        with run_once(actor=actor, address="POST /x", key=f"k{number}", body=b"") as slot:
            User.objects.create(username=f"made-{number}")
            slot.answer = {"number": number}

    results = run_concurrently([lambda n=n: send(n) for n in range(2)])  # type: ignore[misc]
    assert [type(result) for result in results if isinstance(result, DomainError)] == [Throttled] * (2 - most)
    assert IdempotencyRecord.objects.count() == User.objects.filter(username__startswith="made").count() == most
