"""Worker pods that were there before the webhook, with annotations that cannot be read: they cannot be refused, so they
count, and the quota says what is not counted."""

from __future__ import annotations

from typing import Any

from pools.models import GpuAllocation
from scheduling.kube.connection import resource_kinds
from tests.integration.gpu_cluster.conftest import PREFIX, GpuClusterHarness


def read_condition(harness: GpuClusterHarness) -> dict[str, Any] | None:
    found = [each for each in harness.status()["conditions"] if each["type"] == "UncountedAmounts"]
    return found[0] if found else None


def test_an_unreadable_amount_counts_as_the_default_and_is_a_condition(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(
        total={"requests": {"tflops": "100", "vram": "10Gi"}},
        single={"defaultRequests": {"tflops": "3", "vram": "1Gi"}},
    )
    gpu_cluster.pod("w1", tflops_request="banana", labels={f"{PREFIX}workload": "odd"})
    gpu_cluster.pod("w2")
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.used() == (2 * 3 + 20, 2)
    condition = read_condition(gpu_cluster)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "UnreadableAnnotations")
    assert "odd (tflops-request)" in condition["message"]
    assert "banana" not in condition["message"]
    gpu_cluster.remove("w1")
    gpu_cluster.controller.relist_and_reconcile()
    assert read_condition(gpu_cluster) is None


def test_an_unreadable_number_counts_the_gpus_that_the_pod_has(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(total={"requests": {"tflops": "100", "vram": "10Gi"}})
    gpu_cluster.pod("w1", gpu_count="many", gpu_ids="a,b,c")
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.used() == (30, 1)
    condition = read_condition(gpu_cluster)
    assert condition is not None
    assert "(gpu-count)" in condition["message"]


def test_of_two_ways_the_tflops_count(gpu_cluster: GpuClusterHarness) -> None:
    gpu_cluster.quota(total={"requests": {"tflops": "100", "vram": "10Gi"}})
    gpu_cluster.pod("w1", compute_percent_request="50")
    gpu_cluster.controller.relist_and_reconcile()
    assert gpu_cluster.used() == (20, 1)
    assert str(GpuAllocation.objects.get(namespace=gpu_cluster.namespace).request_vram) == "1073741824.000"
    condition = read_condition(gpu_cluster)
    assert condition is not None
    assert "(compute-percent-request)" in condition["message"]


def test_a_correction_ends_the_condition(fake_gpu_cluster: GpuClusterHarness) -> None:
    harness = fake_gpu_cluster
    harness.quota(total={"requests": {"tflops": "100", "vram": "10Gi"}})
    harness.pod("w1", tflops_request="banana")
    harness.controller.relist_and_reconcile()
    assert GpuAllocation.objects.get().uncounted == "tflops-request"
    body = {"metadata": {"annotations": {f"{PREFIX}tflops-request": "7"}}}
    harness.cluster.merge(resource_kinds.POD, "w1", body, field_manager="somebody", namespace=harness.namespace)
    harness.controller.relist_and_reconcile()
    assert harness.used() == (14, 1)
    assert read_condition(harness) is None
    assert GpuAllocation.objects.get().uncounted == ""
