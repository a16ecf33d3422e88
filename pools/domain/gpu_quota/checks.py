"""Checks whether a namespace may have one more worker; if not, every broken cap, in the order of the checks.

Caps on one worker are per GPU and final: waiting cannot help. For caps on the namespace's total waiting can help. An
amount equal to the cap is allowed. Arithmetic is exact, in thousandths; nothing is rounded up (design, D14). Source:
design, G2, G3, G4, G5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pools.domain.errors import RuleName, Violation
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
from pools.domain.values.quantities import ZERO, Quantity

DEFAULT_THRESHOLD = 95
TOTALS = tuple((side, resource) for side in SIDES for resource in RESOURCES)
"""The totals in the order of their checks."""

GPU_COUNT = "single.max.gpuCount.limit"
SINGLE_RULES = (*(f"single.max.{resource}.{side.removesuffix('s')}" for side, resource in TOTALS), GPU_COUNT)
"""The caps on one worker in the order of their checks."""


@dataclass(frozen=True, slots=True)
class ResourceCaps:
    """Caps on compute and memory; None means no cap."""

    tflops: Quantity | None = None
    vram: Quantity | None = None

    def of(self, resource: str) -> Quantity | None:
        """The cap on `tflops` or `vram`."""
        return self.tflops if resource == "tflops" else self.vram


@dataclass(frozen=True, slots=True)
class GpuQuotaSpec:
    """The GPU quota of one namespace.

    A cap of 0 on a total allows nothing. A cap of 0 on the amounts of one worker means no cap. A cap of 0 GPUs or 0
    workers allows none.
    """

    requests: ResourceCaps = ResourceCaps()
    limits: ResourceCaps = ResourceCaps()
    max_workers: int | None = None
    alert_threshold: int = DEFAULT_THRESHOLD
    max_requests: ResourceCaps = ResourceCaps()
    max_limits: ResourceCaps = ResourceCaps()
    max_gpu_count: int | None = None
    default_requests: GpuAmounts = NO_AMOUNTS
    default_limits: GpuAmounts = NO_AMOUNTS

    def total_caps(self, side: str) -> ResourceCaps:
        """The caps on the sum of `requests` or of `limits`."""
        return self.requests if side == "requests" else self.limits

    def with_defaults(self, worker: GpuWorker) -> GpuWorker:
        """The worker with the defaults of the namespace for the amounts that it does not request."""
        return worker.or_else(GpuWorker(self.default_requests, self.default_limits))


@dataclass(frozen=True, slots=True)
class BrokenCap:
    """One cap that a worker breaks. Counts (GPUs, workers) are integers. `used` includes reservations; it is None for a
    cap on one worker."""

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
        """The refusal in TensorFusion's words, with the usage of a total: a request of 10 against a limit of 100
        alone explains nothing."""
        used = f", used {self.used}" if self.is_resolvable else ""
        return (
            f"quota exceeded in namespace {namespace} for {self.resource}: "
            f"requested {self.requested}, limit {self.limit}{used}"
        )

    def as_violation(self, namespace: str) -> Violation:
        """One entry of an error's `details` (design, A7)."""
        numbers = {
            "namespace": namespace,
            "requested": _json_amount(self.requested),
            "limit": _json_amount(self.limit),
            "used": None if self.used is None else _json_amount(self.used),
            "resolvable": self.is_resolvable,
        }
        return Violation(
            self.path, RuleName(self.resource), self.refusal_text(namespace), numbers=tuple(numbers.items())
        )


def _json_amount(amount: Quantity | int) -> str | int:
    return amount if isinstance(amount, int) else str(amount)


def broken_caps(spec: GpuQuotaSpec, used: WorkerTotals, worker: GpuWorker) -> list[BrokenCap]:
    """Every cap that one more worker would break. `used` is the sum of the committed and the reserved workers."""
    return [*broken_single_caps(spec, worker), *broken_total_caps(spec, used, totals_of_worker(worker))]


def broken_single_caps(spec: GpuQuotaSpec, worker: GpuWorker) -> list[BrokenCap]:
    """The caps on one worker that it breaks (rules 1 to 5)."""
    found = list(_find_broken_single_caps(spec, worker))
    if spec.max_gpu_count is not None and worker.count > spec.max_gpu_count:
        found.append(BrokenCap(GPU_COUNT, "count", worker.count, spec.max_gpu_count))
    return found


def broken_total_caps(spec: GpuQuotaSpec, used: WorkerTotals, more: WorkerTotals) -> list[BrokenCap]:
    """The caps on the namespace's total that `more`, on top of `used`, would break (rules 6 to 10)."""
    found = []
    for side, resource in TOTALS:
        cap, have, requested = (
            spec.total_caps(side).of(resource),
            used.side(side).of(resource),
            more.side(side).of(resource),
        )
        if cap is not None and have.milli + requested.milli > cap.milli:
            found.append(_broken_total_cap(side, resource, requested, cap, have))
    if spec.max_workers is not None and more.workers and used.workers + more.workers > spec.max_workers:
        found.append(BrokenCap("total.max.workers.limit", "workers", more.workers, spec.max_workers, used.workers))
    return found


def broken_caps_of_gang(spec: GpuQuotaSpec, used: WorkerTotals, workers: Sequence[GpuWorker]) -> list[BrokenCap]:
    """Every cap that these workers would break if they start together. For a total, `requested` is their sum."""
    single = {each.resource: each for worker in reversed(workers) for each in broken_single_caps(spec, worker)}
    order = [name for name in SINGLE_RULES if name in single]
    return [*(single[name] for name in order), *broken_total_caps(spec, used, totals_of_workers(workers))]


def broken_caps_of_change(
    spec: GpuQuotaSpec, used: WorkerTotals, before: GpuWorker, after: GpuWorker
) -> list[BrokenCap]:
    """Every cap that changing the amounts of a worker would break. Only amounts that grow are checked: a reduction is
    never refused. `used` includes the worker before the change; `requested` is its new total."""
    old, new = totals_of_worker(before), totals_of_worker(after)
    increased = GpuWorker(
        _increased_amounts(before.request, after.request), _increased_amounts(before.limit, after.limit), after.count
    )
    found = list(_find_broken_single_caps(spec, increased))
    for side, resource in TOTALS:
        cap, have = spec.total_caps(side).of(resource), used.side(side).of(resource)
        was, requested = old.side(side).of(resource), new.side(side).of(resource)
        if cap is not None and requested.milli > was.milli and have.milli - was.milli + requested.milli > cap.milli:
            found.append(_broken_total_cap(side, resource, requested, cap, have))
    return found


def _increased_amounts(before: GpuAmounts, after: GpuAmounts) -> GpuAmounts:
    """The new amounts that are larger than before; the others are zero, which breaks no cap on one worker."""
    return GpuAmounts(
        tflops=after.tflops if after.tflops.milli > before.tflops.milli else ZERO,
        vram=after.vram if after.vram.milli > before.vram.milli else ZERO,
    )


def _find_broken_single_caps(spec: GpuQuotaSpec, worker: GpuWorker) -> Iterator[BrokenCap]:
    sides = (("request", worker.request, spec.max_requests), ("limit", worker.limit, spec.max_limits))
    for side, amounts, caps in sides:
        for resource in RESOURCES:
            requested, cap = amounts.of(resource), caps.of(resource)
            if cap is not None and cap.milli and requested.milli > cap.milli:
                yield BrokenCap(f"single.max.{resource}.{side}", f"{side}.{resource}", requested, cap)


def _broken_total_cap(side: str, resource: str, requested: Quantity, cap: Quantity, have: Quantity) -> BrokenCap:
    name = side.removesuffix("s")
    return BrokenCap(f"total.max.{resource}.{name}", f"{name}.{resource}", requested, cap, have)


def headroom_for(spec: GpuQuotaSpec, used: WorkerTotals, worker: GpuWorker) -> tuple[int | None, Sequence[BrokenCap]]:
    """The number of further such workers that fit (None: no limit), and the caps that stop the next one."""
    final = broken_single_caps(spec, worker)
    if final:
        return 0, final
    each, counts = totals_of_worker(worker), []
    for side, resource in TOTALS:
        cap, requested = spec.total_caps(side).of(resource), each.side(side).of(resource).milli
        free = 0 if cap is None else cap.milli - used.side(side).of(resource).milli
        if cap is not None and (requested or free < 0):
            counts.append(max(0, free) // max(1, requested))
    if spec.max_workers is not None:
        counts.append(max(0, spec.max_workers - used.workers))
    if not counts:
        return None, ()
    fits = min(counts)
    full = WorkerTotals(
        used.requests + each.requests.times(fits), used.limits + each.limits.times(fits), used.workers + fits
    )
    return fits, broken_total_caps(spec, full, each)
