"""Each change is in the audit trail under the actions that it declares, and under no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from sys import modules
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.approvals import Approve, Reject, Withdraw
from pools.domain.changes.backends import DeleteBackend, PutBackend
from pools.domain.changes.cohorts import CreateCohort, DeleteCohort, PatchCohort, PutCohort
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, CommitWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.changes.notices import (
    CreateTarget,
    DeleteTarget,
    MarkAllRead,
    MarkRead,
    RenewSecret,
    ReplayDeadNotices,
    ReplayNotice,
    SendTest,
    UpdateTarget,
)
from pools.domain.changes.pools import (
    CreatePool,
    DeletePool,
    PatchPool,
    PutPlatform,
    PutPool,
    PutPools,
    RenamePlatform,
    RenamePool,
)
from pools.domain.changes.profiles import UpdateProfile
from pools.domain.changes.revisions import DeleteRevision, RollBack, TagRevision
from pools.domain.changes.saved_views import DeleteView, SaveView
from pools.domain.changes.subpools import (
    CreateSubpool,
    DeleteSubpool,
    ResizeSubpool,
    ResizeSubpools,
    SetDrainDeadline,
)
from pools.domain.changes.tokens import CreateToken, DeleteToken
from pools.domain.changes.users import (
    CreateUser,
    DeleteUser,
    GrantRole,
    RevokeRole,
    SetActive,
    SetPassword,
    SetRoles,
    UnlinkUser,
)
from pools.domain.configuration.cluster_addresses import LOOPBACK
from pools.domain.people.roles import Actor
from pools.domain.people.saved_views import FilteredList
from pools.domain.values.quantities import parse_quantity
from pools.models import AuditEntry, InboxNotice, Node, Notice, SignOnIdentity, User
from pools.services.configuration import approvals, backends, cohorts, config_history, pools, subpool_quotas, subpools
from pools.services.configuration.config_history import current_revision
from pools.services.configuration.config_rollback import rollback_configuration
from pools.services.gpu_quota import gpu_allocations, gpu_quotas
from pools.services.people import accounts, inbox, notice_targets, saved_views, users
from pools.services.people.access_tokens import create_token, delete_token
from pools.sign_on import accounts as sign_on
from scheduling.domain.changes.configuration import ImportConfiguration
from scheduling.domain.changes.nodes import ClearNode, DrainNode, RestoreNode
from scheduling.domain.changes.replays import RequestReplay
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.domain.changes.submissions import RestartWorkflow, SubmitWorkflow
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.domain.changes.workflows import CancelWorkflow, EndStatus, EndWorkflow, TagWorkflow
from scheduling.history.own.own_replay import ReplayQuestion
from scheduling.history.own.replays import request_replay
from scheduling.models import SuspectNode
from scheduling.selectors.work.workflows import get_visible_workflow
from scheduling.services import node_care
from scheduling.services.configuration_import import import_configuration
from scheduling.services.webhooks.queue_guard import put_queue_guard
from scheduling.services.workflow_config import update_workflow_config
from scheduling.services.workflows import user_actions
from scheduling.services.workflows.resubmission import retry_submission
from scheduling.services.workflows.submission import submit
from tests.support.agent_harness import kubernetes_backend
from tests.support.world import admin_actor, make_pool, make_user, reconcile, request_quota, submit_workflow
from tests.unit.gpu_quota.builders import make_amounts

pytestmark = pytest.mark.django_db

GPUS = {"guarantee": 10, "maximum": -1, "weight": 1}


class Trail:
    """Makes changes, and keeps the actions that each left."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.left: dict[type[ChangeCommand], set[str]] = defaultdict(set)

    def __call__(
        self,
        service: Callable[..., Any],
        command: ChangeCommand,
        actor: Actor | None = None,
        *,
        also: Collection[str] = (),
    ) -> Any:
        """The answer of the service. `also`: actions of another change that this one makes."""
        return self.follow(type(command), lambda: service(command, actor=actor or self.actor), also=also)

    def follow(self, kind: type[ChangeCommand], run: Callable[[], Any], *, also: Collection[str] = ()) -> Any:
        """What `run` answers, which makes a change of this kind."""
        last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        answer = run()
        found = set(AuditEntry.objects.filter(pk__gt=last).values_list("action", flat=True)) - set(also)
        assert found <= set(kind.audit), kind
        assert bool(found) == bool(kind.audit), kind
        self.left[kind] |= found
        return answer


def _kinds(parent: type[ChangeCommand] = ChangeCommand) -> Iterator[type[ChangeCommand]]:
    for kind in parent.__subclasses__():
        # A dataclass with slots is made anew; the first one is still there.
        if "service" in vars(kind) and getattr(modules[kind.__module__], kind.__name__) is kind:
            yield kind
        yield from _kinds(kind)


def test_each_change_leaves_the_actions_that_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "OSMO", replace(settings.OSMO, notice_addresses=list(LOOPBACK)))
    make = Trail(admin_actor())
    for part in (
        _pools_and_subpools, _revisions, _cohorts, _approvals, _people, _notices, _gpu_quotas, _work_and_settings,
        _cohorts_by_name, _drains, _crossed_thresholds, _clusters,
    ):  # fmt: skip
        part(make)
    assert make.left == {kind: set(kind.audit) for kind in _kinds()}


def _pools_and_subpools(make: Trail) -> None:
    nodes = [{"name": "n1", "gpus": 8}, {"name": "n2", "gpus": 8}]
    make(backends.put_backend, PutBackend(name="sim2", body={"type": "simulated", "nodes": nodes}))
    nodes = [{"name": "n1", "gpus": 4}]
    make(backends.put_backend, PutBackend(name="sim2", body={"auto_end": False, "nodes": nodes}))
    body = {"backend": "sim2", "resources": {"gpu": GPUS}}
    make(pools.create_pool, CreatePool(name="one", body=body))
    for name in ("two", "three"):
        make(pools.put_pool, PutPool(name=name, body=body))
    make(pools.put_pool, PutPool(name="two", body={**body, "description": "again"}))
    make(pools.put_pools, PutPools(configs={"two": body, "four": body}))
    make(pools.patch_pool, PatchPool(name="two", patch={"description": "patched"}))
    make(pools.put_platform, PutPlatform(name="two", platform="a100", body={}))
    make(pools.rename_platform, RenamePlatform(name="two", platform="a100", new_name="h100"))
    make(pools.rename_pool, RenamePool(name="four", new_name="five"))
    make(subpools.create_subpool, CreateSubpool(parent="one", subpool_name="a", quota=4))
    make(subpools.resize_subpool, ResizeSubpool(parent="one", subpool_name="a", quota=5))
    make(subpool_quotas.resize_subpools, ResizeSubpools(quotas={"one--a": 6}))
    make(subpools.delete_subpool, DeleteSubpool(parent="one", subpool_name="a"))
    make(subpools.create_subpool, CreateSubpool(parent="one", subpool_name="a", quota=4))
    submit_workflow(make.actor, "one--a")
    make(subpools.delete_subpool, DeleteSubpool(parent="one", subpool_name="a"))
    tomorrow = timezone.now() + timedelta(days=1)
    make(subpools.set_drain_deadline, SetDrainDeadline(parent="one", subpool_name="a", drain_by=tomorrow))
    for name in ("two", "three"):
        ended = submit_workflow(make.actor, name).name
        user_actions.cancel_workflow(CancelWorkflow(name=ended), actor=make.actor)
        make(pools.delete_pool, DeletePool(name=name))
    make(pools.delete_pool, DeletePool(name="five"))
    make(pools.put_pool, PutPool(name="two", body=body))
    make(pools.put_pools, PutPools(configs={"three": body}))
    make(node_care.drain_node, DrainNode(backend="sim2", node="n1"))
    make(node_care.restore_node, RestoreNode(backend="sim2", node="n1"))
    SuspectNode.objects.create(node=Node.objects.get(backend__name="sim2"), failures=3, since=timezone.now())
    make(node_care.clear_node, ClearNode(backend="sim2", node="n1"))
    make(backends.put_backend, PutBackend(name="sim3", body={"type": "simulated", "nodes": nodes}))
    make(backends.delete_backend, DeleteBackend(name="sim3"))


def _revisions(make: Trail) -> None:
    make_pool("kept", 100)
    make_pool("gone", 100)
    make(pools.patch_pool, PatchPool(name="kept", patch={"description": "first"}))
    first = current_revision(make.actor).revision
    make(config_history.tag_revision, TagRevision(config_type="POOL", revision=first, set_tags=["good"]))
    make(pools.patch_pool, PatchPool(name="kept", patch={"description": "second"}))
    make(rollback_configuration, RollBack(revision=first))
    ended = submit_workflow(make.actor, "kept").name
    user_actions.cancel_workflow(CancelWorkflow(name=ended), actor=make.actor)
    for name in ("kept", "gone"):
        pools.delete_pool(DeletePool(name=name), actor=make.actor)
    make(rollback_configuration, RollBack(revision=first))
    make(config_history.delete_revision, DeleteRevision(config_type="POOL", revision=first))


def _cohorts(make: Trail) -> None:
    quotas = [{"flavor": "default", "resource": "gpu", "nominal": 4}]
    make(cohorts.create_cohort, CreateCohort(name="org", body={}))
    make(cohorts.put_cohort, PutCohort(name="lab", body={}))
    make(cohorts.put_cohort, PutCohort(name="lab", body={"quotas": quotas}))
    make(cohorts.put_cohort, PutCohort(name="lab", body={"parent": "org"}))
    make(cohorts.patch_cohort, PatchCohort(name="lab", patch={"quotas": quotas}))
    make(cohorts.patch_cohort, PatchCohort(name="lab", patch={"parent": None}))
    make(cohorts.delete_cohort, DeleteCohort(name="lab"))


def _approvals(make: Trail) -> None:
    make_pool("firm", 100, a=10, b=10, c=10)
    make(pools.patch_pool, PatchPool(name="firm", patch={"approval_above": 20}))
    lead = make_user("lead", "osmo-firm-admin")
    approved, rejected, withdrawn = (request_quota(lead, "firm", name, 40) for name in "abc")
    make(approvals.approve, Approve(approval=approved.pk), also=ResizeSubpool.audit)
    make(approvals.reject, Reject(approval=rejected.pk))
    make(approvals.withdraw, Withdraw(approval=withdrawn.pk), lead)


def _people(make: Trail) -> None:
    make_pool("crew", 100)
    make(users.create_user, CreateUser(id="ann", roles=["osmo-crew-user"]))
    make(users.grant_role, GrantRole(username="ann", role_name="osmo-crew-admin"))
    make(create_token, CreateToken(name="laptop", owner="ann"))
    make(create_token, CreateToken(name="desk", owner="ann"))
    make(delete_token, DeleteToken(name="desk", owner="ann"))
    make(users.revoke_role, RevokeRole(username="ann", role_name="osmo-crew-admin"))
    make(accounts.set_roles, SetRoles(username="ann", roles=["osmo-viewer"]))
    make(accounts.set_roles, SetRoles(username="ann", roles=["osmo-crew-user"]))
    make(accounts.set_active, SetActive(username="ann", active=False))
    make(accounts.set_active, SetActive(username="ann", active=True))
    make(users.set_password, SetPassword(username="ann", password="a long one, with words"))
    make(users.update_profile, UpdateProfile(email="ann@example.com"))
    account = User.objects.get(username="ann")
    SignOnIdentity.objects.create(user=account, provider="corp", issuer="https://idp.example.com", subject="1")
    make(sign_on.unlink, UnlinkUser(username="ann", provider="corp"))
    submit_workflow(account.as_actor(), "crew")
    make(users.delete_user, DeleteUser(username="ann"))
    make(users.create_user, CreateUser(id="ann", roles=["osmo-viewer"]))
    make(users.create_user, CreateUser(id="bob"))
    make(users.delete_user, DeleteUser(username="bob"))
    make(saved_views.save_view, SaveView(page=FilteredList.WORKFLOWS, name="mine", query="user=ann"))
    make(saved_views.delete_view, DeleteView(page=FilteredList.WORKFLOWS, name="mine"))


def _notices(make: Trail) -> None:
    target, _secret = make(
        notice_targets.create_target, CreateTarget(name="hook", channel="webhook", address="http://127.0.0.1:9/hook")
    )
    make(notice_targets.update_target, UpdateTarget(target=target.pk, enabled=False))
    make(notice_targets.update_target, UpdateTarget(target=target.pk, enabled=True))
    make(notice_targets.renew_secret, RenewSecret(target=target.pk))
    notice = make(notice_targets.send_test, SendTest(target=target.pk))
    Notice.objects.update(status="dead")
    make(notice_targets.replay_notice, ReplayNotice(notice=f"msg_{notice.message_id.hex}"))
    Notice.objects.update(status="dead")
    make(notice_targets.replay_dead_notices, ReplayDeadNotices(target=target.pk))
    make(notice_targets.delete_target, DeleteTarget(target=target.pk))
    news = InboxNotice.objects.create(entry=1, kind="job_late", subject="job/x", title="x", text="x")
    make(inbox.mark_read, MarkRead(news=news.pk))
    make(inbox.mark_all_read, MarkAllRead())


def _gpu_quotas(make: Trail) -> None:
    total = {"requests": {"tflops": "250", "vram": "64Gi"}}
    make(gpu_quotas.put_gpu_quota, PutGpuQuota(namespace="space", spec={"total": total}))
    make(gpu_quotas.put_gpu_quota, PutGpuQuota(namespace="space", spec={"total": total | {"maxWorkers": 20}}))
    amounts = make_amounts(24, "6Gi")
    for name, assume in (("one", False), ("two", True)):
        worker = AllocateWorker(namespace="space", id=name, request=amounts, limit=amounts, assume=assume)
        make(gpu_allocations.allocate, worker)
    make(gpu_allocations.adjust, AdjustWorker(namespace="space", id="one", request={"tflops": parse_quantity("12")}))
    make(gpu_allocations.commit, CommitWorker(namespace="space", id="two"))
    make(gpu_allocations.release, ReleaseWorker(namespace="space", id="two"))
    make(gpu_quotas.delete_gpu_quota, DeleteGpuQuota(namespace="space"))


def _work_and_settings(make: Trail) -> None:
    make_pool("shop", 100)
    work = partial(submit_workflow, make.actor, "shop")
    done, cancelled = (make.follow(SubmitWorkflow, work).name for _ in range(2))
    reconcile()
    make(user_actions.tag_workflow, TagWorkflow(name=done, add=["good"]))
    make(user_actions.cancel_workflow, CancelWorkflow(name=cancelled))
    make(user_actions.end_workflow, EndWorkflow(name=done, status=EndStatus.FAILED))
    again = retry_submission(get_visible_workflow(make.actor, done))
    make.follow(RestartWorkflow, lambda: submit(actor=make.actor, pool="shop", submission=again))
    question = ReplayQuestion(timezone.now() - timedelta(hours=1), timezone.now(), backend="sim")
    make.follow(RequestReplay, lambda: request_replay(actor=make.actor, question=question))
    kubernetes_backend("ns")
    make(put_queue_guard, PutQueueGuard(backend="lab", mode="audit"))
    make(put_queue_guard, PutQueueGuard(backend="lab", mode="enforce", identity="system:serviceaccount:osmo:osmo"))
    make(update_workflow_config, UpdateSettings(max_retry_per_task=3))
    pools_of_files = {"read": {"backend": "sim", "resources": {"gpu": GPUS}}}
    imported = ImportConfiguration(origin="a file", sections={"pools": pools_of_files}, places={"pools.read": "f:1"})
    make(import_configuration, imported, also={AuditAction.POOL_CREATED})


def _cohorts_by_name(make: Trail) -> None:
    """Cohorts that exist because somebody names them."""
    body = {"backend": "sim2", "resources": {"gpu": GPUS}}
    make(cohorts.create_cohort, CreateCohort(name="mid", body={"parent": "above"}))
    make(cohorts.put_cohort, PutCohort(name="low", body={"parent": "beyond"}))
    make(cohorts.put_cohort, PutCohort(name="low", body={"parent": "mid"}))
    make(pools.create_pool, CreatePool(name="member", body={**body, "cohort": "low"}))
    make(cohorts.patch_cohort, PatchCohort(name="low", patch={"parent": "elsewhere"}))
    make(cohorts.patch_cohort, PatchCohort(name="low", patch={"parent": "mid"}))
    make(cohorts.delete_cohort, DeleteCohort(name="mid", orphan=True))
    make(cohorts.delete_cohort, DeleteCohort(name="low", orphan=True))
    make(pools.patch_pool, PatchPool(name="member", patch={"cohort": "c1"}))
    make(pools.patch_pool, PatchPool(name="member", patch={"cohort": None}))
    make(pools.put_pools, PutPools(configs={"member": {**body, "cohort": "c2"}}))
    named = current_revision(make.actor).revision
    make(pools.put_pools, PutPools(configs={"member": body}))
    nameless = current_revision(make.actor).revision
    make(rollback_configuration, RollBack(revision=named))
    make(rollback_configuration, RollBack(revision=nameless))
    make(pools.put_pool, PutPool(name="member", body={**body, "cohort": "c3"}))
    make(pools.put_pool, PutPool(name="member", body=body))
    make(pools.create_pool, CreatePool(name="last", body={**body, "cohort": "c4"}))
    make(subpools.create_subpool, CreateSubpool(parent="last", subpool_name="a", quota=4))
    make(subpools.delete_subpool, DeleteSubpool(parent="last", subpool_name="a"))
    make(pools.rename_pool, RenamePool(name="last", new_name="least"))
    make(pools.delete_pool, DeletePool(name="least"))


def _drains(make: Trail) -> None:
    make_pool("basin", 100)
    ends = (
        (user_actions.cancel_workflow, lambda name: CancelWorkflow(name=name)),
        (user_actions.end_workflow, lambda name: EndWorkflow(name=name, status=EndStatus.COMPLETED)),
    )
    for service, command in ends:
        make(subpools.create_subpool, CreateSubpool(parent="basin", subpool_name="a", quota=4))
        running = submit_workflow(make.actor, "basin--a", gpus=4).name
        reconcile()
        submit_workflow(make.actor, "basin--a", gpus=4)
        make(subpools.delete_subpool, DeleteSubpool(parent="basin", subpool_name="a", cancel_pending=True))
        make(service, command(running))


def _crossed_thresholds(make: Trail) -> None:
    total = {"requests": {"tflops": "250", "vram": "64Gi"}, "alertThresholdPercent": 50}
    raised = {"requests": {"tflops": "2500", "vram": "640Gi"}, "alertThresholdPercent": 50}
    most = make_amounts(200, "6Gi")
    less, more = ({"tflops": parse_quantity(tflops)} for tflops in ("1", "200"))
    make(gpu_quotas.put_gpu_quota, PutGpuQuota(namespace="busy", spec={"total": total}))
    for name, assume in (("one", False), ("two", True)):
        make(gpu_allocations.allocate, AllocateWorker(namespace="busy", id=name, request=most, assume=assume))
        if assume:
            make(gpu_allocations.commit, CommitWorker(namespace="busy", id=name))
        make(gpu_allocations.adjust, AdjustWorker(namespace="busy", id=name, request=less))
        make(gpu_allocations.adjust, AdjustWorker(namespace="busy", id=name, request=more))
        make(gpu_allocations.release, ReleaseWorker(namespace="busy", id=name))
    make(gpu_allocations.allocate, AllocateWorker(namespace="busy", id="three", request=most))
    make(gpu_quotas.put_gpu_quota, PutGpuQuota(namespace="busy", spec={"total": raised}))
    make(gpu_quotas.put_gpu_quota, PutGpuQuota(namespace="busy", spec={"total": total}))


def _clusters(make: Trail) -> None:
    make(backends.delete_backend, DeleteBackend(name="lab"))
