"""Quota objects are read, their status is written by us, and usage follows the pods: on the twin, and the same on a
real API server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.errors import Conflict, Forbidden
from pools.domain.gpu_quota.workers import AllocationRequest, GpuWorker
from pools.domain.roles import SYSTEM, Actor
from pools.models import GpuAllocation, GpuQuota, Pool, User
from pools.representations.gpu_quota import current_gpu_quota_body
from pools.services.gpu_allocations import adjust, allocate, expire_assumed, release
from pools.services.gpu_quotas import put_gpu_quota
from scheduling.kube import resource_kinds
from scheduling.kube.fake import FakeCluster
from scheduling.models import GpuControllerLease
from scheduling.services.gpu_quota import controller
from scheduling.services.gpu_quota.controller import GpuControllerIntervals, GpuQuotaController, rebuild_from_clusters
from scheduling.services.kubernetes import connections
from scheduling.services.verify import verify
from tests.integration.gpu_cluster.conftest import PREFIX, SOMEBODY, GpuClusterHarness
from tests.support import factories
from tests.support.kube_server import wait_for
from tests.unit.gpu_quota.builders import make_amounts

CAPS = {"total": {"requests": {"tflops": "100", "vram": "10Gi"}, "maxWorkers": 5}}


def test_an_object_becomes_the_quota_and_hears_how_it_stands(fleet: GpuClusterHarness) -> None:
    fleet.quota(**CAPS)
    fleet.pod("w1")
    fleet.controller.relist_and_reconcile()
    row = GpuQuota.objects.get(namespace=fleet.namespace)
    assert row.source == "kubernetes:lab/team-quota"
    status = fleet.status()
    assert status["used"]["requests"] == {"tflops": "20", "vram": "2Gi"}
    assert status["used"]["workers"] == 1
    assert status["availablePercent"]["requests.tflops"] == "80.00"
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Ready", "True"),
        ("Exceeded", "False"),
        ("AlertThresholdReached", "False"),
    ]
    assert status["lastUpdateTime"]


def test_a_look_with_nothing_new_writes_nothing(fleet: GpuClusterHarness) -> None:
    fleet.quota(**CAPS)
    fleet.pod("w1")
    fleet.controller.relist_and_reconcile()
    there = fleet.cluster.get(resource_kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=fleet.namespace)
    fleet.controller.relist_and_reconcile()
    again = fleet.cluster.get(resource_kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=fleet.namespace)
    assert again["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]


def test_what_somebody_writes_into_the_status_is_put_right(fleet: GpuClusterHarness) -> None:
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    told = fleet.status()
    bent = {"status": {"used": {"workers": 99}, "conditions": []}}
    fleet.cluster.merge(
        resource_kinds.GPU_RESOURCE_QUOTA,
        "team-quota",
        bent,
        field_manager=SOMEBODY,
        namespace=fleet.namespace,
        status=True,
    )
    fleet.controller.relist_and_reconcile()
    assert fleet.status() == told


def test_a_spec_moves_with_its_object_and_goes_with_it(fleet: GpuClusterHarness) -> None:
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    fleet.quota(total={"maxWorkers": 7})
    fleet.controller.relist_and_reconcile()
    body = current_gpu_quota_body(fleet.namespace)
    assert body is not None
    assert body["spec"]["total"]["maxWorkers"] == 7
    fleet.cluster.delete(resource_kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=fleet.namespace)
    fleet.controller.relist_and_reconcile()
    assert current_gpu_quota_body(fleet.namespace) is None


def test_an_invalid_change_leaves_the_old_spec_in_force_and_says_so(fleet: GpuClusterHarness) -> None:
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    fleet.quota(total={"requests": {"tflops": "1n", "vram": "1"}, "maxWorkers": -1})
    fleet.controller.relist_and_reconcile()
    body = current_gpu_quota_body(fleet.namespace)
    assert body is not None
    assert body["spec"]["total"]["maxWorkers"] == 5
    assert fleet.ready() == ("False", "InvalidSpec")
    assert "maxWorkers" in fleet.status()["conditions"][0]["message"]
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    assert fleet.ready() == ("True", "QuotaReady")


def test_an_object_that_was_never_valid_limits_nothing(fleet: GpuClusterHarness) -> None:
    fleet.quota(total={"maxWorkers": -1})
    fleet.controller.relist_and_reconcile()
    assert current_gpu_quota_body(fleet.namespace) is None
    assert fleet.ready() == ("False", "InvalidSpec")
    assert "maxWorkers is -1" in fleet.status()["conditions"][0]["message"], "it says what is wrong"


def test_a_namespace_has_one_quota(fleet: GpuClusterHarness) -> None:
    fleet.quota("b-first", **CAPS)
    fleet.controller.relist_and_reconcile()
    fleet.quota("a-second", total={"maxWorkers": 1})
    fleet.controller.relist_and_reconcile()
    (in_force,) = [name for name in ("a-second", "b-first") if fleet.ready(name)[0] == "True"]
    (other,) = {"a-second", "b-first"} - {in_force}
    assert fleet.ready(other) == ("False", "Duplicate")
    assert in_force in fleet.status(other)["conditions"][0]["message"]
    fleet.cluster.delete(resource_kinds.GPU_RESOURCE_QUOTA, in_force, namespace=fleet.namespace)
    fleet.controller.relist_and_reconcile()
    assert fleet.ready(other) == ("True", "QuotaReady")


def test_what_is_not_taken_yet_is_not_called_invalid(fleet: GpuClusterHarness) -> None:
    """Statuses are written beside the reading of objects: one that is read but not taken says nothing yet."""
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    GpuQuota.objects.all().delete()
    told = fleet.status()
    fleet.controller.write_statuses()
    assert fleet.status() == told


def test_a_quota_that_people_keep_stays_theirs(fleet: GpuClusterHarness) -> None:
    put_gpu_quota(actor=SYSTEM, namespace=fleet.namespace, spec={"total": {"maxWorkers": 3}})
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    assert GpuQuota.objects.get(namespace=fleet.namespace).source == "api"
    assert fleet.ready() == ("False", "NotInForce")


def test_the_alert_reaches_the_object(fleet: GpuClusterHarness) -> None:
    fleet.quota(total={"requests": {"tflops": "20", "vram": "1Ti"}})
    fleet.pod("w1")
    fleet.controller.relist_and_reconcile()
    (alert,) = [each for each in fleet.status()["conditions"] if each["type"] == "AlertThresholdReached"]
    assert alert["status"] == "True"
    assert "requests.tflops 0.00" in alert["message"]


def test_which_pods_count(fleet: GpuClusterHarness) -> None:
    """The rules of the reference, section 10."""
    fleet.quota(**CAPS)
    fleet.pod("counts")
    fleet.pod("no-node", bound=False)
    fleet.pod("no-gpus", gpu_ids="")
    fleet.pod("bad-count", gpu_count="129")
    fleet.pod("no-amounts", tflops_request="lots", vram_request="")
    fleet.pod("both", compute_percent_request="50")
    fleet.pod("ours", labels={"osmo.task_uuid": "11111111-2222-3333-4444-555555555555"})
    fleet.pod("no-worker", labels={f"{PREFIX}component": "client"})
    fleet.controller.relist_and_reconcile()
    rows = {row.request_tflops for row in GpuAllocation.objects.exclude(state="released")}
    assert fleet.used() == (20, 3)
    assert rows == {10, 0}


def test_pods_come_and_go_between_looks(fleet: GpuClusterHarness) -> None:
    fleet.quota(**CAPS)
    fleet.pod("w1")
    fleet.controller.relist_and_reconcile()
    fleet.pod("w2")
    fleet.remove("w1")
    fleet.controller.relist_and_reconcile()
    assert fleet.used() == (20, 1)
    assert fleet.status()["used"]["workers"] == 1
    assert verify() == []


def test_a_rebuild_equals_the_ledger_after_a_crash_between_check_and_commit(fleet: GpuClusterHarness) -> None:
    """Reserved, then everything of ours dies; the pod is bound meanwhile, another one's never comes."""
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    bound = fleet.pod("bound")["metadata"]["uid"]
    for name in (bound, "never-made"):
        _reserve(fleet, name)
    assert fleet.used() == (0, 0)
    reborn = fleet.another_controller()
    assert {(each.path, each.code) for each in reborn.relist_and_reconcile()} == {(bound, "committed")}
    assert fleet.used() == (20, 1)
    rows = GpuAllocation.objects.filter(state="assumed").values_list("name", flat=True)
    assert list(rows) == ["never-made"], "it is kept until it expires"
    GpuAllocation.objects.filter(state="assumed").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_assumed() == 1
    assert rebuild_from_clusters({fleet.backend.pk: fleet.cluster}) == []
    assert verify() == []


def _reserve(fleet: GpuClusterHarness, name: str) -> None:
    GpuAllocation.objects.create(
        namespace=fleet.namespace,
        name=name,
        workload="infer",
        source="pod",
        backend=fleet.backend,
        state="assumed",
        expires_at=timezone.now() + timedelta(minutes=30),
        request_tflops=10,
        request_vram=2**30,
        count=2,
    )


def test_a_rebuild_keeps_what_people_allocated_and_repairs_the_rest(fleet: GpuClusterHarness) -> None:
    fleet.pod("w1")
    allocate(actor=SYSTEM, namespace=fleet.namespace, request=AllocationRequest("mine", "", GpuWorker(make_amounts(1))))
    found = rebuild_from_clusters({fleet.backend.pk: fleet.cluster}, only_namespace=fleet.namespace)
    assert [each.code for each in found] == ["added"]
    assert fleet.used() == (21, 2)
    uid = found[0].path
    release(actor=SYSTEM, namespace=fleet.namespace, name=uid)
    assert [
        each.code for each in rebuild_from_clusters({fleet.backend.pk: fleet.cluster}, only_namespace=fleet.namespace)
    ] == ["added"]


class TestOnTheTwin:
    """What is about our own rows."""

    def test_a_followed_pod_counts_without_a_rebuild(self, twin: GpuClusterHarness) -> None:
        keeper = twin.controller
        keeper.relist_and_reconcile()
        unbound = twin.pod("w1", bound=False)
        twin.pod("w2")
        _catch_up(keeper)
        assert twin.used() == (20, 1)
        change: Any = {"metadata": {"annotations": {f"{PREFIX}gpu-ids": "a"}}, "spec": {"nodeName": "n1"}}
        twin.cluster.merge(resource_kinds.POD, "w1", change, field_manager=SOMEBODY, namespace=twin.namespace)
        _catch_up(keeper)
        assert twin.used() == (40, 2)
        twin.remove("w1")
        _catch_up(keeper)
        assert twin.used() == (20, 1)
        row = GpuAllocation.objects.get(name=unbound["metadata"]["uid"])
        assert (row.state, row.reason) == ("released", "gone")

    def test_a_pod_that_names_its_gpus_again_counts_again(self, twin: GpuClusterHarness) -> None:
        twin.controller.relist_and_reconcile()
        twin.pod("w1")
        _catch_up(twin.controller)
        for gpus, used in (("", (0, 0)), ("a", (20, 1)), ("", (0, 0)), ("a,b", (20, 1))):
            change: Any = {"metadata": {"annotations": {f"{PREFIX}gpu-ids": gpus}}}
            twin.cluster.merge(resource_kinds.POD, "w1", change, field_manager=SOMEBODY, namespace=twin.namespace)
            _catch_up(twin.controller)
            assert twin.used() == used

    def test_what_a_pod_does_not_say_is_the_default(self, twin: GpuClusterHarness) -> None:
        """Judged, followed and rebuilt alike; what was counted stays when the default changes."""
        twin.quota(single={"defaultRequests": {"tflops": "7", "vram": "2Gi"}})
        twin.controller.relist_and_reconcile()
        twin.pod("w1", tflops_request="", vram_request="1Gi")
        _catch_up(twin.controller)
        assert twin.used() == (14, 1)
        assert rebuild_from_clusters({twin.backend.pk: twin.cluster}) == []
        twin.quota(single={"defaultRequests": {"tflops": "9", "vram": "2Gi"}})
        assert twin.controller.relist_and_reconcile() == []
        assert twin.used() == (14, 1)
        twin.pod("w2", tflops_request="")
        (added,) = rebuild_from_clusters({twin.backend.pk: twin.cluster})
        assert (added.code, added.after["request"]) == ("added", {"tflops": "9", "vram": "1Gi"})
        assert twin.used() == (32, 2)
        assert rebuild_from_clusters({twin.backend.pk: twin.cluster}) == []

    def test_what_is_in_line_is_not_locked(self, twin: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        twin.quota(**CAPS)
        twin.controller.relist_and_reconcile()
        monkeypatch.setattr(controller, "apply_cluster_quota", lambda **_: pytest.fail("there was nothing to take"))
        twin.controller.relist_and_reconcile()

    def test_a_worker_of_a_pod_is_given_back_by_its_cluster_or_the_house(self, twin: GpuClusterHarness) -> None:
        uid = twin.pod("w1")["metadata"]["uid"]
        twin.controller.relist_and_reconcile()
        factories.make_pool("team")
        Pool.objects.filter(name="team").update(config={"gpu_quota_namespace": twin.namespace})
        boss = Actor("boss", roles=frozenset({"osmo-team-admin"}))
        with pytest.raises(Forbidden):
            release(actor=boss, namespace=twin.namespace, name=uid)
        with pytest.raises(Conflict, match="annotations"):
            adjust(actor=boss, namespace=twin.namespace, name=uid, body={"request": {"tflops": "1"}})
        assert twin.used() == (20, 1)
        assert release(actor=SYSTEM, namespace=twin.namespace, name=uid).state == "released"

    def test_a_reservation_goes_with_its_pod(self, twin: GpuClusterHarness) -> None:
        twin.controller.relist_and_reconcile()
        uid = twin.pod("w1", bound=False)["metadata"]["uid"]
        _reserve(twin, uid)
        _catch_up(twin.controller)
        assert GpuAllocation.objects.get().state == "assumed"
        twin.remove("w1")
        _catch_up(twin.controller)
        assert GpuAllocation.objects.get().state == "released"

    def test_a_write_that_fails_is_made_later(self, twin: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        twin.quota(**CAPS)
        real = controller._write_status
        monkeypatch.setattr(controller, "_write_status", lambda *_: controller.errors.ServerError("not now"))
        twin.controller.relist_and_reconcile()
        assert twin.status() == {}
        monkeypatch.setattr(controller, "_write_status", real)
        twin.controller.relist_and_reconcile()
        assert twin.ready() == ("True", "QuotaReady")

    def test_pods_alone_are_followed_where_the_cluster_knows_no_quota_objects(self, twin: GpuClusterHarness) -> None:
        assert isinstance(twin.cluster, FakeCluster)
        twin.cluster.uninstall_kinds(resource_kinds.GPU_RESOURCE_QUOTA)
        twin.pod("w1")
        twin.controller.relist_and_reconcile()
        assert twin.used() == (20, 1)


def test_it_follows_by_itself_until_told_to_stop(fleet: GpuClusterHarness) -> None:
    """List, watch and write in its own threads; a second one stands by."""
    rhythm = GpuControllerIntervals(reconcile=0.1, rebuild=3600, standby=0.1)
    keepers = [
        GpuQuotaController(fleet.backend.pk, connect=lambda _: fleet.cluster, intervals=rhythm) for _ in range(2)
    ]
    stop = threading.Event()
    threads = [threading.Thread(target=keeper.run, args=[stop]) for keeper in keepers]
    for thread in threads:
        thread.start()
    try:
        fleet.quota(**CAPS)
        wait_for(lambda: fleet.status() and fleet.ready() == ("True", "QuotaReady"))
        fleet.pod("w1")
        wait_for(lambda: fleet.status()["used"]["workers"] == 1)
        fleet.remove("w1")
        wait_for(lambda: fleet.status()["used"]["workers"] == 0)
        fleet.quota(total={"maxWorkers": 9})
        wait_for(
            lambda: (
                (current_gpu_quota_body(fleet.namespace) or {}).get("spec", {}).get("total", {}).get("maxWorkers") == 9
            )
        )
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@contextmanager
def living(keeper: GpuQuotaController) -> Iterator[None]:
    """It runs by itself."""
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=[stop])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        keeper.wake()
        thread.join(60)
        assert not thread.is_alive()


def test_a_lease_of_the_dead_ends_by_itself(twin: GpuClusterHarness) -> None:
    twin.quota(**CAPS)
    GpuControllerLease.objects.create(
        backend=twin.backend, lease_holder=uuid.uuid4(), lease_expires_at=timezone.now() + timedelta(hours=1)
    )
    keeper = GpuQuotaController(
        twin.backend.pk, connect=lambda _: twin.cluster, intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1)
    )
    with living(keeper):
        seen = keeper.last_alive_at
        wait_for(lambda: keeper.last_alive_at > seen)
        assert twin.status() == {}
        GpuControllerLease.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
        wait_for(lambda: twin.status() and twin.ready() == ("True", "QuotaReady"))


def test_a_keeper_that_was_frozen_finds_its_lease_gone(twin: GpuClusterHarness) -> None:
    twin.quota(**CAPS)
    keeper = GpuQuotaController(
        twin.backend.pk, connect=lambda _: twin.cluster, intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1)
    )
    keeper._lease._renew_after = 0.0
    with living(keeper):
        wait_for(twin.status)
        GpuControllerLease.objects.update(
            lease_holder=uuid.uuid4(), lease_expires_at=timezone.now() + timedelta(hours=1)
        )
        wait_for(lambda: not keeper._lease.may_write())
        twin.quota(total={"maxWorkers": 9})
        for _ in range(3):
            seen = keeper.last_alive_at
            wait_for(lambda seen=seen: keeper.last_alive_at > seen)  # type: ignore[misc]
        assert (current_gpu_quota_body(twin.namespace) or {})["spec"]["total"]["maxWorkers"] == 5
        GpuControllerLease.objects.update(lease_holder=None, lease_expires_at=None)
        wait_for(lambda: (current_gpu_quota_body(twin.namespace) or {})["spec"]["total"].get("maxWorkers") == 9)


def test_a_status_does_not_wait_for_a_long_rebuild(fleet: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the pods are still being listed, what people allocate reaches the object."""
    fleet.quota(**CAPS)
    fleet.controller.relist_and_reconcile()
    begun, on = threading.Event(), threading.Event()

    def slowly(*_: Any) -> list[Any]:
        begun.set()
        assert on.wait(120)
        return []

    monkeypatch.setattr(controller, "rebuild_from_clusters", slowly)
    keeper = GpuQuotaController(
        fleet.backend.pk, connect=lambda _: fleet.cluster, intervals=GpuControllerIntervals(reconcile=0.1, standby=0.1)
    )
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=[stop])
    thread.start()
    try:
        assert begun.wait(60)
        allocate(
            actor=SYSTEM, namespace=fleet.namespace, request=AllocationRequest("mine", "", GpuWorker(make_amounts(1)))
        )
        wait_for(lambda: fleet.status()["used"]["workers"] == 1)
        assert not on.is_set()
    finally:
        on.set()
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def test_rebuilding_over_http(fleet: GpuClusterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect", lambda _: fleet.cluster)
    fleet.pod("w1")
    client = Client()
    factories.admin_actor()
    client.force_login(User.objects.get(username="root-admin"), "django.contrib.auth.backends.ModelBackend")

    def post(body: Any) -> tuple[int, Any]:
        answer = client.post("/api/gpu_quota/rebuild", body, content_type="application/json")
        return answer.status_code, answer.json()

    status, body = post({"namespace": fleet.namespace})
    assert (status, [each["code"] for each in body["differences"]]) == (200, ["added"])
    assert post({"namespace": fleet.namespace}) == (200, {"differences": []})
    assert post({"namespace": "Bad_"})[0] == 400
    assert post({"namespace": 5})[0] == 400
    assert post({"namespaces": "x"})[0] == 400
    assert Client().post("/api/gpu_quota/rebuild").status_code == 401

    def silent(_: Any) -> Any:
        raise controller.errors.Unreachable("no answer")

    monkeypatch.setattr(connections, "connect", silent)
    status, body = post({})
    assert (status, "nothing was rebuilt" in body["message"]) == (503, True)
    assert fleet.used() == (20, 1)


def _catch_up(keeper: controller.GpuQuotaController) -> None:
    """What the watch would have told, without its thread; no rebuild is due."""
    keeper._pods.relist()
    assert keeper.reconcile() == []
