"""The amounts of one GPU worker, and the totals of the workers of a namespace.

`request` and `limit` are amounts per GPU, `count` is the number of GPUs; a worker is one pod, whatever its count.
TFLOPS are plain numbers, vram is in bytes. Source: design, G2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from pools.domain.errors import Violation
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.quantities import ZERO, InvalidQuantity, Quantity, parse_quantity

RESOURCES = ("tflops", "vram")
SIDES = ("requests", "limits")
MAX_GPUS = 128
"""The most GPUs of one allocation by name, as in the pod annotation."""


class GpuAmountsBody(TypedDict):
    """Compute and memory, as quantities."""

    tflops: str
    vram: str


class TotalsBody(TypedDict):
    """The totals of the workers of a namespace."""

    requests: GpuAmountsBody
    limits: GpuAmountsBody
    workers: int


@dataclass(frozen=True, slots=True)
class GpuAmounts:
    """Compute and memory of GPUs."""

    tflops: Quantity = ZERO
    vram: Quantity = ZERO

    def of(self, resource: str) -> Quantity:
        """The amount of `tflops` or `vram`."""
        return self.tflops if resource == "tflops" else self.vram

    def __add__(self, other: GpuAmounts) -> GpuAmounts:
        return GpuAmounts(self.tflops + other.tflops, self.vram + other.vram)

    def minus(self, other: GpuAmounts) -> GpuAmounts:
        """The difference; never below zero."""
        return GpuAmounts(
            Quantity(max(0, self.tflops.milli - other.tflops.milli), self.tflops.format),
            Quantity(max(0, self.vram.milli - other.vram.milli), self.vram.format),
        )

    def times(self, count: int) -> GpuAmounts:
        """Both amounts, `count` times."""
        return GpuAmounts(self.tflops.times(count), self.vram.times(count))

    def or_else(self, default: GpuAmounts) -> GpuAmounts:
        """Each amount, or the default if it is zero."""
        return GpuAmounts(
            self.tflops if self.tflops.milli else default.tflops, self.vram if self.vram.milli else default.vram
        )

    @property
    def millis(self) -> tuple[int, int]:
        """Both amounts in thousandths, for comparison."""
        return self.tflops.milli, self.vram.milli

    def as_dict(self) -> GpuAmountsBody:
        """For JSON."""
        return {"tflops": str(self.tflops), "vram": str(self.vram)}


NO_AMOUNTS = GpuAmounts()


@dataclass(frozen=True, slots=True)
class GpuWorker:
    """One worker: amounts per GPU, and the number of GPUs."""

    request: GpuAmounts = NO_AMOUNTS
    limit: GpuAmounts = NO_AMOUNTS
    count: int = 1

    def or_else(self, default: GpuWorker) -> GpuWorker:
        """The worker with the default for each amount that is zero; the number of GPUs stays."""
        return GpuWorker(self.request.or_else(default.request), self.limit.or_else(default.limit), self.count)

    def is_same_size(self, other: GpuWorker) -> bool:
        """Whether both request the same amounts, in any spelling."""
        return self._values() == other._values()

    def _values(self) -> tuple[object, ...]:
        return self.request.millis, self.limit.millis, self.count


@dataclass(frozen=True, slots=True)
class WorkerTotals:
    """The totals of several workers, over all their GPUs."""

    requests: GpuAmounts = NO_AMOUNTS
    limits: GpuAmounts = NO_AMOUNTS
    workers: int = 0

    def side(self, side: str) -> GpuAmounts:
        """The sums of `requests` or of `limits`."""
        return self.requests if side == "requests" else self.limits

    def __add__(self, other: WorkerTotals) -> WorkerTotals:
        return WorkerTotals(self.requests + other.requests, self.limits + other.limits, self.workers + other.workers)

    def minus(self, other: WorkerTotals) -> WorkerTotals:
        """The difference; never below zero."""
        return WorkerTotals(
            self.requests.minus(other.requests),
            self.limits.minus(other.limits),
            max(0, self.workers - other.workers),
        )

    def as_dict(self) -> TotalsBody:
        """As `status.used`."""
        return {"requests": self.requests.as_dict(), "limits": self.limits.as_dict(), "workers": self.workers}


def totals_of_worker(worker: GpuWorker) -> WorkerTotals:
    """The totals of one worker: its amounts times its GPUs, and one worker."""
    return WorkerTotals(worker.request.times(worker.count), worker.limit.times(worker.count), 1)


NO_WORKERS = WorkerTotals()


def totals_of_workers(workers: Iterable[GpuWorker]) -> WorkerTotals:
    """The totals of several workers."""
    return sum(map(totals_of_worker, workers), start=NO_WORKERS)


@dataclass(frozen=True, slots=True)
class GangWorker:
    """A worker of a gang: its id, the purpose, and the amounts."""

    name: str
    workload: str
    worker: GpuWorker


@dataclass(frozen=True, slots=True)
class WorkerKeys:
    """The keys under which the texts of a worker stand; those of the API unless others are given."""

    request: tuple[str, str] = ("request_tflops", "request_vram")
    limit: tuple[str, str] = ("limit_tflops", "limit_vram")
    count: str = "count"


def parse_worker(texts: Mapping[str, object], keys: WorkerKeys = WorkerKeys()) -> tuple[GpuWorker, list[Violation]]:
    """The size of a worker from texts, in a query or in the annotations of a pod, and every fault in them; the path of
    a fault is its key. Without a text an amount is 0 and the number of GPUs 1."""
    faults: list[Violation] = []
    place = FieldReader(texts, "", faults)
    request, limit = (
        GpuAmounts(*(read_quantity(place, key) or ZERO for key in side)) for side in (keys.request, keys.limit)
    )
    count = place.parsed_text(keys.count, _gpus, 1, f"a whole number from 1 to {MAX_GPUS}")
    return GpuWorker(request, limit, count), faults


def _gpus(text: str) -> int | None:
    good = text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_GPUS
    return int(text) if good else None


def read_given_amounts(place: FieldReader, key: str) -> dict[str, Quantity]:
    """Those of `{"tflops", "vram"}` that stand under a key."""
    table = place.nested(key)
    if table is None:
        return {}
    table.reject_unknown_keys(RESOURCES)
    found = {resource: read_quantity(table, resource) for resource in RESOURCES}
    return {resource: amount for resource, amount in found.items() if amount is not None}


def read_gpu_amounts(place: FieldReader, key: str) -> GpuAmounts:
    """`{"tflops", "vram"}` under a key; an amount that is left out is zero."""
    return GpuAmounts(**read_given_amounts(place, key))


def read_quantity(table: FieldReader, key: str) -> Quantity | None:
    """The quantity under a key; None if it is absent, or not valid (then a fault is noted)."""
    if not table.is_given(key):
        return None
    try:
        return parse_quantity(table.body[key])
    except InvalidQuantity as fault:
        table.add_fault(key, fault.code, str(fault))
        return None
