"""Whether one more worker may begin in a namespace, and if not, every cap that says no, in the order of the checks.

Caps on one worker are per GPU and final: waiting cannot help. Caps on the namespace's total may clear. Exactly at a cap
is allowed. Arithmetic is exact, in thousandths; nothing is rounded up (decision D14).
Source: tensorfusion-quota.md, sections 2, 3, 4 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pools.domain.errors import Violation
from pools.domain.gpu_quota.workers import (
    NO_AMOUNTS,
    RESOURCES,
    SIDES,
    GpuAmounts,
    GpuWorker,
    WorkerTotals,
    totals_of_worker,
    totals_of_workers,
)
from pools.domain.quantities import ZERO, Quantity

DEFAULT_THRESHOLD = 95
TOTALS = tuple((side, resource) for side in SIDES for resource in RESOURCES)
"""The totals in the order of their checks."""

GPU_COUNT = "single.max.gpuCount.limit"
SINGLE_RULES = (*(f"single.max.{resource}.{side.removesuffix('s')}" for side, resource in TOTALS), GPU_COUNT)
"""The caps on one worker in the order of their checks."""


@dataclass(frozen=True, slots=True)
class ResourceCaps:
    """Caps on compute and memory; None is no cap."""

    tflops: Quantity | None = None
    vram: Quantity | None = None

    def of(self, resource: str) -> Quantity | None:
        """The cap on `tflops` or `vram`."""
        return self.tflops if resource == "tflops" else self.vram


@dataclass(frozen=True, slots=True)
class GpuQuotaSpec:
    """What one namespace may hold.

    A total cap of zero allows nothing, a cap of zero on one worker is none; 0 GPUs and 0 workers allow none.
    """

    requests: ResourceCaps = ResourceCaps()
    limits: ResourceCaps = ResourceCaps()
    max_workers: int | None = None
    threshold: int = DEFAULT_THRESHOLD
    max_requests: ResourceCaps = ResourceCaps()
    max_limits: ResourceCaps = ResourceCaps()
    max_gpu_count: int | None = None
    default_requests: GpuAmounts = NO_AMOUNTS
    default_limits: GpuAmounts = NO_AMOUNTS

    def total_caps(self, side: str) -> ResourceCaps:
        """The caps on the sum of `requests` or of `limits`."""
        return self.requests if side == "requests" else self.limits

    def with_defaults(self, worker: GpuWorker) -> GpuWorker:
        """The worker with the namespace's defaults where it asks for nothing."""
        return worker.or_else(GpuWorker(self.default_requests, self.default_limits))


@dataclass(frozen=True, slots=True)
class BrokenCap:
    """One cap that a worker breaks. Counts (GPUs, workers) are integers. `used` counts what is reserved, too; it is
    None for a cap on one worker."""

    resource: str
    path: str
    requested: Quantity | int
    limit: Quantity | int
    used: Quantity | int | None = None

    @property
    def is_resolvable(self) -> bool:
        """Whether waiting can help."""
        return self.used is not None

    def refusal_text(self, namespace: str) -> str:
        """The refusal in the words of the reference."""
        return (
            f"quota exceeded in namespace {namespace} for {self.resource}: "
            f"requested {self.requested}, limit {self.limit}"
        )

    def refusal_text_with_usage(self, namespace: str) -> str:
        """The same, and for a total what is used of it: 10 against a limit of 100 alone says nothing."""
        return (
            f"{self.refusal_text(namespace)}, used {self.used}" if self.is_resolvable else self.refusal_text(namespace)
        )

    def as_violation(self, namespace: str) -> Violation:
        """One entry of an error's `details` (api.md, "GPU quota by namespace")."""
        numbers = {
            "namespace": namespace,
            "requested": _plain(self.requested),
            "limit": _plain(self.limit),
            "used": None if self.used is None else _plain(self.used),
            "resolvable": self.is_resolvable,
        }
        return Violation(
            self.path, self.resource, self.refusal_text_with_usage(namespace), numbers=tuple(numbers.items())
        )


def _plain(amount: Quantity | int) -> str | int:
    return amount if isinstance(amount, int) else str(amount)


def broken_caps(spec: GpuQuotaSpec, used: WorkerTotals, worker: GpuWorker) -> list[BrokenCap]:
    """Every cap that one more worker would break. `used` is what is committed and reserved now."""
    return [*broken_single_caps(spec, worker), *broken_total_caps(spec, used, totals_of_worker(worker))]


def broken_single_caps(spec: GpuQuotaSpec, worker: GpuWorker) -> list[BrokenCap]:
    """The caps on one worker that it breaks (rules 1 to 5)."""
    found = list(_single(spec, worker))
    if spec.max_gpu_count is not None and worker.count > spec.max_gpu_count:
        found.append(BrokenCap(GPU_COUNT, "count", worker.count, spec.max_gpu_count))
    return found


def broken_total_caps(spec: GpuQuotaSpec, used: WorkerTotals, more: WorkerTotals) -> list[BrokenCap]:
    """The caps on the namespace's total that `more`, on top of `used`, would break (rules 6 to 10)."""
    found = []
    for side, resource in TOTALS:
        cap, have, asked = (
            spec.total_caps(side).of(resource),
            used.side(side).of(resource),
            more.side(side).of(resource),
        )
        if cap is not None and have.milli + asked.milli > cap.milli:
            found.append(_total_rule(side, resource, asked, cap, have))
    if spec.max_workers is not None and more.workers and used.workers + more.workers > spec.max_workers:
        found.append(BrokenCap("total.max.workers.limit", "workers", more.workers, spec.max_workers, used.workers))
    return found


def broken_caps_of_gang(spec: GpuQuotaSpec, used: WorkerTotals, workers: Sequence[GpuWorker]) -> list[BrokenCap]:
    """Every cap that workers which begin together would break; of a total, `requested` is that of all of them."""
    single = {each.resource: each for worker in reversed(workers) for each in broken_single_caps(spec, worker)}
    order = [name for name in SINGLE_RULES if name in single]
    return [*(single[name] for name in order), *broken_total_caps(spec, used, totals_of_workers(workers))]


def broken_caps_of_change(
    spec: GpuQuotaSpec, used: WorkerTotals, before: GpuWorker, after: GpuWorker
) -> list[BrokenCap]:
    """Every cap that changing a worker's amounts would break. Only what grows is looked at: giving back is never
    refused. `used` counts the worker as it was; `requested` is its new total."""
    old, new = totals_of_worker(before), totals_of_worker(after)
    grown = GpuWorker(_grown(before.request, after.request), _grown(before.limit, after.limit), after.count)
    found = list(_single(spec, grown))
    for side, resource in TOTALS:
        cap, have = spec.total_caps(side).of(resource), used.side(side).of(resource)
        was, asked = old.side(side).of(resource), new.side(side).of(resource)
        if cap is not None and asked.milli > was.milli and have.milli - was.milli + asked.milli > cap.milli:
            found.append(_total_rule(side, resource, asked, cap, have))
    return found


def _grown(before: GpuAmounts, after: GpuAmounts) -> GpuAmounts:
    """The new amounts where they are larger; zero, which breaks no cap on one worker, elsewhere."""
    return GpuAmounts(
        tflops=after.tflops if after.tflops.milli > before.tflops.milli else ZERO,
        vram=after.vram if after.vram.milli > before.vram.milli else ZERO,
    )


def _single(spec: GpuQuotaSpec, worker: GpuWorker) -> Iterator[BrokenCap]:
    sides = (("request", worker.request, spec.max_requests), ("limit", worker.limit, spec.max_limits))
    for side, amounts, caps in sides:
        for resource in RESOURCES:
            asked, cap = amounts.of(resource), caps.of(resource)
            if cap is not None and cap.milli and asked.milli > cap.milli:
                yield BrokenCap(f"single.max.{resource}.{side}", f"{side}.{resource}", asked, cap)


def _total_rule(side: str, resource: str, asked: Quantity, cap: Quantity, have: Quantity) -> BrokenCap:
    name = side.removesuffix("s")
    return BrokenCap(f"total.max.{resource}.{name}", f"{name}.{resource}", asked, cap, have)


def headroom_for(spec: GpuQuotaSpec, used: WorkerTotals, worker: GpuWorker) -> tuple[int | None, Sequence[BrokenCap]]:
    """How many more such workers fit (None: as many as you like), and what stops the next one."""
    final = broken_single_caps(spec, worker)
    if final:
        return 0, final
    each, room = totals_of_worker(worker), []
    for side, resource in TOTALS:
        cap, asked = spec.total_caps(side).of(resource), each.side(side).of(resource).milli
        free = 0 if cap is None else cap.milli - used.side(side).of(resource).milli
        if cap is not None and (asked or free < 0):
            room.append(max(0, free) // max(1, asked))
    if spec.max_workers is not None:
        room.append(max(0, spec.max_workers - used.workers))
    if not room:
        return None, ()
    fits = min(room)
    full = WorkerTotals(
        used.requests + each.requests.times(fits), used.limits + each.limits.times(fits), used.workers + fits
    )
    return fits, broken_total_caps(spec, full, each)
