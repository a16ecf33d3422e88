"""In which order a cycle saw what people did: that of the commits, which the clock does not tell. A submission may be
older than a cycle that did not see it, because it was committed after the cycle had read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from scheduling.domain.engine.facts import StartReservationFacts


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of PostgreSQL: the transactions below `begin` had ended, those from `end` on and those `between` had
    not."""

    begin: int
    end: int
    between: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """`begin:end:number,number`, as `pg_current_snapshot()` writes it."""
        begin, end, between = text.split(":")
        return cls(int(begin), int(end), frozenset(int(each) for each in between.split(",") if each))

    def sees(self, transaction: int) -> bool:
        """Whether this transaction had been committed."""
        return transaction < self.begin or (transaction < self.end and transaction not in self.between)


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A cycle that decided something, at the time of its decisions (microseconds). `judged_at`: the time by which it
    judged. `snapshot`: what it had seen, None for all until its time. `new_since`: it judged new work alone, which this
    earlier snapshot does not see. `units`: as many as it planned."""

    time: int
    judged_at: int
    units: int
    snapshot: Snapshot | None = None
    new_since: Snapshot | None = None
    reservations: tuple[StartReservationFacts, ...] = ()
    """Those that it read."""


class SeenOrder:
    """When the cycles of a history saw a change."""

    def __init__(self, cycles: Sequence[RecordedCycle]) -> None:
        """`cycles` are in the order of time."""
        self._cycles = cycles
        self._times = [cycle.time for cycle in cycles]

    def seen_from(self, time: int, transaction: int | None) -> int:
        """From when on a change of this time was seen: its time, or right after the last cycle that did not see it."""
        if transaction is None:
            return time
        for cycle in self._cycles[bisect_left(self._times, time) :]:
            if cycle.snapshot is None or cycle.snapshot.sees(transaction):
                break
            time = cycle.time + 1
        return time
