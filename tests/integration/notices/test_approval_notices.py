"""A request for approval is sent to the admins who can decide, and its end also to the requester."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from pools.domain.changes.approvals import Approve, Reject, Withdraw
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.errors import Conflict
from pools.domain.people.roles import Actor
from pools.models import ApprovalRequest, Notice
from pools.services.configuration.approvals import expire_requests
from tests.integration.notices.conftest import Hook
from tests.support import world
from tests.support.notices import plan_notices

KINDS = ["approval"]


@pytest.fixture
def alice(ledger: None, hook: Hook) -> Actor:
    """An admin of pool `team`, where more than 10 GPUs need an approval, and the targets that may get notices."""
    world.make_pool("team", 100, a=10, b=10)
    world.apply_change(PatchPool(name="team", patch={"approval_above": 10}))
    alice, user = world.make_user("alice", "osmo-team-admin"), world.make_user("ulf", "osmo-team-user")
    hook(alice, name="alice", kinds=KINDS)
    hook(alice, name="team", pool="team", kinds=KINDS)
    hook(user, name="ulf", kinds=KINDS, pools=["team"])
    hook(world.admin_actor(), name="ops", installation=True, kinds=KINDS)
    hook(world.admin_actor(), name="other", installation=True, kinds=["job_late"])
    plan_notices()
    return alice


@pytest.fixture
def bob(alice: Actor) -> Actor:
    return world.make_user("bob", "osmo-team-admin")


def planned() -> dict[str, str]:
    """The text of the newest notices by target, which are forgotten."""
    plan_notices()
    found = {notice.target.name: notice.text for notice in Notice.objects.select_related("target")}
    Notice.objects.all().delete()
    return found


def test_a_request_is_sent_to_those_who_can_decide(alice: Actor) -> None:
    request = world.request_quota(alice, "team", "a", 50)
    plan_notices()
    first = Notice.objects.order_by("pk")[0]
    assert (first.kind, first.subject, first.title) == (
        "approval", f"approval/{request.pk}", "Change with approval: team--a"
    )  # fmt: skip
    found = planned()
    assert set(found) == {"team", "ops"}, "neither the requester nor a user of the pool"
    until = f"{request.expires_at:%Y-%m-%d %H:%M} UTC"
    assert f"alice asks for the approval of a change of team--a (request {request.pk})" in found["ops"]
    assert f"can approve or reject it until {until}" in found["team"]


def test_an_approval_is_sent_to_the_requester(alice: Actor, bob: Actor) -> None:
    request = world.request_quota(alice, "team", "a", 50)
    planned()
    world.apply_change(Approve(approval=request.pk), actor=bob, description="only until Friday")
    found = planned()
    assert set(found) == {"alice", "team", "ops"}
    text = f"team--a that alice requested (request {request.pk}) was approved by bob, and the change is made."
    assert text in found["alice"] and "Note: only until Friday" in found["alice"]


def test_a_rejection_an_end_and_a_change_meanwhile(alice: Actor, bob: Actor) -> None:
    for name in ("a", "b"):
        world.request_quota(alice, "team", name, 50)
    planned()
    first, second = ApprovalRequest.objects.order_by("pk")
    world.apply_change(Reject(approval=first.pk), actor=bob)
    assert "was rejected by bob, and nothing changed." in planned()["alice"]
    world.apply_change(ResizeSubpool(parent="team", subpool_name="b", quota=15), actor=bob)
    with pytest.raises(Conflict, match="changed"):
        world.apply_change(Approve(approval=second.pk), actor=bob)
    assert "is out of date, because its object changed before a decision." in planned()["alice"]
    third = world.request_quota(alice, "team", "a", 60)
    planned()
    with transaction.atomic(), world.triggers_off():
        ApprovalRequest.objects.filter(pk=third.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    expire_requests()
    assert "expired without a decision, and nothing changed." in planned()["alice"]


def test_a_withdrawal_is_not_sent(alice: Actor) -> None:
    request = world.request_quota(alice, "team", "a", 50)
    planned()
    world.apply_change(Withdraw(approval=request.pk), actor=alice)
    assert planned() == {}
