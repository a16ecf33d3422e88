"""Short words for quotas, workers and what is used."""

from __future__ import annotations

from typing import Any

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.spec import parse_spec
from pools.domain.gpu_quota.workers import Amounts, Held, Worker
from pools.domain.quantities import parse_quantity


def spec(total: dict[str, Any] | None = None, single: dict[str, Any] | None = None) -> GpuQuotaSpec:
    found, faults = parse_spec({"total": total, "single": single})
    assert not faults
    return found


def amounts(tflops: object = 0, vram: object = 0) -> Amounts:
    return Amounts(parse_quantity(tflops), parse_quantity(vram))


NOTHING = amounts()


def worker(request: Amounts = NOTHING, limit: Amounts = NOTHING, count: int = 1) -> Worker:
    return Worker(request, limit, count)


def held(requests: Amounts = NOTHING, limits: Amounts = NOTHING, workers: int = 0) -> Held:
    return Held(requests, limits, workers)
