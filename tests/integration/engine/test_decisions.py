"""The record of decisions: the rights to read it, and that it does not change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from pools.models import Pool
from scheduling.models import Decision, Group, Workflow
from scheduling.services import decisions
from tests.support import factories

pytestmark = pytest.mark.django_db


def told(workflow: Workflow, **more: Any) -> Decision:
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


@pytest.fixture
def team() -> Pool:
    """A pool."""
    return factories.make_pool("team", 10)


def test_everybody_reads_what_concerns_their_own_work_and_their_pools(team: Pool) -> None:
    owner = factories.make_user("olga", "osmo-team-user")
    decision = told(factories.submit_workflow(owner, "team"))
    member, viewer, stranger = (
        factories.make_user("mia", "osmo-team-user"),
        factories.make_user("vera", "osmo-viewer"),
        factories.make_user("sam", "osmo-team2-user") if factories.make_pool("team2", 1) else None,
    )
    assert stranger is not None
    for actor, sees in ((owner, True), (member, True), (viewer, True), (stranger, False)):
        assert Decision.objects.visible_to(actor).filter(pk=decision.pk).exists() is sees


def test_history_does_not_change_and_young_history_does_not_go(team: Pool) -> None:
    decision = told(factories.submit_workflow(factories.admin_actor(), "team"))
    old = told(decision.workflow, time=timezone.now() - timedelta(days=2))
    for operation in (
        lambda: Decision.objects.filter(pk=decision.pk).update(message="x"),
        lambda: Decision.objects.filter(pk=decision.pk).delete(),
        lambda: Decision.objects.filter(pk=old.pk).update(message="x"),
    ):
        with pytest.raises(DatabaseError, match="Decisions are history"), transaction.atomic():
            operation()
    Decision.objects.filter(pk=old.pk).delete()
    assert Decision.objects.get() == decision


@pytest.mark.parametrize(("action", "for_whom"), [("start", True), ("give_up", True), ("reclaim", False)])
def test_what_is_taken_is_taken_for_somebody(team: Pool, action: str, for_whom: bool) -> None:
    workflow = factories.submit_workflow(factories.admin_actor(), "team")
    with pytest.raises(IntegrityError), transaction.atomic():
        told(workflow, action=action, for_workflow=workflow if for_whom else None)


def test_what_is_too_old_is_forgotten(team: Pool) -> None:
    young = told(factories.submit_workflow(factories.admin_actor(), "team"))
    kept = told(young.workflow, time=timezone.now() - decisions.RETENTION + timedelta(hours=1))
    told(young.workflow, time=timezone.now() - decisions.RETENTION - timedelta(hours=1))
    assert decisions.delete_old_decisions() == 1
    assert set(Decision.objects.all()) == {young, kept}


def test_what_is_too_much_is_forgotten_oldest_first_and_never_what_is_young(
    team: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MAX_DECISIONS", 2)
    monkeypatch.setattr(decisions, "BATCH_SIZE", 2)
    workflow = factories.submit_workflow(factories.admin_actor(), "team")
    old = [told(workflow, time=timezone.now() - timedelta(days=9 - n)) for n in range(6)]
    assert decisions.delete_old_decisions() == 4
    assert set(Decision.objects.all()) == set(old[4:])
    young = [told(workflow) for _ in range(4)]
    assert decisions.delete_old_decisions() == 2
    assert set(Decision.objects.all()) == set(young)
