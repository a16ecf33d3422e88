"""What interruptions lost, by flavor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models.functions import JSONObject

from pools.domain.configuration.flavors import parts_among
from pools.domain.values.amounts import hours_by_unit, hours_text
from pools.models import Backend
from scheduling.models import Interruption

MS_PER_HOUR: Final = 3_600_000
RECEIPT_ROWS: Final = ArrayAgg(
    JSONObject(flavor="receipts__task__flavor", gpus="receipts__gpus", lost="receipts__lost_gpu_ms")
)
"""Of an interruption, the flavor, the GPUs and the loss of each receipt (the annotation `receipt_rows`)."""


def parts_when_ended(kept: Collection[str] | None, backend: Backend) -> Collection[str]:
    """The flavors that counted parts of shared GPUs when attempts ended; without `kept`, what an interruption keeps of
    it, those of the cluster now."""
    return parts_among(backend.flavors) if kept is None else kept


@dataclass(frozen=True, slots=True)
class FlavorLosses:
    """(flavor, GPUs, GPU-milliseconds, whether these are parts of shared GPUs) of receipts. The flavor is empty in a
    pool without flavors."""

    rows: tuple[tuple[str, int, int, bool], ...]

    @classmethod
    def of(cls, row: Interruption) -> FlavorLosses:
        """Those of an interruption with the annotation and its cluster."""
        parts = parts_when_ended(row.numbers.get("parts"), row.backend)
        return cls.among((parts, each) for each in getattr(row, "receipt_rows", ()))

    @classmethod
    def among(cls, rows: Iterable[tuple[Collection[str], Mapping[str, Any]]]) -> FlavorLosses:
        """Those of these rows of receipts, each with the flavors that counted parts of shared GPUs."""
        found = ((each["flavor"] or "", each["gpus"] or 0, each["lost"] or 0, parts) for parts, each in rows)
        return cls(tuple((flavor, gpus, lost, flavor in parts) for flavor, gpus, lost, parts in found))

    def __add__(self, other: FlavorLosses) -> FlavorLosses:
        return FlavorLosses(self.rows + other.rows)

    @property
    def parts(self) -> frozenset[str]:
        """The flavors that counted parts of shared GPUs."""
        return frozenset(flavor for flavor, *_, is_of_parts in self.rows if is_of_parts)

    @property
    def gpus(self) -> int:
        """The GPUs of all flavors together."""
        return sum(gpus for _, gpus, *_ in self.rows)

    @property
    def gpu_ms(self) -> int:
        """The loss of all flavors together."""
        return sum(lost for _, _, lost, _ in self.rows)

    @property
    def gpus_by_flavor(self) -> dict[str, int]:
        """The GPUs of each flavor; empty in a pool without flavors."""
        names = sorted({flavor for flavor, *_ in self.rows if flavor})
        return {name: sum(gpus for flavor, gpus, *_ in self.rows if flavor == name) for name in names}

    @property
    def ms_of_parts(self) -> dict[str, int]:
        """The loss of each flavor that counts parts of shared GPUs."""
        rows = [(flavor, lost) for flavor, _, lost, is_of_parts in self.rows if is_of_parts]
        return {name: sum(lost for flavor, lost in rows if flavor == name) for name in sorted(self.parts)}

    @property
    def by_unit(self) -> list[tuple[float, str]]:
        """The loss in milliseconds, each with the unit of its hours."""
        return hours_by_unit(self.gpu_ms, self.ms_of_parts)

    @property
    def text(self) -> str:
        """The loss in hours: `3.2 GPU-hours`."""
        return hours_text(self.gpu_ms / MS_PER_HOUR, {each: ms / MS_PER_HOUR for each, ms in self.ms_of_parts.items()})
