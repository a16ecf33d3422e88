"""How workflows meet GPU quota: a pool names its namespace, a platform says what one of its GPUs is worth.

A pool that names no namespace is bound by no GPU quota; a platform that says nothing counts its workers but no amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pools.domain.gpu_quota.spec import namespace_violations
from pools.domain.gpu_quota.workers import GpuAmounts, GpuWorker, read_quantity
from pools.domain.quantities import ZERO, parse_quantity
from pools.domain.structured_input.fields import FieldReader

GPU_NAMESPACE = "gpu_quota_namespace"
"""The key of a pool's configuration."""

GPU_TFLOPS, GPU_VRAM = "gpu_tflops", "gpu_vram"
"""The keys of a platform, each a quantity for one GPU."""


def parse_gpu_namespace(pool: FieldReader) -> str:
    """The namespace of a pool's configuration; empty when it names none."""
    name = pool.read_text(GPU_NAMESPACE)
    if name:
        pool.faults.extend(replace(fault, path=pool.path_of(GPU_NAMESPACE)) for fault in namespace_violations(name))
    return name


def parse_gpu_capacity(platform: FieldReader) -> dict[str, str]:
    """The worth of one GPU of a platform, as it was typed."""
    found = {key: read_quantity(platform, key) for key in (GPU_TFLOPS, GPU_VRAM)}
    return {key: str(amount) for key, amount in found.items() if amount is not None and amount.milli}


def gpu_namespace_of(config: Mapping[str, Any]) -> str:
    """The namespace that a kept pool configuration names; empty when it names none."""
    return str(config.get(GPU_NAMESPACE) or "")


def worker_for_task(platform: Mapping[str, Any], gpus: int) -> GpuWorker:
    """What a task with so many GPUs of a platform asks for: the GPUs' whole worth, as request and as limit."""
    each = GpuAmounts(*(parse_quantity(platform[key]) if key in platform else ZERO for key in (GPU_TFLOPS, GPU_VRAM)))
    return GpuWorker(each, each, gpus)
