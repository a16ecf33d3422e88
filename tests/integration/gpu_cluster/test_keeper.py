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
from pools.domain.gpu_quota.workers import Asked, Worker
from pools.domain.roles import SYSTEM, Actor
from pools.models import GpuAllocation, GpuQuota, Pool, User
from pools.representations.gpu_quota import shown
from pools.services.gpu_allocations import adjust, allocate, expire_assumed, release
from pools.services.gpu_quotas import put_quota
from scheduling.kube import connections, kinds
from scheduling.kube.fake import Twin
from scheduling.models import GpuKeeping
from scheduling.services.gpu_quota import controller
from scheduling.services.gpu_quota.controller import GpuKeeper, Rhythm, rebuild_from
from scheduling.services.verify import verify
from tests.integration.gpu_cluster.conftest import PREFIX, SOMEBODY, Fleet
from tests.support import houses
from tests.support.kube import eventually
from tests.unit.gpu_quota.rows import amounts

CAPS = {"total": {"requests": {"tflops": "100", "vram": "10Gi"}, "maxWorkers": 5}}


def test_an_object_becomes_the_quota_and_hears_how_it_stands(fleet: Fleet) -> None:
    fleet.quota(**CAPS)
    fleet.pod("w1")
    fleet.keeper.look_now()
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


def test_a_look_with_nothing_new_writes_nothing(fleet: Fleet) -> None:
    fleet.quota(**CAPS)
    fleet.pod("w1")
    fleet.keeper.look_now()
    there = fleet.cluster.get(kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=fleet.namespace)
    fleet.keeper.look_now()
    again = fleet.cluster.get(kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=fleet.namespace)
    assert again["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]


def test_what_somebody_writes_into_the_status_is_put_right(fleet: Fleet) -> None:
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    told = fleet.status()
    bent = {"status": {"used": {"workers": 99}, "conditions": []}}
    fleet.cluster.merge(
        kinds.GPU_RESOURCE_QUOTA, "team-quota", bent, owner=SOMEBODY, namespace=fleet.namespace, status=True
    )
    fleet.keeper.look_now()
    assert fleet.status() == told


def test_a_spec_moves_with_its_object_and_goes_with_it(fleet: Fleet) -> None:
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    fleet.quota(total={"maxWorkers": 7})
    fleet.keeper.look_now()
    body = shown(fleet.namespace)
    assert body is not None
    assert body["spec"]["total"]["maxWorkers"] == 7
    fleet.cluster.delete(kinds.GPU_RESOURCE_QUOTA, "team-quota", namespace=fleet.namespace)
    fleet.keeper.look_now()
    assert shown(fleet.namespace) is None


def test_an_invalid_change_leaves_the_old_spec_in_force_and_says_so(fleet: Fleet) -> None:
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    fleet.quota(total={"requests": {"tflops": "1n", "vram": "1"}, "maxWorkers": -1})
    fleet.keeper.look_now()
    body = shown(fleet.namespace)
    assert body is not None
    assert body["spec"]["total"]["maxWorkers"] == 5
    assert fleet.ready() == ("False", "InvalidSpec")
    assert "maxWorkers" in fleet.status()["conditions"][0]["message"]
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    assert fleet.ready() == ("True", "QuotaReady")


def test_an_object_that_was_never_valid_limits_nothing(fleet: Fleet) -> None:
    fleet.quota(total={"maxWorkers": -1})
    fleet.keeper.look_now()
    assert shown(fleet.namespace) is None
    assert fleet.ready() == ("False", "InvalidSpec")
    assert "maxWorkers is -1" in fleet.status()["conditions"][0]["message"], "it says what is wrong"


def test_a_namespace_has_one_quota(fleet: Fleet) -> None:
    fleet.quota("b-first", **CAPS)
    fleet.keeper.look_now()
    fleet.quota("a-second", total={"maxWorkers": 1})
    fleet.keeper.look_now()
    (in_force,) = [name for name in ("a-second", "b-first") if fleet.ready(name)[0] == "True"]
    (other,) = {"a-second", "b-first"} - {in_force}
    assert fleet.ready(other) == ("False", "Duplicate")
    assert in_force in fleet.status(other)["conditions"][0]["message"]
    fleet.cluster.delete(kinds.GPU_RESOURCE_QUOTA, in_force, namespace=fleet.namespace)
    fleet.keeper.look_now()
    assert fleet.ready(other) == ("True", "QuotaReady")


def test_what_is_not_taken_yet_is_not_called_invalid(fleet: Fleet) -> None:
    """Statuses are written beside the reading of objects: one that is read but not taken says nothing yet."""
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    GpuQuota.objects.all().delete()
    told = fleet.status()
    fleet.keeper.write_statuses()
    assert fleet.status() == told


def test_a_quota_that_people_keep_stays_theirs(fleet: Fleet) -> None:
    put_quota(actor=SYSTEM, namespace=fleet.namespace, spec={"total": {"maxWorkers": 3}})
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    assert GpuQuota.objects.get(namespace=fleet.namespace).source == "api"
    assert fleet.ready() == ("False", "NotInForce")


def test_the_alert_reaches_the_object(fleet: Fleet) -> None:
    fleet.quota(total={"requests": {"tflops": "20", "vram": "1Ti"}})
    fleet.pod("w1")
    fleet.keeper.look_now()
    (alert,) = [each for each in fleet.status()["conditions"] if each["type"] == "AlertThresholdReached"]
    assert alert["status"] == "True"
    assert "requests.tflops 0.00" in alert["message"]


def test_which_pods_count(fleet: Fleet) -> None:
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
    fleet.keeper.look_now()
    rows = {row.request_tflops for row in GpuAllocation.objects.exclude(state="released")}
    assert fleet.used() == (20, 3)
    assert rows == {10, 0}


def test_pods_come_and_go_between_looks(fleet: Fleet) -> None:
    fleet.quota(**CAPS)
    fleet.pod("w1")
    fleet.keeper.look_now()
    fleet.pod("w2")
    fleet.remove("w1")
    fleet.keeper.look_now()
    assert fleet.used() == (20, 1)
    assert fleet.status()["used"]["workers"] == 1
    assert verify() == []


def test_a_rebuild_equals_the_ledger_after_a_crash_between_check_and_commit(fleet: Fleet) -> None:
    """Reserved, then everything of ours dies; the pod is bound meanwhile, another one's never comes."""
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    bound = fleet.pod("bound")["metadata"]["uid"]
    for name in (bound, "never-made"):
        _reserve(fleet, name)
    assert fleet.used() == (0, 0)
    reborn = fleet.another_keeper()
    assert {(each.path, each.code) for each in reborn.look_now()} == {(bound, "committed")}
    assert fleet.used() == (20, 1)
    rows = GpuAllocation.objects.filter(state="assumed").values_list("name", flat=True)
    assert list(rows) == ["never-made"], "it is kept until it expires"
    GpuAllocation.objects.filter(state="assumed").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_assumed() == 1
    assert rebuild_from({fleet.backend.pk: fleet.cluster}) == []
    assert verify() == []


def _reserve(fleet: Fleet, name: str) -> None:
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


def test_a_rebuild_keeps_what_people_allocated_and_repairs_the_rest(fleet: Fleet) -> None:
    fleet.pod("w1")
    allocate(actor=SYSTEM, namespace=fleet.namespace, asked=Asked("mine", "", Worker(amounts(1))))
    found = rebuild_from({fleet.backend.pk: fleet.cluster}, only=fleet.namespace)
    assert [each.code for each in found] == ["added"]
    assert fleet.used() == (21, 2)
    uid = found[0].path
    release(actor=SYSTEM, namespace=fleet.namespace, name=uid)
    assert [each.code for each in rebuild_from({fleet.backend.pk: fleet.cluster}, only=fleet.namespace)] == ["added"]


class TestOnTheTwin:
    """What is about our own rows."""

    def test_a_followed_pod_counts_without_a_rebuild(self, twin: Fleet) -> None:
        keeper = twin.keeper
        keeper.look_now()
        unbound = twin.pod("w1", bound=False)
        twin.pod("w2")
        _catch_up(keeper)
        assert twin.used() == (20, 1)
        change: Any = {"metadata": {"annotations": {f"{PREFIX}gpu-ids": "a"}}, "spec": {"nodeName": "n1"}}
        twin.cluster.merge(kinds.POD, "w1", change, owner=SOMEBODY, namespace=twin.namespace)
        _catch_up(keeper)
        assert twin.used() == (40, 2)
        twin.remove("w1")
        _catch_up(keeper)
        assert twin.used() == (20, 1)
        row = GpuAllocation.objects.get(name=unbound["metadata"]["uid"])
        assert (row.state, row.reason) == ("released", "gone")

    def test_a_pod_that_names_its_gpus_again_counts_again(self, twin: Fleet) -> None:
        twin.keeper.look_now()
        twin.pod("w1")
        _catch_up(twin.keeper)
        for gpus, used in (("", (0, 0)), ("a", (20, 1)), ("", (0, 0)), ("a,b", (20, 1))):
            change: Any = {"metadata": {"annotations": {f"{PREFIX}gpu-ids": gpus}}}
            twin.cluster.merge(kinds.POD, "w1", change, owner=SOMEBODY, namespace=twin.namespace)
            _catch_up(twin.keeper)
            assert twin.used() == used

    def test_what_a_pod_does_not_say_is_the_default(self, twin: Fleet) -> None:
        """Judged, followed and rebuilt alike; what was counted stays when the default changes."""
        twin.quota(single={"defaultRequests": {"tflops": "7", "vram": "2Gi"}})
        twin.keeper.look_now()
        twin.pod("w1", tflops_request="", vram_request="1Gi")
        _catch_up(twin.keeper)
        assert twin.used() == (14, 1)
        assert rebuild_from({twin.backend.pk: twin.cluster}) == []
        twin.quota(single={"defaultRequests": {"tflops": "9", "vram": "2Gi"}})
        assert twin.keeper.look_now() == []
        assert twin.used() == (14, 1)
        twin.pod("w2", tflops_request="")
        (added,) = rebuild_from({twin.backend.pk: twin.cluster})
        assert (added.code, added.after["request"]) == ("added", {"tflops": "9", "vram": "1Gi"})
        assert twin.used() == (32, 2)
        assert rebuild_from({twin.backend.pk: twin.cluster}) == []

    def test_what_is_in_line_is_not_locked(self, twin: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
        twin.quota(**CAPS)
        twin.keeper.look_now()
        monkeypatch.setattr(controller, "take_from_cluster", lambda **_: pytest.fail("there was nothing to take"))
        twin.keeper.look_now()

    def test_a_worker_of_a_pod_is_given_back_by_its_cluster_or_the_house(self, twin: Fleet) -> None:
        uid = twin.pod("w1")["metadata"]["uid"]
        twin.keeper.look_now()
        houses.pool("team")
        Pool.objects.filter(name="team").update(config={"gpu_quota_namespace": twin.namespace})
        boss = Actor("boss", roles=frozenset({"osmo-team-admin"}))
        with pytest.raises(Forbidden):
            release(actor=boss, namespace=twin.namespace, name=uid)
        with pytest.raises(Conflict, match="annotations"):
            adjust(actor=boss, namespace=twin.namespace, name=uid, body={"request": {"tflops": "1"}})
        assert twin.used() == (20, 1)
        assert release(actor=SYSTEM, namespace=twin.namespace, name=uid).state == "released"

    def test_a_reservation_goes_with_its_pod(self, twin: Fleet) -> None:
        twin.keeper.look_now()
        uid = twin.pod("w1", bound=False)["metadata"]["uid"]
        _reserve(twin, uid)
        _catch_up(twin.keeper)
        assert GpuAllocation.objects.get().state == "assumed"
        twin.remove("w1")
        _catch_up(twin.keeper)
        assert GpuAllocation.objects.get().state == "released"

    def test_a_write_that_fails_is_made_later(self, twin: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
        twin.quota(**CAPS)
        real = controller._write
        monkeypatch.setattr(controller, "_write", lambda *_: controller.errors.ServerFault("not now"))
        twin.keeper.look_now()
        assert twin.status() == {}
        monkeypatch.setattr(controller, "_write", real)
        twin.keeper.look_now()
        assert twin.ready() == ("True", "QuotaReady")

    def test_pods_alone_are_followed_where_the_cluster_knows_no_quota_objects(self, twin: Fleet) -> None:
        assert isinstance(twin.cluster, Twin)
        twin.cluster.uninstall(kinds.GPU_RESOURCE_QUOTA)
        twin.pod("w1")
        twin.keeper.look_now()
        assert twin.used() == (20, 1)


def test_it_follows_by_itself_until_told_to_stop(fleet: Fleet) -> None:
    """List, watch and write in its own threads; a second one stands by."""
    rhythm = Rhythm(look=0.1, rebuild=3600, standby=0.1)
    keepers = [GpuKeeper(fleet.backend.pk, connect=lambda _: fleet.cluster, rhythm=rhythm) for _ in range(2)]
    stop = threading.Event()
    threads = [threading.Thread(target=keeper.run, args=[stop]) for keeper in keepers]
    for thread in threads:
        thread.start()
    try:
        fleet.quota(**CAPS)
        eventually(lambda: fleet.status() and fleet.ready() == ("True", "QuotaReady"))
        fleet.pod("w1")
        eventually(lambda: fleet.status()["used"]["workers"] == 1)
        fleet.remove("w1")
        eventually(lambda: fleet.status()["used"]["workers"] == 0)
        fleet.quota(total={"maxWorkers": 9})
        eventually(lambda: (shown(fleet.namespace) or {}).get("spec", {}).get("total", {}).get("maxWorkers") == 9)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@contextmanager
def living(keeper: GpuKeeper) -> Iterator[None]:
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


def test_a_lease_of_the_dead_ends_by_itself(twin: Fleet) -> None:
    twin.quota(**CAPS)
    GpuKeeping.objects.create(backend=twin.backend, holder=uuid.uuid4(), held_until=timezone.now() + timedelta(hours=1))
    keeper = GpuKeeper(twin.backend.pk, connect=lambda _: twin.cluster, rhythm=Rhythm(look=0.1, standby=0.1))
    with living(keeper):
        seen = keeper.alive_at
        eventually(lambda: keeper.alive_at > seen)
        assert twin.status() == {}
        GpuKeeping.objects.update(held_until=timezone.now() - timedelta(seconds=1))
        eventually(lambda: twin.status() and twin.ready() == ("True", "QuotaReady"))


def test_a_keeper_that_was_frozen_finds_its_lease_gone(twin: Fleet) -> None:
    twin.quota(**CAPS)
    keeper = GpuKeeper(twin.backend.pk, connect=lambda _: twin.cluster, rhythm=Rhythm(look=0.1, standby=0.1))
    keeper._lease._renew_after = 0.0
    with living(keeper):
        eventually(twin.status)
        GpuKeeping.objects.update(holder=uuid.uuid4(), held_until=timezone.now() + timedelta(hours=1))
        eventually(lambda: not keeper._lease.is_ours())
        twin.quota(total={"maxWorkers": 9})
        for _ in range(3):
            seen = keeper.alive_at
            eventually(lambda seen=seen: keeper.alive_at > seen)  # type: ignore[misc]
        assert (shown(twin.namespace) or {})["spec"]["total"]["maxWorkers"] == 5
        GpuKeeping.objects.update(holder=None, held_until=None)
        eventually(lambda: (shown(twin.namespace) or {})["spec"]["total"].get("maxWorkers") == 9)


def test_a_status_does_not_wait_for_a_long_rebuild(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the pods are still being listed, what people allocate reaches the object."""
    fleet.quota(**CAPS)
    fleet.keeper.look_now()
    begun, on = threading.Event(), threading.Event()

    def slowly(*_: Any) -> list[Any]:
        begun.set()
        assert on.wait(120)
        return []

    monkeypatch.setattr(controller, "rebuild_from", slowly)
    keeper = GpuKeeper(fleet.backend.pk, connect=lambda _: fleet.cluster, rhythm=Rhythm(look=0.1, standby=0.1))
    stop = threading.Event()
    thread = threading.Thread(target=keeper.run, args=[stop])
    thread.start()
    try:
        assert begun.wait(60)
        allocate(actor=SYSTEM, namespace=fleet.namespace, asked=Asked("mine", "", Worker(amounts(1))))
        eventually(lambda: fleet.status()["used"]["workers"] == 1)
        assert not on.is_set()
    finally:
        on.set()
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def test_rebuilding_over_http(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect", lambda _: fleet.cluster)
    fleet.pod("w1")
    client = Client()
    houses.admin()
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


def _catch_up(keeper: controller.GpuKeeper) -> None:
    """What the watch would have told, without its thread; no rebuild is due."""
    keeper._pods.refresh()
    assert keeper.turn() == []
