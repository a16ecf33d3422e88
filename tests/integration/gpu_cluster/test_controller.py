"""Quota objects are read, their statuses are written, and usage follows the pods, on the fake cluster and on a real
API server."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.errors import Conflict, Forbidden
from pools.domain.people.roles import Actor
from pools.models import GpuAllocation, GpuQuota, Pool
from pools.representations.gpu_quota import current_gpu_quota_body
from pools.services.gpu_quota.gpu_allocations import adjust, expire_assumed
from scheduling.domain.statuses import TaskStatus
from scheduling.kube import webhook_configuration
from scheduling.kube.connection import resource_kinds
from scheduling.models import GpuControllerLease, Task, WebhookInstallation
from scheduling.services.gpu_quota import controller
from scheduling.services.gpu_quota.controller import GpuControllerIntervals, GpuQuotaController, rebuild_from_clusters
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.leases import LOOP_TIMING
from scheduling.services.verify import verify
from tests.integration.gpu_cluster.conftest import PREFIX, SOMEBODY, GpuClusterHarness
from tests.support import world
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import wait_for, with_a_real_one
from tests.support.threads import run_loops
from tests.support.world import apply_change, sign_in
from tests.unit.gpu_quota.builders import make_amounts

CAPS = {"total": {"requests": {"tflops": "100", "vram": "10Gi"}, "maxWorkers": 5}}


@with_a_real_one("gpu_cluster")
def test_an_object_becomes_the_quota_and_gets_a_status(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(**CAPS)
    gpu_cluster.pod("w1")
    gpu_cluster.controller.relist_and_reconcile()
    row = GpuQuota.objects.get(namespace=gpu_cluster.namespace)
    assert row.source == "kubernetes:lab/team-quota"
    status = gpu_cluster.status()
    assert status["used"]["requests"] == {"tflops": "20", "vram": "2Gi"}
    assert status["used"]["workers"] == 1
    assert status["availablePercent"]["requests.tflops"] == "80.00"
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Ready", "True"),
        ("Exceeded", "False"),
        ("AlertThresholdReached", "False"),
    ]
    assert status["lastUpdateTime"]


def test_a_round_without_changes_writes_nothing(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(**CAPS)
    gpu_cluster.pod("w1")
    gpu_cluster.controller.relist_and_reconcile()
    there = gpu_cluster.cluster.get(resource_kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=gpu_cluster.namespace)
    gpu_cluster.controller.relist_and_reconcile()
    again = gpu_cluster.cluster.get(resource_kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=gpu_cluster.namespace)
    assert again["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]


def test_a_foreign_change_of_the_status_is_reverted(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    status = gpu_cluster.status()
    foreign_change = {"status": {"used": {"workers": 99}, "conditions": []}}
    gpu_cluster.cluster.merge(
        resource_kinds.GPU_RESOURCE_QUOTA,
        "team-quota",
        foreign_change,
        field_manager=SOMEBODY,
        namespace=gpu_cluster.namespace,
        status=True,
    )
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.status() == status


def test_a_spec_follows_its_object(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    gpu_cluster.quota(total={"maxWorkers": 7})
    gpu_cluster.controller.relist_and_reconcile()
    body = current_gpu_quota_body(gpu_cluster.namespace)
    assert body is not None
    assert body["spec"]["total"]["maxWorkers"] == 7
    gpu_cluster.cluster.delete(resource_kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=gpu_cluster.namespace)
    gpu_cluster.controller.relist_and_reconcile()
    assert current_gpu_quota_body(gpu_cluster.namespace) is None


def test_an_invalid_change_leaves_the_old_spec_in_force_and_reports_it(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    gpu_cluster.quota(total={"requests": {"tflops": "1n", "vram": "1"}, "maxWorkers": -1})
    gpu_cluster.controller.relist_and_reconcile()
    body = current_gpu_quota_body(gpu_cluster.namespace)
    assert body is not None
    assert body["spec"]["total"]["maxWorkers"] == 5
    assert gpu_cluster.ready() == ("False", "InvalidSpec")
    assert "maxWorkers" in gpu_cluster.status()["conditions"][0]["message"]
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.ready() == ("True", "QuotaReady")


def test_an_object_that_was_never_valid_limits_nothing(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(total={"maxWorkers": -1})
    gpu_cluster.controller.relist_and_reconcile()
    assert current_gpu_quota_body(gpu_cluster.namespace) is None
    assert gpu_cluster.ready() == ("False", "InvalidSpec")
    assert "maxWorkers must be" in gpu_cluster.status()["conditions"][0]["message"], "the message contains the fault"


def test_a_namespace_has_one_quota(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota("b-first", **CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    gpu_cluster.quota("a-second", total={"maxWorkers": 1})
    gpu_cluster.controller.relist_and_reconcile()
    (in_force,) = [name for name in ("a-second", "b-first") if gpu_cluster.ready(name)[0] == "True"]
    (other,) = {"a-second", "b-first"} - {in_force}
    assert gpu_cluster.ready(other) == ("False", "Duplicate")
    assert in_force in gpu_cluster.status(other)["conditions"][0]["message"]
    gpu_cluster.cluster.delete(resource_kinds.GPU_RESOURCE_QUOTA, in_force, namespace=gpu_cluster.namespace)
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.ready(other) == ("True", "QuotaReady")


def test_an_object_that_is_not_applied_yet_has_no_status(gpu_cluster: GpuClusterHarness) -> None:
    """Statuses are written by another thread: an object that is not applied to the ledger yet has no status."""
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    GpuQuota.objects.all().delete()
    status = gpu_cluster.status()
    gpu_cluster.controller.write_statuses()
    assert gpu_cluster.status() == status


def test_a_quota_of_another_source_is_not_changed(gpu_cluster: GpuClusterHarness) -> None:
    apply_change(PutGpuQuota(namespace=gpu_cluster.namespace, spec={"total": {"maxWorkers": 3}}))
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    assert GpuQuota.objects.get(namespace=gpu_cluster.namespace).source == "api"
    assert gpu_cluster.ready() == ("False", "NotInForce")


def test_the_alert_reaches_the_object(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(total={"requests": {"tflops": "20", "vram": "1Ti"}})
    gpu_cluster.pod("w1")
    gpu_cluster.controller.relist_and_reconcile()
    (alert,) = [each for each in gpu_cluster.status()["conditions"] if each["type"] == "AlertThresholdReached"]
    assert alert["status"] == "True"
    assert alert["message"] == "Less than 5 percent is available: TFLOPS requested 0.00."


def test_which_pods_count(gpu_cluster: GpuClusterHarness) -> None:
    """The rules of a recount (design, G7), but for annotations that cannot be read: such a pod counts too."""
    gpu_cluster.quota(**CAPS)
    gpu_cluster.pod("counts")
    gpu_cluster.pod("no-node", bound=False)
    gpu_cluster.pod("no-gpus", gpu_ids="")
    gpu_cluster.pod("bad-count", gpu_count="129")
    gpu_cluster.pod("no-amounts", tflops_request="lots", vram_request="")
    gpu_cluster.pod("both", compute_percent_request="50")
    gpu_cluster.pod("claims", labels={"osmo.task_uuid": "11111111-2222-3333-4444-555555555555"})
    gpu_cluster.pod("no-worker", labels={f"{PREFIX}component": "client"})
    gpu_cluster.controller.relist_and_reconcile()
    rows = {row.request_tflops for row in GpuAllocation.objects.exclude(state="released")}
    assert gpu_cluster.used() == (80, 5), "a label of ours does not exempt a pod of somebody else"
    assert rows == {10, 0}


def test_only_the_pod_of_an_open_task_is_counted_with_its_workflow(fake_gpu_cluster: GpuClusterHarness) -> None:
    fake_gpu_cluster.quota(**CAPS)
    world.make_pool("team", 10, on=fake_gpu_cluster.backend, a=5)
    world.submit_workflow(world.admin_actor(), "team--a")
    task = str(Task.objects.get().pk)
    fake_gpu_cluster.pod(task, labels={"osmo.task_uuid": task})
    fake_gpu_cluster.controller.relist_and_reconcile()
    assert fake_gpu_cluster.used() == (0, 0)
    fake_gpu_cluster.pod("other-name", labels={"osmo.task_uuid": task})
    fake_gpu_cluster.controller._pods.relist()
    fake_gpu_cluster.controller.reconcile()
    assert fake_gpu_cluster.used() == (20, 1), "between rebuilds too"
    Task.objects.update(status=TaskStatus.COMPLETED)
    fake_gpu_cluster.controller.relist_and_reconcile()
    assert fake_gpu_cluster.used() == (40, 2), "a task that ended protects no pod"


@with_a_real_one("gpu_cluster")
def test_pods_come_and_go_between_rounds(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(**CAPS)
    gpu_cluster.pod("w1")
    gpu_cluster.controller.relist_and_reconcile()
    gpu_cluster.pod("w2")
    gpu_cluster.remove("w1")
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.used() == (20, 1)
    assert gpu_cluster.status()["used"]["workers"] == 1
    assert verify() == []


def test_a_rebuild_equals_the_ledger_after_a_crash_between_check_and_commit(gpu_cluster: GpuClusterHarness) -> None:
    """After the reservations our processes die; meanwhile one pod is bound, and another one is never created."""
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    bound = gpu_cluster.pod("bound")["metadata"]["uid"]
    for name in (bound, "never-made"):
        _reserve(gpu_cluster, name)
    assert gpu_cluster.used() == (0, 0)
    reborn = gpu_cluster.another_controller()
    assert {(each.path, each.code) for each in reborn.relist_and_reconcile()} == {(bound, "committed")}
    assert gpu_cluster.used() == (20, 1)
    rows = GpuAllocation.objects.filter(state="assumed").values_list("name", flat=True)
    assert list(rows) == ["never-made"], "the reservation stays until it expires"
    GpuAllocation.objects.filter(state="assumed").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_assumed() == 1
    assert rebuild_from_clusters({gpu_cluster.backend.pk: gpu_cluster.cluster}) == []
    assert verify() == []


def _reserve(gpu_cluster: GpuClusterHarness, name: str) -> None:
    GpuAllocation.objects.create(
        namespace=gpu_cluster.namespace,
        name=name,
        workload="infer",
        source="pod",
        backend=gpu_cluster.backend,
        state="assumed",
        expires_at=timezone.now() + timedelta(minutes=30),
        request_tflops=10,
        request_vram=2**30,
        count=2,
    )


def test_a_rebuild_keeps_manual_allocations_and_repairs_the_rest(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.pod("w1")
    apply_change(AllocateWorker(namespace=gpu_cluster.namespace, id="mine", request=make_amounts(1)))
    found = rebuild_from_clusters({gpu_cluster.backend.pk: gpu_cluster.cluster}, only_namespace=gpu_cluster.namespace)
    assert [each.code for each in found] == ["added"]
    assert gpu_cluster.used() == (21, 2)
    uid = found[0].path
    apply_change(ReleaseWorker(namespace=gpu_cluster.namespace, id=uid))
    assert [
        each.code
        for each in rebuild_from_clusters(
            {gpu_cluster.backend.pk: gpu_cluster.cluster}, only_namespace=gpu_cluster.namespace
        )
    ] == ["added"]


class TestOnTheFakeCluster:
    """Tests of our own rows."""

    def test_a_followed_pod_counts_without_a_rebuild(self, fake_gpu_cluster: GpuClusterHarness) -> None:
        quota_controller = fake_gpu_cluster.controller
        quota_controller.relist_and_reconcile()
        unbound = fake_gpu_cluster.pod("w1", bound=False)
        fake_gpu_cluster.pod("w2")
        _catch_up(quota_controller)
        assert fake_gpu_cluster.used() == (20, 1)
        change: Any = {"metadata": {"annotations": {f"{PREFIX}gpu-ids": "a"}}, "spec": {"nodeName": "n1"}}
        fake_gpu_cluster.cluster.merge(
            resource_kinds.POD, "w1", change, field_manager=SOMEBODY, namespace=fake_gpu_cluster.namespace
        )
        _catch_up(quota_controller)
        assert fake_gpu_cluster.used() == (40, 2)
        fake_gpu_cluster.remove("w1")
        _catch_up(quota_controller)
        assert fake_gpu_cluster.used() == (20, 1)
        row = GpuAllocation.objects.get(name=unbound["metadata"]["uid"])
        assert (row.state, row.reason) == ("released", "gone")

    def test_a_pod_that_names_its_gpus_again_counts_again(self, fake_gpu_cluster: GpuClusterHarness) -> None:
        fake_gpu_cluster.controller.relist_and_reconcile()
        fake_gpu_cluster.pod("w1")
        _catch_up(fake_gpu_cluster.controller)
        for gpus, used in (("", (0, 0)), ("a", (20, 1)), ("", (0, 0)), ("a,b", (20, 1))):
            change: Any = {"metadata": {"annotations": {f"{PREFIX}gpu-ids": gpus}}}
            fake_gpu_cluster.cluster.merge(
                resource_kinds.POD, "w1", change, field_manager=SOMEBODY, namespace=fake_gpu_cluster.namespace
            )
            _catch_up(fake_gpu_cluster.controller)
            assert fake_gpu_cluster.used() == used

    def test_missing_values_of_a_pod_have_defaults(self, fake_gpu_cluster: GpuClusterHarness) -> None:
        """Reviews, observation and rebuild agree; a counted worker stays when the default changes."""
        fake_gpu_cluster.quota(single={"defaultRequests": {"tflops": "7", "vram": "2Gi"}})
        fake_gpu_cluster.controller.relist_and_reconcile()
        fake_gpu_cluster.pod("w1", tflops_request="", vram_request="1Gi")
        _catch_up(fake_gpu_cluster.controller)
        assert fake_gpu_cluster.used() == (14, 1)
        assert rebuild_from_clusters({fake_gpu_cluster.backend.pk: fake_gpu_cluster.cluster}) == []
        fake_gpu_cluster.quota(single={"defaultRequests": {"tflops": "9", "vram": "2Gi"}})
        assert fake_gpu_cluster.controller.relist_and_reconcile() == []
        assert fake_gpu_cluster.used() == (14, 1)
        fake_gpu_cluster.pod("w2", tflops_request="")
        (added,) = rebuild_from_clusters({fake_gpu_cluster.backend.pk: fake_gpu_cluster.cluster})
        assert (added.code, added.after["request"]) == ("added", {"tflops": "9", "vram": "1Gi"})
        assert fake_gpu_cluster.used() == (32, 2)
        assert rebuild_from_clusters({fake_gpu_cluster.backend.pk: fake_gpu_cluster.cluster}) == []

    def test_a_quota_that_is_up_to_date_is_not_locked(
        self, fake_gpu_cluster: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_gpu_cluster.quota(**CAPS)
        fake_gpu_cluster.controller.relist_and_reconcile()
        monkeypatch.setattr(controller, "apply_cluster_quota", lambda **_: pytest.fail("there was nothing to apply"))
        fake_gpu_cluster.controller.relist_and_reconcile()

    def test_a_worker_of_a_pod_is_released_by_its_cluster_or_an_admin(
        self, fake_gpu_cluster: GpuClusterHarness
    ) -> None:
        uid = fake_gpu_cluster.pod("w1")["metadata"]["uid"]
        fake_gpu_cluster.controller.relist_and_reconcile()
        world.make_pool("team")
        Pool.objects.filter(name="team").update(config={"gpu_quota_namespace": fake_gpu_cluster.namespace})
        boss = Actor("boss", roles=frozenset({"osmo-team-admin"}))
        with pytest.raises(Forbidden):
            apply_change(ReleaseWorker(namespace=fake_gpu_cluster.namespace, id=uid), actor=boss)
        with pytest.raises(Conflict, match="annotations"):
            adjust(
                AdjustWorker.from_json(
                    {"namespace": fake_gpu_cluster.namespace, "id": uid, "request": {"tflops": "1"}}
                ),
                actor=boss,
            )
        assert fake_gpu_cluster.used() == (20, 1)
        assert apply_change(ReleaseWorker(namespace=fake_gpu_cluster.namespace, id=uid)).state == "released"

    def test_a_reservation_ends_with_its_pod(self, fake_gpu_cluster: GpuClusterHarness) -> None:
        fake_gpu_cluster.controller.relist_and_reconcile()
        uid = fake_gpu_cluster.pod("w1", bound=False)["metadata"]["uid"]
        _reserve(fake_gpu_cluster, uid)
        _catch_up(fake_gpu_cluster.controller)
        assert GpuAllocation.objects.get().state == "assumed"
        fake_gpu_cluster.remove("w1")
        _catch_up(fake_gpu_cluster.controller)
        assert GpuAllocation.objects.get().state == "released"

    def test_a_write_that_fails_is_repeated_later(
        self, fake_gpu_cluster: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_gpu_cluster.quota(**CAPS)
        real = controller._write_status
        monkeypatch.setattr(controller, "_write_status", lambda *_: controller.errors.ServerError("not now"))
        fake_gpu_cluster.controller.relist_and_reconcile()
        assert fake_gpu_cluster.status() == {}
        monkeypatch.setattr(controller, "_write_status", real)
        fake_gpu_cluster.controller.relist_and_reconcile()
        assert fake_gpu_cluster.ready() == ("True", "QuotaReady")

    def test_pods_alone_are_followed_where_the_cluster_knows_no_quota_objects(
        self, fake_gpu_cluster: GpuClusterHarness
    ) -> None:
        assert isinstance(fake_gpu_cluster.cluster, FakeCluster)
        fake_gpu_cluster.cluster.uninstall_kinds(resource_kinds.GPU_RESOURCE_QUOTA)
        fake_gpu_cluster.pod("w1")
        fake_gpu_cluster.controller.relist_and_reconcile()
        assert fake_gpu_cluster.used() == (20, 1)


def test_the_controller_follows_the_cluster_until_it_is_stopped(gpu_cluster: GpuClusterHarness) -> None:
    """List, watch and write in its own threads; a second one stands by."""
    intervals = GpuControllerIntervals(reconcile=0.1, rebuild=3600, standby=0.1)
    controllers = [
        GpuQuotaController(gpu_cluster.backend.pk, connect=lambda _: gpu_cluster.cluster, intervals=intervals)
        for _ in range(2)
    ]
    with run_loops(*controllers):
        gpu_cluster.quota(**CAPS)
        wait_for(lambda: gpu_cluster.status() and gpu_cluster.ready() == ("True", "QuotaReady"))
        gpu_cluster.pod("w1")
        wait_for(lambda: gpu_cluster.status()["used"]["workers"] == 1)
        gpu_cluster.remove("w1")
        wait_for(lambda: gpu_cluster.status()["used"]["workers"] == 0)
        gpu_cluster.quota(total={"maxWorkers": 9})
        wait_for(
            lambda: (
                (current_gpu_quota_body(gpu_cluster.namespace) or {}).get("spec", {}).get("total", {}).get("maxWorkers")
                == 9
            )
        )


def test_the_controller_puts_the_webhooks_back(fake_gpu_cluster: GpuClusterHarness) -> None:
    """Without a new start, and without anybody asking for it."""
    WebhookInstallation.objects.create(backend=fake_gpu_cluster.backend, url="https://hooks.example:8443")
    cluster, name = fake_gpu_cluster.cluster, fake_gpu_cluster.backend.name
    quota_controller = GpuQuotaController(
        fake_gpu_cluster.backend.pk,
        connect=lambda _: cluster,
        intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1, webhooks=0.1),
    )
    with run_loops(quota_controller):
        wait_for(lambda: webhook_configuration.read_configuration(cluster, name))
        assert webhook_configuration.remove_configuration(cluster, name)
        wait_for(lambda: webhook_configuration.read_configuration(cluster, name))
    assert WebhookInstallation.objects.get().repairs == 2


def test_the_lease_of_a_dead_controller_expires(fake_gpu_cluster: GpuClusterHarness) -> None:
    fake_gpu_cluster.quota(**CAPS)
    GpuControllerLease.objects.create(
        backend=fake_gpu_cluster.backend,
        lease_holder=uuid.uuid4(),
        lease_expires_at=timezone.now() + timedelta(hours=1),
    )
    quota_controller = GpuQuotaController(
        fake_gpu_cluster.backend.pk,
        connect=lambda _: fake_gpu_cluster.cluster,
        intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1),
    )
    with run_loops(quota_controller):
        seen = quota_controller.last_alive_at
        wait_for(lambda: quota_controller.last_alive_at > seen)
        assert fake_gpu_cluster.status() == {}
        GpuControllerLease.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
        wait_for(lambda: fake_gpu_cluster.status() and fake_gpu_cluster.ready() == ("True", "QuotaReady"))


def test_a_controller_that_was_frozen_finds_its_lease_gone(fake_gpu_cluster: GpuClusterHarness) -> None:
    fake_gpu_cluster.quota(**CAPS)
    quota_controller = GpuQuotaController(
        fake_gpu_cluster.backend.pk,
        connect=lambda _: fake_gpu_cluster.cluster,
        intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1),
    )
    quota_controller._lease.timing = replace(LOOP_TIMING, renew_after=0.0)
    with run_loops(quota_controller):
        wait_for(fake_gpu_cluster.status)
        GpuControllerLease.objects.update(
            lease_holder=uuid.uuid4(), lease_expires_at=timezone.now() + timedelta(hours=1)
        )
        wait_for(lambda: not quota_controller._lease.may_write())
        fake_gpu_cluster.quota(total={"maxWorkers": 9})
        for _ in range(3):
            seen = quota_controller.last_alive_at
            wait_for(lambda seen=seen: quota_controller.last_alive_at > seen)  # type: ignore[misc]
        assert (current_gpu_quota_body(fake_gpu_cluster.namespace) or {})["spec"]["total"]["maxWorkers"] == 5
        GpuControllerLease.objects.update(lease_holder=None, lease_expires_at=None)
        wait_for(
            lambda: (current_gpu_quota_body(fake_gpu_cluster.namespace) or {})["spec"]["total"].get("maxWorkers") == 9
        )


def test_a_status_does_not_wait_for_a_long_rebuild(
    gpu_cluster: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allocation reaches the object's status while the pods are still being listed."""
    gpu_cluster.quota(**CAPS)
    gpu_cluster.controller.relist_and_reconcile()
    begun, on = threading.Event(), threading.Event()

    def slowly(*_: Any) -> list[Any]:
        begun.set()
        assert on.wait(120)
        return []

    monkeypatch.setattr(controller, "rebuild_from_clusters", slowly)
    quota_controller = GpuQuotaController(
        gpu_cluster.backend.pk,
        connect=lambda _: gpu_cluster.cluster,
        intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1),
    )
    with run_loops(quota_controller):
        try:
            assert begun.wait(60)
            apply_change(AllocateWorker(namespace=gpu_cluster.namespace, id="mine", request=make_amounts(1)))
            wait_for(lambda: gpu_cluster.status()["used"]["workers"] == 1)
            assert not on.is_set()
        finally:
            on.set()


def test_rebuilding_over_http(gpu_cluster: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect", lambda _: gpu_cluster.cluster)
    gpu_cluster.pod("w1")
    client = sign_in(world.admin_actor().username)

    def post(body: Any) -> tuple[int, Any]:
        answer = client.post("/api/gpu_quota/rebuild", body, content_type="application/json")
        return answer.status_code, answer.json()

    status, body = post({"namespace": gpu_cluster.namespace})
    assert (status, [each["code"] for each in body["differences"]]) == (200, ["added"])
    assert post({"namespace": gpu_cluster.namespace}) == (200, {"differences": []})
    assert post({"namespace": "Bad_"})[0] == 400
    assert post({"namespace": 5})[0] == 400
    assert post({"namespaces": "x"})[0] == 400
    assert Client().post("/api/gpu_quota/rebuild").status_code == 401

    def silent(_: Any) -> Any:
        raise controller.errors.Unreachable("no answer")

    monkeypatch.setattr(connections, "connect", silent)
    status, body = post({})
    assert (status, "nothing was rebuilt" in body["message"]) == (503, True)
    assert gpu_cluster.used() == (20, 1)


def _catch_up(quota_controller: controller.GpuQuotaController) -> None:
    """The events of the watch, without its thread; no rebuild is due."""
    quota_controller._pods.relist()
    assert quota_controller.reconcile() == []
