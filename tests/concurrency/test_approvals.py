"""Two people approve one request at the same moment; an approval meets another change."""

from __future__ import annotations

import pytest

from pools.domain.approvals import ApprovalState
from pools.domain.changes.approvals import Approve, Reject
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.errors import Conflict
from pools.domain.people.roles import Actor
from pools.models import ApprovalRequest, Pool
from pools.services.configuration import approvals
from tests.support import world
from tests.support.races import Rendezvous
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def people() -> tuple[Actor, Actor, Actor]:
    root = world.make_pool("team", 100, a=10)
    Pool.objects.filter(pk=root.pk).update(config={"approval_above": 10})
    ann, bob, cleo = (world.make_user(name, "osmo-team-admin") for name in ("ann", "bob", "cleo"))
    return ann, bob, cleo


def _ask(actor: Actor) -> int:
    return world.request_quota(actor, "team", "a", 50).pk


def _row() -> Pool:
    return Pool.objects.get(name="team--a")


def test_one_of_two_requests_waits(people: tuple[Actor, Actor, Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have read that no request waits; the database takes one."""
    ann, bob, _ = people
    Rendezvous(2, seconds=30).after_call(monkeypatch, approvals, "database_time")
    results = run_concurrently([lambda: _ask(ann), lambda: _ask(bob)])
    (refused,) = [each for each in results if isinstance(each, Exception)]
    assert isinstance(refused, Conflict)
    assert refused.violations[0].code == "approval_waits_once"
    request = ApprovalRequest.objects.get()
    assert f"Request {request.pk} of {request.requested_by} for team--a waits already" in refused.message


def test_one_of_two_approvals_counts(people: tuple[Actor, Actor, Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob, cleo = people
    number, version = _ask(ann), _row().version
    Rendezvous(2).after_call(monkeypatch, approvals, "get_request")
    results = run_concurrently(
        [
            lambda: world.apply_change(Approve(approval=number), actor=bob),
            lambda: world.apply_change(Approve(approval=number), actor=cleo),
        ],
    )
    (refused,) = [each for each in results if isinstance(each, Exception)]
    assert isinstance(refused, Conflict)
    assert refused.violations[0].code == "approval_is_final"
    assert (_row().last_quota, _row().version) == (50, version + 1)


def test_an_approval_and_a_rejection(people: tuple[Actor, Actor, Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob, cleo = people
    number = _ask(ann)
    Rendezvous(2).after_call(monkeypatch, approvals, "get_request")
    run_concurrently(
        [
            lambda: world.apply_change(Approve(approval=number), actor=bob),
            lambda: world.apply_change(Reject(approval=number), actor=cleo),
        ]
    )
    state = ApprovalRequest.objects.get(pk=number).state
    assert (state, _row().last_quota) in {(ApprovalState.APPROVED, 50), (ApprovalState.REJECTED, 10)}


def test_an_approval_and_another_change(people: tuple[Actor, Actor, Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    """The other change commits while the approval holds the lock of its request, and supersedes it."""
    ann, bob, cleo = people
    number = _ask(ann)

    real = approvals._require_requester

    def after_another_change(row: ApprovalRequest) -> None:
        (problem,) = run_concurrently(
            [lambda: world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=12), actor=cleo)]
        )
        assert not isinstance(problem, Exception)
        real(row)

    monkeypatch.setattr(approvals, "_require_requester", after_another_change)
    with pytest.raises(Conflict) as refused:
        world.apply_change(Approve(approval=number), actor=bob)
    assert refused.value.violations[0].code == "approval_superseded"
    assert (ApprovalRequest.objects.get(pk=number).state, _row().last_quota) == (ApprovalState.SUPERSEDED, 12)
