"""A week of use of the namespaces with GPU quota: services that grow by day and shrink by night."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from pools.models import GpuUsage, GpuUsageSample

_COLUMNS = ("requests_tflops", "requests_vram", "limits_tflops", "limits_vram", "workers")
STEP = timedelta(minutes=30)


def write_gpu_quota_week(now: datetime) -> None:
    """Samples of the last week that end with what the workers hold now."""
    samples = []
    for usage in GpuUsage.objects.all():
        last = None
        for number in range(7 * 48, -1, -1):
            at = now - number * STEP
            share = 1.0 if number == 0 else _share(at)
            workers = max(1, round(usage.workers * share))
            if workers != last:
                amounts = {name: getattr(usage, name) * workers // usage.workers for name in _COLUMNS}
                samples.append(GpuUsageSample(namespace=usage.namespace, at=at, **amounts))
            last = workers
    GpuUsageSample.objects.bulk_create(samples)


def _share(at: datetime) -> float:
    """The part of the workers that run at this time: most in the afternoon of a working day."""
    hour = at.hour + at.minute / 60
    day = math.exp(-(((hour - 14.5) / 5) ** 2))
    return 0.45 + (0.5 if at.weekday() < 5 else 0.25) * day
