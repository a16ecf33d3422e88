"""GPU quota of workflows: a pool names its namespace, a platform the capacity of one of its GPUs.

A pool without a namespace is under no GPU quota. For a platform without capacities, workers count but have no amounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pools.domain.gpu_quota.spec import namespace_violations
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker, read_quantity
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.quantities import ZERO, parse_quantity

GPU_NAMESPACE = "gpu_quota_namespace"
"""The key of a pool's configuration."""

GPU_TFLOPS, GPU_VRAM = "gpu_tflops", "gpu_vram"
"""The keys of a platform, each a quantity for one GPU."""


def parse_gpu_namespace(pool: FieldReader) -> str:
    """The namespace in the configuration of a pool; empty if it names none."""
    name = pool.read_text(GPU_NAMESPACE)
    if name:
        pool.faults.extend(replace(fault, path=pool.path_of(GPU_NAMESPACE)) for fault in namespace_violations(name))
    return name


def parse_gpu_capacity(platform: FieldReader) -> dict[str, str]:
    """The capacity of one GPU of a platform, as it was typed."""
    found = {key: read_quantity(platform, key) for key in (GPU_TFLOPS, GPU_VRAM)}
    return {key: str(amount) for key, amount in found.items() if amount is not None and amount.milli}


def gpu_namespace_of(config: Mapping[str, Any]) -> str:
    """The namespace in a stored pool configuration; empty if it names none."""
    return str(config.get(GPU_NAMESPACE) or "")


def worker_for_task(platform: Mapping[str, Any], gpus: int) -> GpuWorker:
    """The worker of a task with this number of GPUs of a platform: it requests the whole GPUs, as request and as
    limit."""
    each = GpuAmounts(*(parse_quantity(platform[key]) if key in platform else ZERO for key in (GPU_TFLOPS, GPU_VRAM)))
    return GpuWorker(each, each, gpus)
