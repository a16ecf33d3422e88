"""Rebuilding from pods: pods replace the recorded pods, other allocations stay, counters are recounted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.database.transactions import database_time
from pools.domain.changes.gpu_allocations import AllocateWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.gpu_quota.workers import GpuWorker
from pools.models import GpuAllocation, GpuUsage
from pools.services.gpu_quota.gpu_rebuild import (
    GpuRepair,
    GpuRepairAnswer,
    PodWorker,
    apply_pod_changes,
    rebuild_gpu_usage,
)
from scheduling.services.verify import verify
from tests.support import world
from tests.support.shapes import assert_has_shape
from tests.unit.gpu_quota.builders import make_amounts

pytestmark = pytest.mark.django_db
ONE = GpuWorker(make_amounts(10, "1Gi"), make_amounts(20, "2Gi"), 2)


@pytest.fixture
def cluster_id() -> int:
    return world.make_backend("k").pk


def pod_worker(cluster_id: int, uid: str, namespace: str = "ns", worker: GpuWorker = ONE) -> PodWorker:
    return PodWorker(namespace, uid, "infer", worker, cluster_id)


def repair_keys(repairs: list[GpuRepair]) -> list[tuple[str, str, str]]:
    for each in repairs:
        assert_has_shape(each.as_dict(), GpuRepairAnswer)
    return [(each.namespace, each.path, each.code) for each in repairs]


def rebuild(
    cluster_id: int, *pods: PodWorker, since: Any = None, only: str | None = None
) -> list[tuple[str, str, str]]:
    return repair_keys(rebuild_gpu_usage(pods, {cluster_id: since or database_time()}, only))


def live_names(namespace: str = "ns") -> set[str]:
    rows = GpuAllocation.objects.filter(namespace=namespace).exclude(state="released")
    return set(rows.values_list("name", flat=True))


def test_new_unchanged_changed_and_deleted_pods(cluster_id: int) -> None:
    assert rebuild(cluster_id, pod_worker(cluster_id, "a"), pod_worker(cluster_id, "b", "other")) == [
        ("ns", "a", "added"),
        ("other", "b", "added"),
    ]
    assert GpuUsage.objects.get(pk="ns").requests_tflops == 20
    assert rebuild(cluster_id, pod_worker(cluster_id, "a"), pod_worker(cluster_id, "b", "other")) == []
    bigger = GpuWorker(make_amounts(11, "1Gi"), make_amounts(20, "2Gi"), 2)
    assert rebuild(cluster_id, pod_worker(cluster_id, "a", worker=bigger)) == [
        ("ns", "a", "changed"),
        ("other", "b", "removed"),
    ]
    assert (GpuUsage.objects.get(pk="ns").requests_tflops, GpuUsage.objects.get(pk="other").workers) == (22, 0)


def test_allocations_of_the_api_and_of_workflows_stay(cluster_id: int) -> None:
    world.apply_change(AllocateWorker(namespace="ns", id="mine", request=ONE.request, limit=ONE.limit, count=ONE.count))
    assert rebuild(cluster_id) == []
    assert live_names() == {"mine"}


def test_workers_over_quota_stay(cluster_id: int) -> None:
    world.apply_change(PutGpuQuota(namespace="ns", spec={"total": {"maxWorkers": 1}}))
    rebuild(cluster_id, pod_worker(cluster_id, "a"), pod_worker(cluster_id, "b"))
    assert GpuUsage.objects.get(pk="ns").workers == 2
    from pools.representations.gpu_quota import current_gpu_quota_body

    body = current_gpu_quota_body("ns")
    assert body is not None
    assert body["status"]["conditions"][1]["status"] == "True"


def test_one_namespace_alone(cluster_id: int) -> None:
    assert rebuild(cluster_id, pod_worker(cluster_id, "a"), pod_worker(cluster_id, "b", "other"), only="other") == [
        ("other", "b", "added")
    ]


def test_a_reservation_becomes_a_worker_once_its_pod_is_bound(cluster_id: int) -> None:
    GpuAllocation.objects.create(
        namespace="ns",
        name="a",
        source="pod",
        state="assumed",
        expires_at=timezone.now() + timedelta(minutes=5),
        backend_id=cluster_id,
        count=1,
    )
    assert rebuild(cluster_id) == [], "not yet bound: it waits for its pod"
    assert rebuild(cluster_id, pod_worker(cluster_id, "a")) == [("ns", "a", "committed"), ("ns", "a", "changed")]
    usage = GpuUsage.objects.get(pk="ns")
    assert (usage.workers, usage.assumed_workers) == (1, 0)


def test_rows_changed_after_the_list_began_stay(cluster_id: int) -> None:
    """After the list began a pod was bound and another one released; the list contains neither change."""
    rebuild(cluster_id, pod_worker(cluster_id, "old"))
    before = database_time()
    rebuild(cluster_id, pod_worker(cluster_id, "old"), pod_worker(cluster_id, "new"))
    world.apply_change(ReleaseWorker(namespace="ns", id="old"))
    assert rebuild(cluster_id, pod_worker(cluster_id, "old"), since=before) == []
    assert live_names() == {"new"}


def test_an_older_list_does_not_undo_later_events(cluster_id: int) -> None:
    rebuild(cluster_id, pod_worker(cluster_id, "a"))
    before = database_time()
    bigger = GpuWorker(make_amounts(30, "1Gi"), make_amounts(30, "2Gi"), 2)
    apply_pod_changes(cluster_id, [pod_worker(cluster_id, "a", worker=bigger)])
    assert rebuild(cluster_id, pod_worker(cluster_id, "a"), since=before) == []
    assert GpuUsage.objects.get(pk="ns").requests_tflops == 60
    assert rebuild(cluster_id, pod_worker(cluster_id, "a")) == [("ns", "a", "changed")]


def test_other_clusters_are_not_touched(cluster_id: int) -> None:
    other = world.make_backend("k2").pk
    rebuild(cluster_id, pod_worker(cluster_id, "a"))
    assert rebuild(other) == []
    assert live_names() == {"a"}


def test_a_wrong_counter_is_recounted_and_reported(cluster_id: int) -> None:
    world.apply_change(AllocateWorker(namespace="ns", id="mine", request=ONE.request, limit=ONE.limit, count=ONE.count))
    with world.triggers_off():
        GpuUsage.objects.update(workers=9, limits_vram=0.5)
    assert [difference.code for difference in verify()] == ["gpu_usage"] * 2
    found = rebuild_gpu_usage([], {})
    assert verify() == []
    assert sorted(repair_keys(found)) == [("ns", "limits_vram", "recounted"), ("ns", "workers", "recounted")]
    assert found[0].as_dict()["message"]
    usage = GpuUsage.objects.get(pk="ns")
    assert (usage.workers, usage.limits_vram) == (1, 2 * 2**31)
    assert rebuild_gpu_usage([], {}) == []
