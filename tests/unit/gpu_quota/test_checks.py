"""The ten rules: at, just below and just above each cap; their order; changes; and a comparison with a naive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.gpu_quota.checks import GpuQuotaSpec, broken_caps, broken_caps_of_change, headroom_for
from pools.domain.gpu_quota.spec import parse_gpu_quota_spec
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker, WorkerTotals, totals_of_worker
from tests.unit.gpu_quota.builders import make_amounts, make_spec, make_totals, make_worker

SINGLE = {
    "single.max.tflops.request": ("maxRequests", "request", "tflops"),
    "single.max.vram.request": ("maxRequests", "request", "vram"),
    "single.max.tflops.limit": ("maxLimits", "limit", "tflops"),
    "single.max.vram.limit": ("maxLimits", "limit", "vram"),
}
TOTAL = {
    "total.max.tflops.request": ("requests", "request", "tflops"),
    "total.max.vram.request": ("requests", "request", "vram"),
    "total.max.tflops.limit": ("limits", "limit", "tflops"),
    "total.max.vram.limit": ("limits", "limit", "vram"),
}
ORDER = [*SINGLE, "single.max.gpuCount.limit", *TOTAL, "total.max.workers.limit"]


def names(found: list[Any]) -> list[str]:
    return [each.resource for each in found]


def one(side: str, resource: str, amount: object, count: int = 1) -> GpuWorker:
    return make_worker(**{side: make_amounts(**{resource: amount})}, count=count)


@pytest.mark.parametrize("rule", SINGLE)
@pytest.mark.parametrize(("amount", "fits"), [("9.999", True), ("10", True), ("10.001", False)])
def test_caps_on_one_worker_are_per_gpu(rule: str, amount: str, fits: bool) -> None:
    group, side, resource = SINGLE[rule]
    quota = make_spec(single={group: {resource: "10"}})
    found = broken_caps(quota, make_totals(), one(side, resource, amount, count=100))
    assert names(found) == ([] if fits else [rule])
    if not fits:
        assert (str(found[0].requested), str(found[0].limit), found[0].used) == ("10.001", "10", None)
        assert not found[0].is_resolvable


@pytest.mark.parametrize("rule", TOTAL)
@pytest.mark.parametrize(("amount", "fits"), [("2.499", True), ("2.5", True), ("2.501", False)])
def test_totals_count_every_gpu_exactly(rule: str, amount: str, fits: bool) -> None:
    group, side, resource = TOTAL[rule]
    quota = make_spec({group: {resource: "20"}})
    have = make_totals(**{group: make_amounts(**{resource: 10})}, workers=1)
    found = broken_caps(quota, have, one(side, resource, amount, count=4))
    assert names(found) == ([] if fits else [rule])
    if not fits:
        assert (str(found[0].requested), str(found[0].limit), str(found[0].used)) == ("10004m", "20", "10")
        assert found[0].is_resolvable


@pytest.mark.parametrize(("count", "fits"), [(7, True), (8, True), (9, False)])
def test_gpus_of_one_worker(count: int, fits: bool) -> None:
    found = broken_caps(make_spec(single={"maxGPUCount": 8}), make_totals(), make_worker(count=count))
    assert names(found) == ([] if fits else ["single.max.gpuCount.limit"])
    if not fits:
        assert (found[0].requested, found[0].limit, found[0].is_resolvable) == (9, 8, False)


@pytest.mark.parametrize(("have", "fits"), [(48, True), (49, True), (50, False), (60, False)])
def test_a_worker_counts_once_whatever_its_gpus(have: int, fits: bool) -> None:
    found = broken_caps(make_spec({"maxWorkers": 50}), make_totals(workers=have), make_worker(count=8))
    assert names(found) == ([] if fits else ["total.max.workers.limit"])
    if not fits:
        assert (found[0].requested, found[0].limit, found[0].used, found[0].is_resolvable) == (1, 50, have, True)


def test_zero_means_nothing_for_totals_and_no_cap_for_one_worker() -> None:
    huge = make_worker(make_amounts("1E", "1E"), make_amounts("1E", "1E"))
    none = {"tflops": "0", "vram": "0"}
    assert broken_caps(make_spec(single={"maxRequests": none, "maxLimits": none}), make_totals(), huge) == []
    assert names(broken_caps(make_spec({"requests": none, "limits": none}), make_totals(), huge)) == list(TOTAL)
    assert broken_caps(make_spec({"requests": none, "limits": none}), make_totals(), make_worker()) == []
    assert names(broken_caps(make_spec({"maxWorkers": 0}, {"maxGPUCount": 0}), make_totals(), make_worker())) == [
        "single.max.gpuCount.limit",
        "total.max.workers.limit",
    ]


def test_everything_that_breaks_is_said_in_the_order_of_the_checks() -> None:
    small = {"tflops": "1", "vram": "1"}
    quota = make_spec(
        {"requests": small, "limits": small, "maxWorkers": 0},
        {"maxRequests": small, "maxLimits": small, "maxGPUCount": 1},
    )
    assert names(broken_caps(quota, make_totals(), make_worker(make_amounts(2, 2), make_amounts(2, 2), 2))) == ORDER


def test_the_refusal_in_words() -> None:
    quota = make_spec({"requests": {"tflops": "50"}})
    found = broken_caps(quota, make_totals(make_amounts(45), workers=5), one("request", "tflops", 10))[0]
    body = found.as_violation("team-a").as_dict()
    assert body == {
        "path": "request.tflops",
        "code": "total.max.tflops.request",
        "message": "quota exceeded in namespace team-a for total.max.tflops.request: requested 10, limit 50, used 45",
        "namespace": "team-a",
        "requested": "10",
        "limit": "50",
        "used": "45",
        "resolvable": True,
    }


def test_defaults_replace_zero() -> None:
    quota = make_spec(single={"defaultRequests": {"tflops": "5", "vram": "1Gi"}, "defaultLimits": {"tflops": "9"}})
    filled = quota.with_defaults(make_worker(make_amounts(0, "2Gi"), make_amounts(), 3))
    assert filled.is_same_size(make_worker(make_amounts(5, "2Gi"), make_amounts(9), 3))


def test_only_increased_amounts_of_a_change_are_checked() -> None:
    quota = make_spec({"requests": {"tflops": "100", "vram": "100"}}, {"maxRequests": {"tflops": "30"}})
    old = make_worker(make_amounts(20, 20), count=2)
    over = make_totals(make_amounts(120, 100), workers=3)  # the cap on tflops was reduced below the usage
    assert broken_caps_of_change(quota, over, old, make_worker(make_amounts(10, 20), count=2)) == []
    assert broken_caps_of_change(quota, over, old, make_worker(make_amounts(20, 20), count=2)) == []
    grown = broken_caps_of_change(quota, over, old, make_worker(make_amounts(21, "20.001"), count=2))
    assert [(each.resource, str(each.requested), str(each.used)) for each in grown] == [
        ("total.max.tflops.request", "42", "120"),
        ("total.max.vram.request", "40002m", "100"),
    ]
    assert names(
        broken_caps_of_change(
            quota, make_totals(make_amounts(40, 40)), old, make_worker(make_amounts("30.001", 20), count=2)
        )
    ) == ["single.max.tflops.request"]
    exactly = make_worker(make_amounts(30, 50), count=2)
    assert broken_caps_of_change(quota, make_totals(make_amounts(80, 40)), old, exactly) == []


def test_a_change_adds_no_worker() -> None:
    full = make_totals(make_amounts(1), workers=5)
    assert (
        broken_caps_of_change(
            make_spec({"maxWorkers": 3}), full, make_worker(make_amounts(1)), make_worker(make_amounts(2))
        )
        == []
    )


TFLOPS, WORKERS = "total.max.tflops.request", "total.max.workers.limit"


@pytest.mark.parametrize(
    ("total", "single", "used", "worker", "fits", "why"),
    [
        ({}, {}, make_totals(), make_worker(make_amounts(1)), None, []),
        ({"requests": {"tflops": "50"}}, {}, make_totals(make_amounts(10)), make_worker(make_amounts(10)), 4, [TFLOPS]),
        ({"requests": {"tflops": "50"}}, {}, make_totals(make_amounts(11)), make_worker(make_amounts(10)), 3, [TFLOPS]),
        ({"requests": {"tflops": "5"}}, {}, make_totals(make_amounts(9)), make_worker(make_amounts(1)), 0, [TFLOPS]),
        ({"requests": {"tflops": "5"}}, {}, make_totals(make_amounts(9)), make_worker(), 0, [TFLOPS]),
        ({"requests": {"tflops": "5"}}, {}, make_totals(), make_worker(), None, []),
        ({"maxWorkers": 7}, {}, make_totals(workers=5), make_worker(count=8), 2, [WORKERS]),
        ({"maxWorkers": 7}, {}, make_totals(workers=9), make_worker(), 0, [WORKERS]),
        ({}, {"maxGPUCount": 4}, make_totals(), make_worker(count=8), 0, ["single.max.gpuCount.limit"]),
    ],
)
def test_how_many_more_fit(
    total: Any, single: Any, used: WorkerTotals, worker: GpuWorker, fits: int | None, why: list[str]
) -> None:
    found, stopped_by = headroom_for(make_spec(total, single), used, worker)
    assert (found, names(list(stopped_by))) == (fits, why)


milli = st.integers(0, 30).map(lambda n: f"{n * 100}m")
cap = st.none() | milli
some = st.builds(make_amounts, milli, milli)
workers = st.builds(GpuWorker, some, some, st.integers(1, 3))


@st.composite
def quotas(draw: Any) -> GpuQuotaSpec:
    def pair() -> dict[str, Any]:
        return {"tflops": draw(cap), "vram": draw(cap)}

    requests, limits = pair(), pair()
    for key in requests:
        if draw(st.booleans()):
            limits[key] = None
    total = {"requests": requests, "limits": limits, "maxWorkers": draw(st.none() | st.integers(0, 4))}
    single = {"maxRequests": pair(), "maxLimits": pair(), "maxGPUCount": draw(st.none() | st.integers(0, 4))}
    body = {"total": total, "single": single}
    return parse_gpu_quota_spec(body)[0]


def naive(quota: GpuQuotaSpec, workers: list[GpuWorker], worker: GpuWorker) -> set[str]:
    """The order of the checks (design, G3), one line for each row, over the list of workers itself."""

    def value(found: GpuAmounts, resource: str) -> int:
        return found.of(resource).milli

    broken = set()
    for rule, (group, side, resource) in SINGLE.items():
        single = (quota.max_requests if group == "maxRequests" else quota.max_limits).of(resource)
        if single is not None and single.milli != 0 and value(getattr(worker, side), resource) > single.milli:
            broken.add(rule)
    if quota.max_gpu_count is not None and worker.count > quota.max_gpu_count:
        broken.add("single.max.gpuCount.limit")
    for rule, (group, side, resource) in TOTAL.items():
        total = quota.total_caps(group).of(resource)
        together = sum(value(getattr(each, side), resource) * each.count for each in [*workers, worker])
        if total is not None and together > total.milli:
            broken.add(rule)
    if quota.max_workers is not None and len(workers) + 1 > quota.max_workers:
        broken.add("total.max.workers.limit")
    return broken


@given(quotas(), st.lists(workers, max_size=6), workers)
def test_the_checks_equal_a_naive_model(quota: GpuQuotaSpec, before: list[GpuWorker], worker: GpuWorker) -> None:
    workers: list[GpuWorker] = []
    used = WorkerTotals()
    for each in before:
        if not broken_caps(quota, used, each):
            workers.append(each)
            used += totals_of_worker(each)
    found = names(broken_caps(quota, used, worker))
    assert set(found) == naive(quota, workers, worker)
    assert found == [rule for rule in ORDER if rule in set(found)]
    assert used.workers == len(workers)
    fits, _ = headroom_for(quota, used, worker)
    assert (fits == 0) is bool(found)


@given(quotas(), st.lists(workers, min_size=1, max_size=5), some, some)
def test_a_change_is_judged_as_the_naive_model_does_where_it_grows(
    quota: GpuQuotaSpec, workers: list[GpuWorker], request: GpuAmounts, limit: GpuAmounts
) -> None:
    old, rest = workers[0], workers[1:]
    used = WorkerTotals()
    for each in workers:
        used += totals_of_worker(each)
    new = GpuWorker(request, limit, old.count)
    grows = {
        f"{scope}.max.{resource}.{side}"
        for scope in ("single", "total")
        for side in ("request", "limit")
        for resource in ("tflops", "vram")
        if getattr(new, side).of(resource).milli > getattr(old, side).of(resource).milli
    }
    assert set(names(broken_caps_of_change(quota, used, old, new))) == naive(quota, rest, new) & grows


def test_the_difference_of_totals_is_never_below_zero() -> None:
    worker = make_worker(request=make_amounts(tflops=5), limit=make_amounts(tflops=6))
    one, three = (
        totals_of_worker(worker),
        totals_of_worker(worker) + totals_of_worker(worker) + totals_of_worker(worker),
    )
    left = three.minus(one)
    assert (left.workers, left) == (2, one + one)
    assert one.minus(three) == WorkerTotals()
