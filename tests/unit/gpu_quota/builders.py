"""Short functions for quotas, workers and usage."""

from __future__ import annotations

from typing import Any

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.spec import parse_gpu_quota_spec
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker, WorkerTotals
from pools.domain.values.quantities import parse_quantity


def make_spec(total: dict[str, Any] | None = None, single: dict[str, Any] | None = None) -> GpuQuotaSpec:
    found, faults = parse_gpu_quota_spec({"total": total, "single": single})
    assert not faults
    return found


def make_amounts(tflops: object = 0, vram: object = 0) -> GpuAmounts:
    return GpuAmounts(parse_quantity(tflops), parse_quantity(vram))


ZERO_AMOUNTS = make_amounts()


def make_worker(request: GpuAmounts = ZERO_AMOUNTS, limit: GpuAmounts = ZERO_AMOUNTS, count: int = 1) -> GpuWorker:
    return GpuWorker(request, limit, count)


def make_totals(
    requests: GpuAmounts = ZERO_AMOUNTS, limits: GpuAmounts = ZERO_AMOUNTS, workers: int = 0
) -> WorkerTotals:
    return WorkerTotals(requests, limits, workers)
