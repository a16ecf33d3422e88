"""Events that no person causes: preemptions, long waits, nearly used quotas, late jobs, silent clusters."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.html import strip_tags
from django_celery_beat.models import PeriodicTask

from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.changes.users import RevokeRole
from pools.domain.people.notices import NoticeKind
from pools.domain.people.roles import Actor
from pools.models import AuditEntry, Backend, InboxNotice, KubernetesSettings, Node, Notice, NoticeCondition, Pool
from pools.selectors.inbox import inbox_of
from scheduling.domain.priorities import Priority
from scheduling.models import Group, Interruption, NodeState, Workflow
from scheduling.selectors.status.job_names import SAMPLE_GPU_USAGE
from scheduling.selectors.status.overview import read_overview
from scheduling.services.notices.conditions import find_conditions
from scheduling.services.periodic_tasks import ensure_periodic_tasks
from tests.integration.notices.conftest import Hook
from tests.support.notices import plan_notices
from tests.support.world import (
    admin_actor,
    apply_change,
    make_backend,
    make_pool,
    make_user,
    reconcile,
    sign_in,
    submit_workflow,
)

pytestmark = pytest.mark.usefixtures("ledger")


@pytest.fixture
def bob() -> Actor:
    make_pool("team", 8, a=4, b=4)
    return make_user("bob", "osmo-team-user")


def _planned() -> list[tuple[str, str, str]]:
    """(target, kind, subject) of the notices that were not read yet."""
    find_conditions()
    plan_notices()
    rows = list(Notice.objects.order_by("pk").values_list("target__name", "kind", "subject"))
    Notice.objects.all().delete()
    return rows


def _reconcile() -> None:
    reconcile()


def test_preempted_work_is_reported_to_its_owner(bob: Actor, hook: Hook) -> None:
    alice = make_user("alice", "osmo-team-user")
    Node.objects.exclude(name="sim-n1").delete()
    Node.objects.update(gpus=8)
    hook(bob, name="bobs")
    hook(alice, name="alices")
    hook(admin_actor(), name="teams", pool="team")
    victim = submit_workflow(bob, "team--a", 8, name="low", priority=Priority.LOW)
    _reconcile()
    submit_workflow(alice, "team--b", 4, name="high", priority=Priority.HIGH)
    _reconcile()
    victim.refresh_from_db()
    assert victim.status == "PENDING"
    plan_notices()
    notices = Notice.objects.order_by("target__name")
    assert [(row.target.name, row.kind, row.subject) for row in notices] == [
        ("bobs", "preempted", "workflow/low-1"),
        ("teams", "preempted", "workflow/low-1"),
    ]
    assert "low-1 was preempted: " in notices[0].text
    lost = r"\. (Less than 0\.1|\d+\.\d) GPU-hours of work were lost\."
    assert re.search(lost, notices[0].text)
    page = " ".join(strip_tags(sign_in("alice").get("/workflows/low-1").content.decode()).split())
    assert re.search(lost, page)
    news = InboxNotice.objects.get(kind="preempted")
    assert news.page == f"/workflows/low-1#receipt-{Interruption.objects.get().pk}"
    entry = AuditEntry.objects.get(action="workflow.preempted")
    assert (entry.owner, entry.actor) == ("bob", "system")
    assert "high" not in f"{notices[0].text}{notices[0].data}{entry.after}", "the reader may not see the other workflow"


def test_a_quota_that_is_nearly_used(bob: Actor, hook: Hook) -> None:
    hook(admin_actor(), name="teams", pool="team", kinds=["quota_nearly_used"])
    hook(bob, name="mine", kinds=["quota_nearly_used"], pools=["team"])
    hook(bob, name="not-named", kinds=["quota_nearly_used"])
    hook(make_user("eve"), name="stranger", kinds=["quota_nearly_used"])
    gone = make_user("gone", "osmo-team-user")
    hook(gone, name="revoked", kinds=["quota_nearly_used"], pools=["team"])
    apply_change(RevokeRole(username="gone", role_name="osmo-team-user"), actor=admin_actor())
    submit_workflow(bob, "team--a", 3, name="first")
    _reconcile()
    assert _planned() == []
    submit_workflow(bob, "team--a", 1, name="second")
    _reconcile()
    expected = [("teams", "quota_nearly_used", "pool/team--a"), ("mine", "quota_nearly_used", "pool/team--a")]
    assert sorted(_planned()) == sorted(expected)
    assert _planned() == [], "it is sent once"


def test_work_that_waits_longer_than_usual(bob: Actor, hook: Hook) -> None:
    for number in range(20):
        submit_workflow(bob, "team", 0, name=f"usual{number}")
    Workflow.objects.update(start_time=timezone.now(), submit_time=timezone.now() - timedelta(seconds=30))
    hook(bob, name="mine", kinds=["long_wait"])
    hook(make_user("alice", "osmo-team-user"), name="alices", kinds=["long_wait"])
    hook(admin_actor(), name="teams", pool="team", kinds=["long_wait"])
    waiting = submit_workflow(bob, "team--a", 4, name="waits")
    Group.objects.exclude(workflow=waiting).update(status="COMPLETED")
    assert _planned() == []
    Group.objects.filter(workflow=waiting).update(ready_at=timezone.now() - timedelta(minutes=5))
    expected = [("mine", "long_wait", f"workflow/{waiting.name}"), ("teams", "long_wait", "pool/team")]
    assert sorted(_planned()) == expected


def test_a_condition_is_reported_once_and_again_when_it_returns(hook: Hook) -> None:
    ensure_periodic_tasks()
    PeriodicTask.objects.update(last_run_at=timezone.now())  # another test may have left them late
    root = admin_actor()
    hook(root, name="ops", installation=True, kinds=["job_late"])
    late = PeriodicTask.objects.filter(name=SAMPLE_GPU_USAGE)
    expected = [("ops", "job_late", f"job/{SAMPLE_GPU_USAGE}")]
    assert _planned() == []
    for _ in range(2):
        late.update(last_run_at=timezone.now() - timedelta(hours=1))
        assert _planned() == expected
        assert _planned() == []
        late.update(last_run_at=timezone.now())
        assert _planned() == []
    entries = AuditEntry.objects.filter(action__startswith="condition.").order_by("pk")
    assert [entry.action.partition(".")[2] for entry in entries] == ["began", "ended"] * 2
    assert not any(entry.action.startswith("condition.") for entry in read_overview(root).changes)


def test_a_silent_cluster(hook: Hook) -> None:
    """Also without a target it is news."""
    root = admin_actor()
    plan_notices()  # the first run tells nothing of the past
    hook(root, name="ops", installation=True, kinds=["cluster_silent"])
    prod = Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="prod")
    assert _planned() == []
    KubernetesSettings.objects.create(backend=prod, access="in_cluster")
    assert _planned() == []  # it is not judged yet
    Backend.objects.filter(pk=prod.pk).update(offline=True)
    assert _planned() == [("ops", "cluster_silent", "backend/prod")]
    assert [row.subject for row in inbox_of(root)] == ["backend/prod"]


def test_late_jobs_are_not_searched_when_nobody_chose_them(hook: Hook) -> None:
    ensure_periodic_tasks()
    PeriodicTask.objects.update(last_run_at=timezone.now() - timedelta(days=9))
    assert find_conditions() == 0
    target, _ = hook(admin_actor(), installation=True, kinds=["job_late"])
    assert find_conditions() > 0
    target.delete()
    find_conditions()
    assert not NoticeCondition.objects.exists()


def test_a_second_row_is_refused() -> None:
    values = {"kind": NoticeKind.JOB_LATE, "subject": "job/x", "message": "It is late."}
    NoticeCondition.objects.create(**values)
    with pytest.raises(IntegrityError, match="notice_condition_once"), transaction.atomic():
        NoticeCondition.objects.create(**values)


def test_a_drain_beyond_its_deadline_is_reported_once(bob: Actor, hook: Hook) -> None:
    hook(admin_actor(), name="teams", pool="team", kinds=["drain"])
    submit_workflow(bob, "team--a", 4, name="long")
    _reconcile()
    deadline = timezone.now() + timedelta(hours=1)
    apply_change(DeleteSubpool(parent="team", subpool_name="a", drain_by=deadline), actor=admin_actor())
    find_conditions()
    plan_notices()
    (deleted,) = Notice.objects.filter(target__name="teams")
    assert f"{deadline:%Y-%m-%d %H:%M} UTC" in deleted.text
    Notice.objects.all().delete()
    Pool.objects.filter(name="team--a").update(drain_by=timezone.now() - timedelta(seconds=1))
    assert _planned() == [("teams", "drain", "pool/team--a")]
    assert _planned() == []


def test_a_quota_that_a_cluster_cannot_give_is_told_at_the_beginning_and_at_the_end(hook: Hook) -> None:
    backend = make_backend("lab", namespace="lab", nodes=4, gpus=8)
    make_pool("vision", 32, on=backend)
    hook(make_user("ann", "osmo-vision-user"), name="anns", kinds=["degraded"], pools=["vision"])
    hook(make_user("eve"), name="eves", kinds=["degraded"])
    assert _planned() == []
    state = NodeState.objects.create(node=backend.nodes.order_by("name")[0], ready=False)
    assert _planned() == [("anns", "degraded", "pool/vision")]
    assert _planned() == [], "it is told once"
    state.delete()
    find_conditions()
    plan_notices()
    over = Notice.objects.get()
    assert (over.target.name, over.text.startswith("It is over")) == ("anns", True)
    assert not NoticeCondition.objects.exists()
