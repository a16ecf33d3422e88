"""What one GPU worker asks for, and what the workers of a namespace hold together.

`request` and `limit` are amounts per GPU, `count` is the number of GPUs; a worker is one pod, whatever its count.
TFLOPS are plain, vram is in bytes. Source: tensorfusion-quota.md, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.errors import Violation
from pools.domain.fields import Fields
from pools.domain.quantities import ZERO, BadQuantity, Quantity, parse_quantity

RESOURCES = ("tflops", "vram")
SIDES = ("requests", "limits")
MOST_GPUS = 128
"""GPUs of one allocation asked for by name, as the pod annotation has it."""

LONGEST_NAME = 253
_NAME = re.compile(r"[!-.0-~]+")


@dataclass(frozen=True, slots=True)
class Amounts:
    """Compute and memory of GPUs."""

    tflops: Quantity = ZERO
    vram: Quantity = ZERO

    def of(self, resource: str) -> Quantity:
        """The amount of `tflops` or `vram`."""
        return self.tflops if resource == "tflops" else self.vram

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.tflops + other.tflops, self.vram + other.vram)

    def without(self, other: Amounts) -> Amounts:
        """What is left when `other` goes; never below zero."""
        return Amounts(
            Quantity(max(0, self.tflops.milli - other.tflops.milli), self.tflops.family),
            Quantity(max(0, self.vram.milli - other.vram.milli), self.vram.family),
        )

    def times(self, count: int) -> Amounts:
        """Both, `count` times."""
        return Amounts(self.tflops.times(count), self.vram.times(count))

    def or_else(self, default: Amounts) -> Amounts:
        """Each amount, or the default's where it is zero."""
        return Amounts(
            self.tflops if self.tflops.milli else default.tflops, self.vram if self.vram.milli else default.vram
        )

    @property
    def millis(self) -> tuple[int, int]:
        """Both as thousandths, for comparison."""
        return self.tflops.milli, self.vram.milli

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return {"tflops": str(self.tflops), "vram": str(self.vram)}


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: amounts per GPU, and how many GPUs."""

    request: Amounts = NOTHING
    limit: Amounts = NOTHING
    count: int = 1

    def or_else(self, default: Worker) -> Worker:
        """Each amount, or the default's where it is zero; the GPUs are its own."""
        return Worker(self.request.or_else(default.request), self.limit.or_else(default.limit), self.count)

    def same_as(self, other: Worker) -> bool:
        """Whether both ask for the same, however it is written."""
        return self._values() == other._values()

    def _values(self) -> tuple[object, ...]:
        return self.request.millis, self.limit.millis, self.count


@dataclass(frozen=True, slots=True)
class Held:
    """What several workers hold together, over all their GPUs."""

    requests: Amounts = NOTHING
    limits: Amounts = NOTHING
    workers: int = 0

    def side(self, side: str) -> Amounts:
        """The sums of `requests` or of `limits`."""
        return self.requests if side == "requests" else self.limits

    def __add__(self, other: Held) -> Held:
        return Held(self.requests + other.requests, self.limits + other.limits, self.workers + other.workers)

    def without(self, other: Held) -> Held:
        """What is left when `other` goes; never below zero."""
        return Held(
            self.requests.without(other.requests),
            self.limits.without(other.limits),
            max(0, self.workers - other.workers),
        )

    def as_dict(self) -> dict[str, Any]:
        """As `status.used`."""
        return {"requests": self.requests.as_dict(), "limits": self.limits.as_dict(), "workers": self.workers}


def held_by(worker: Worker) -> Held:
    """What one worker holds: its amounts times its GPUs, and one worker."""
    return Held(worker.request.times(worker.count), worker.limit.times(worker.count), 1)


EMPTY = Held()


def held_together(workers: Iterable[Worker]) -> Held:
    """What several workers hold."""
    return sum(map(held_by, workers), start=EMPTY)


@dataclass(frozen=True, slots=True)
class Asked:
    """An allocation as a client asks for it: who (`name` is the client's id), for what, how much."""

    name: str
    workload: str
    worker: Worker


def parse_allocation(body: Mapping[str, Any]) -> tuple[Asked, list[Violation]]:
    """A new allocation from JSON (api.md, "GPU quota by namespace"), and everything that is wrong with it."""
    faults: list[Violation] = []
    place = Fields(body, "", faults)
    place.only(("id", "workload", "request", "limit", "count"))
    name, workload = _name(place), place.text("workload")
    if len(workload) > LONGEST_NAME:
        place.fault("workload", "bad_value", f"has {len(workload)} characters; the most is {LONGEST_NAME}.")
    request, limit = amounts_in(place, "request"), amounts_in(place, "limit")
    count = place.whole("count", 1, least=1, most=MOST_GPUS)
    return Asked(name, workload, Worker(request, limit, count)), faults


def parse_worker(query: Mapping[str, str | None]) -> tuple[Worker, list[Violation]]:
    """A worker's size from texts: `request_tflops`, `request_vram`, `limit_tflops`, `limit_vram` and `count`."""
    faults: list[Violation] = []
    place = Fields(query, "", faults)
    request, limit = (
        Amounts(*(quantity_in(place, f"{side}_{resource}") or ZERO for resource in RESOURCES))
        for side in ("request", "limit")
    )
    count = place.read("count", _gpus, 1, f"a whole number from 1 to {MOST_GPUS}")
    return Worker(request, limit, count), faults


def _gpus(text: str) -> int | None:
    good = text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MOST_GPUS
    return int(text) if good else None


def parse_adjustment(body: Mapping[str, Any], before: Worker) -> tuple[Worker, list[Violation]]:
    """New amounts per GPU of an allocation; what is left out stays as it was."""
    faults: list[Violation] = []
    place = Fields(body, "", faults)
    place.only(("request", "limit"))
    if not faults and not place.has("request") and not place.has("limit"):
        faults.append(Violation("request", "missing", "Give new amounts as request, as limit, or both."))
    request = amounts_in(place, "request", before.request)
    limit = amounts_in(place, "limit", before.limit)
    return Worker(request, limit, before.count), faults


def amounts_in(place: Fields, key: str, default: Amounts = NOTHING) -> Amounts:
    """`{"tflops", "vram"}` under a key; an amount that is left out is the default's."""
    table = place.table(key)
    if table is None:
        return default
    table.only(RESOURCES)
    return Amounts(
        tflops=quantity_in(table, "tflops") or default.tflops, vram=quantity_in(table, "vram") or default.vram
    )


def quantity_in(table: Fields, key: str) -> Quantity | None:
    """The quantity under a key; None when it is absent, or bad (then a fault is noted)."""
    if not table.has(key):
        return None
    try:
        return parse_quantity(table.body[key])
    except BadQuantity as fault:
        table.fault(key, fault.code, str(fault))
        return None


def _name(place: Fields) -> str:
    if not place.has("id"):
        place.fault("id", "missing", "is missing: name the allocation, so that asking again does nothing twice.")
        return ""
    name = place.body["id"]
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        place.fault(
            "id", "bad_value", f"must be 1 to {LONGEST_NAME} printable characters without spaces and without '/'."
        )
        return ""
    return name
