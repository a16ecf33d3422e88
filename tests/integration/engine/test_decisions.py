"""The record of decisions: the rights to read it, and that it does not change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from pools.models import Pool
from scheduling.models import Decision, Group, SchedulingCycle, Workflow
from scheduling.services import decisions
from tests.support import world

pytestmark = pytest.mark.django_db


def add_decision(workflow: Workflow, **more: Any) -> Decision:
    """A decision about this workflow."""
    return Decision.objects.create(
        time=more.pop("time", timezone.now()),
        action=more.pop("action", "start"),
        backend_id=workflow.root_pool.backend_id,
        root_pool=workflow.root_pool,
        pool=workflow.pool,
        workflow=workflow,
        group=Group.objects.get(workflow=workflow),
        message="It starts.",
        message_without_beneficiary="It starts.",
        **more,
    )


def test_users_read_decisions_about_their_own_work_and_their_pools(team: Pool) -> None:
    owner = world.make_user("olga", "osmo-team-user")
    decision = add_decision(world.submit_workflow(owner, "team"))
    member, viewer, stranger = (
        world.make_user("mia", "osmo-team-user"),
        world.make_user("vera", "osmo-viewer"),
        world.make_user("sam", "osmo-team2-user") if world.make_pool("team2", 1) else None,
    )
    assert stranger is not None
    for actor, sees in ((owner, True), (member, True), (viewer, True), (stranger, False)):
        assert Decision.objects.visible_to(actor).filter(pk=decision.pk).exists() is sees


def test_decisions_cannot_be_changed_and_recent_ones_not_deleted(team: Pool) -> None:
    decision = add_decision(world.submit_workflow(world.admin_actor(), "team"))
    old = add_decision(decision.workflow, time=timezone.now() - timedelta(days=2))
    for operation in (
        lambda: Decision.objects.filter(pk=decision.pk).update(message="x"),
        lambda: Decision.objects.filter(pk=decision.pk).delete(),
        lambda: Decision.objects.filter(pk=old.pk).update(message="x"),
    ):
        with pytest.raises(DatabaseError, match="Decisions are history"), transaction.atomic():
            operation()
    Decision.objects.filter(pk=old.pk).delete()
    assert Decision.objects.get() == decision


@pytest.mark.parametrize(("action", "has_beneficiary"), [("start", True), ("give_up", True), ("reclaim", False)])
def test_a_reclaim_has_a_beneficiary(team: Pool, action: str, has_beneficiary: bool) -> None:
    workflow = world.submit_workflow(world.admin_actor(), "team")
    with pytest.raises(IntegrityError), transaction.atomic():
        add_decision(workflow, action=action, for_workflow=workflow if has_beneficiary else None)


def test_old_decisions_are_deleted(team: Pool) -> None:
    young = add_decision(world.submit_workflow(world.admin_actor(), "team"))
    kept = add_decision(young.workflow, time=timezone.now() - timedelta(days=30) + timedelta(hours=1))
    add_decision(young.workflow, time=timezone.now() - timedelta(days=30) - timedelta(hours=1))
    for age in (timedelta(days=29), timedelta(days=31)):
        time = timezone.now() - age
        SchedulingCycle.objects.create(backend=young.backend, time=time, judged_at=time, units=1)
    assert decisions.delete_old_decisions() == 1
    assert set(Decision.objects.all()) == {young, kept}
    assert SchedulingCycle.objects.get().time > timezone.now() - timedelta(days=30)


def test_decisions_beyond_the_limit_are_deleted_but_never_recent_ones(
    team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MAX_DECISIONS", 2)
    monkeypatch.setattr(decisions, "BATCH_SIZE", 2)
    workflow = world.submit_workflow(world.admin_actor(), "team")
    old = [add_decision(workflow, time=timezone.now() - timedelta(days=9 - n)) for n in range(6)]
    assert decisions.delete_old_decisions() == 4
    assert set(Decision.objects.all()) == set(old[4:])
    young = [add_decision(workflow) for _ in range(4)]
    assert decisions.delete_old_decisions() == 2
    assert set(Decision.objects.all()) == set(young)
