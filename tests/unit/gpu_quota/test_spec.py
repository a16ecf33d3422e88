"""The JSON of a quota: every fault at once, and quantities written as they were typed."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.command import ChangeCommand, read_command
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker
from pools.domain.errors import BadInput
from pools.domain.gpu_quota.spec import gpu_quota_spec_body, namespace_violations, parse_gpu_quota_spec
from pools.domain.gpu_quota.workers import GpuWorker
from tests.unit.gpu_quota.builders import make_amounts

SEED = {
    "total": {
        "requests": {"tflops": "1000", "vram": "100Gi"},
        "limits": {"tflops": "2000", "vram": "200Gi"},
        "maxWorkers": 50,
        "alertThresholdPercent": 95,
    },
    "single": {
        "maxRequests": {"tflops": "100", "vram": "16Gi"},
        "maxLimits": {"tflops": "200", "vram": "32Gi"},
        "maxGPUCount": 8,
        "defaultRequests": {"tflops": "10", "vram": "1Gi"},
        "defaultLimits": {"tflops": "20", "vram": "1024Mi"},
    },
}


def codes(body: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in parse_gpu_quota_spec(body)[1]]


def test_the_seeds_own_spec_comes_back_as_it_was_typed() -> None:
    found, faults = parse_gpu_quota_spec(SEED)
    assert not faults
    assert gpu_quota_spec_body(found) == SEED


def test_nothing_said_is_nothing_checked() -> None:
    for body in ({}, {"total": None}, {"total": {}, "single": {}}, {"total": {"requests": {"tflops": None}}}):
        found, faults = parse_gpu_quota_spec(body)
        assert not faults
        assert gpu_quota_spec_body(found) == {"total": {"alertThresholdPercent": 95}}


def test_numbers_and_zero_are_kept() -> None:
    found, faults = parse_gpu_quota_spec({"total": {"requests": {"tflops": 50, "vram": 0}, "maxWorkers": 0}})
    assert not faults
    assert gpu_quota_spec_body(found)["total"] == {
        "requests": {"tflops": "50", "vram": "0"},
        "maxWorkers": 0,
        "alertThresholdPercent": 95,
    }


def test_all_faults_at_once() -> None:
    body = {
        "total": {
            "requests": {"tflops": "-1", "vram": "1 Gi", "compute": "50"},
            "limits": {"tflops": "1e3Ki", "vram": ""},
            "maxWorkers": -1,
            "alertThresholdPercent": 101,
        },
        "single": {"maxRequests": {"tflops": "1n"}, "maxLimits": [], "maxGPUCount": "8", "max_gpu_count": 8},
        "totals": {},
    }
    assert sorted(codes(body)) == sorted(
        [
            ("spec.totals", "unknown_key"),
            ("spec.total.requests.compute", "unknown_key"),
            ("spec.total.requests.tflops", "negative"),
            ("spec.total.requests.vram", "bad_value"),
            ("spec.total.limits.tflops", "bad_value"),
            ("spec.total.limits.vram", "bad_value"),
            ("spec.total.maxWorkers", "negative"),
            ("spec.total.alertThresholdPercent", "bad_value"),
            ("spec.single.max_gpu_count", "unknown_key"),
            ("spec.single.maxRequests.tflops", "too_fine"),
            ("spec.single.maxLimits", "bad_value"),
            ("spec.single.maxGPUCount", "bad_value"),
        ]
    )


def test_the_message_about_the_threshold_has_its_bounds() -> None:
    _, faults = parse_gpu_quota_spec({"total": {"alertThresholdPercent": 101}})
    assert "must be between 0 and 100." in faults[0].message


@pytest.mark.parametrize(
    ("request_", "limit", "good"),
    [("10", "9.999", False), ("10", "10", True), ("0", "1", True), ("10", "0", True), ("1Gi", "1G", False)],
)
def test_a_limit_holds_its_request(request_: str, limit: str, good: bool) -> None:
    for resource in ("tflops", "vram"):
        found = codes({"total": {"requests": {resource: request_}, "limits": {resource: limit}}})
        assert found == ([] if good else [(f"spec.total.limits.{resource}", "limit_below_request")])


@pytest.mark.parametrize("threshold", [0, 95, 100])
def test_thresholds(threshold: int) -> None:
    assert codes({"total": {"alertThresholdPercent": threshold}}) == []


@pytest.mark.parametrize("body", [None, [], "x", 1, True])
def test_a_spec_is_an_object(body: Any) -> None:
    assert codes(body) == [("spec", "bad_value")]


@pytest.mark.parametrize(
    ("name", "good"),
    [("a", True), ("team-a", True), ("0", True), ("a" * 63, True)]
    + [(bad, False) for bad in ("", "A", "a_b", "-a", "a-", "a.b", "a" * 64, "a\n")],
)
def test_namespaces(name: str, good: bool) -> None:
    assert (namespace_violations(name) == []) is good


NS = {"namespace": "team-a"}


def faults_of(kind: type[ChangeCommand], body: dict[str, Any]) -> list[tuple[str, str]]:
    address = NS if kind is AllocateWorker else NS | {"id": "w"}
    try:
        read_command(kind, body, address)
    except BadInput as refusal:
        return [(fault.path, fault.code) for fault in refusal.details]
    return []


def test_an_allocation() -> None:
    allocation = read_command(
        AllocateWorker,
        {"id": "w-1", "workload": "team/infer", "request": {"tflops": 10, "vram": "1Gi"}, "count": 2},
        NS,
    )
    assert (allocation.id, allocation.workload) == ("w-1", "team/infer")
    assert allocation.worker.is_same_size(GpuWorker(make_amounts(10, "1Gi"), make_amounts(), 2))


def test_all_faults_of_an_allocation_at_once() -> None:
    faults = faults_of(
        AllocateWorker,
        {
            "id": "a/b",
            "workload": "x" * 254,
            "request": {"tflops": "-1", "compute": 5},
            "limit": 7,
            "count": 129,
            "gpu": 1,
        },
    )
    assert sorted(faults) == [
        ("count", "too_large"),
        ("gpu", "unknown_key"),
        ("id", "bad_value"),
        ("limit", "bad_value"),
        ("request.compute", "unknown_key"),
        ("request.tflops", "negative"),
        ("workload", "bad_value"),
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [({}, "missing"), *(({"id": name}, "bad_value") for name in (1, "", " a", "a" * 254))],
)
def test_an_allocation_is_named(body: dict[str, Any], code: str) -> None:
    assert faults_of(AllocateWorker, body) == [("id", code)]


@pytest.mark.parametrize(
    ("count", "good"), [(0, False), (1, True), (128, True), (129, False), (1.5, False), (True, False)]
)
def test_gpus_of_an_allocation(count: object, good: bool) -> None:
    assert (faults_of(AllocateWorker, {"id": "a", "count": count}) == []) is good


def test_a_change_keeps_absent_amounts() -> None:
    before = GpuWorker(make_amounts(10, "1Gi"), make_amounts(20, "2Gi"), 3)
    after = read_command(AdjustWorker, {"request": {"tflops": "11"}}, NS | {"id": "w"}).changed(before)
    assert after.is_same_size(GpuWorker(make_amounts(11, "1Gi"), make_amounts(20, "2Gi"), 3))
    assert faults_of(AdjustWorker, {}) == [("request", "missing")]
    assert faults_of(AdjustWorker, {"count": 2}) == [("count", "unknown_key")]
