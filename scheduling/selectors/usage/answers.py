"""The shapes of the record of use: what is asked, and what is answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.receipts.causes import EndCause
from scheduling.domain.receipts.words import CAUSE_LABELS, OTHER_POOL
from scheduling.selectors.usage.computed_sums import WORK_COLUMNS

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WAITING = tuple(f"waiting_{cause}" for cause in WaitCause)
SUM_COLUMNS = (*WORK_COLUMNS, "quota", "idle", "lent")
BACKEND_COLUMNS = ("capacity", "offline", "unallocated")


def start_of_hour(at: datetime) -> datetime:
    """The full hour at or before a time."""
    return at.replace(minute=0, second=0, microsecond=0)


def start_of_day(at: datetime) -> datetime:
    """The start of the day in UTC at or before a time in UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """`since` and `until` are in UTC; `pools` are names of leaves, `users` names of users; empty is all."""

    since: datetime
    until: datetime
    by: UsageKey
    bucket: Bucket
    pools: Sequence[str] = ()
    users: Sequence[str] = ()


@dataclass(slots=True)
class UsageRow:
    """The sums of one key in one bucket, in GPU-milliseconds by column; None where the row has no such amount: the
    work of a user has no quota, and only a backend has a capacity. Waits are seconds. A row with a `part` counts parts
    of shared GPUs of that flavor, which is the end of its key: `team/t4`."""

    start: datetime
    key: str | None
    sums: dict[str, int | None]
    wait_p50: float | None = None
    wait_p90: float | None = None
    lost: int = 0
    """GPU-milliseconds of the receipts of attempts that something else ended in this time."""
    part: str = ""

    @property
    def subject(self) -> str | None:
        """Its key without the flavor of parts; None where there is none."""
        return (self.key or "").removesuffix(f"/{self.part}") or None if self.part else self.key

    def add(self, other: UsageRow) -> None:
        """Add the sums of another row."""
        self.lost += other.lost
        for column, value in other.sums.items():
            if value is not None:
                self.sums[column] = (self.sums[column] or 0) + value

    @property
    def used(self) -> int:
        """GPU-milliseconds that work held."""
        return sum(self.sums[column] or 0 for column in ("guaranteed", "low_inside", "over_quota"))

    @property
    def waiting(self) -> int:
        """GPU-milliseconds for which work waited."""
        return sum(self.sums[column] or 0 for column in WAITING)


@dataclass(frozen=True, slots=True)
class LostShare:
    """What a pool lost by one cause to the work of one pool. `taker` is empty where no work got the place, and where
    the reader may not know it (`is_hidden`)."""

    pool: str
    cause: str
    taker: str
    is_hidden: bool
    attempts: int
    gpu_ms: int
    part: str = ""
    """The flavor of parts of shared GPUs that were lost; empty for whole GPUs."""

    @property
    def rule(self) -> str:
        """The cause in one or two words."""
        return CAUSE_LABELS[EndCause(self.cause)]

    @property
    def taken_by(self) -> str:
        """The pool that took it, as far as the reader may know it; empty where none did."""
        return OTHER_POOL if self.is_hidden else self.taker


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    """The rows by start and key, and the totals of those of whole GPUs; the totals count the work of all rows.
    `has_more`: there are more than :data:`MAX_ROWS` rows."""

    question: UsageQuestion
    rows: list[UsageRow]
    totals: UsageRow
    has_more: bool = False
    losses: tuple[LostShare, ...] = ()
    """What was lost by pool, cause and the pool that took it, most first."""

    def of_key(self, key: str) -> UsageAnswer:
        """The rows of one key and of its parts of GPUs, with the totals of its whole GPUs."""
        rows = [row for row in self.rows if row.subject == key]
        return UsageAnswer(self.question, rows, self._added_up(key, [row for row in rows if not row.part]))

    def by_part(self) -> list[UsageAnswer]:
        """The rows of each flavor that counts parts of shared GPUs, with its own totals; by flavor."""
        parts = sorted({row.part for row in self.rows if row.part})
        found = [[replace(row, part="") for row in self.rows if row.part == part] for part in parts]
        return [
            UsageAnswer(self.question, rows, self._added_up(part, rows))
            for part, rows in zip(parts, found, strict=True)
        ]

    def _added_up(self, key: str, rows: Iterable[UsageRow]) -> UsageRow:
        total = UsageRow(self.totals.start, key, dict.fromkeys(self.totals.sums))
        for row in rows:
            total.add(row)
        return total
