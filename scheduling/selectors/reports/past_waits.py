"""Why work waited as long as it did: each wait of a gang, in the parts of its causes, also after its start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from pools.database.prepared import read_rows
from scheduling.domain.reason_codes import WaitCause
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Group
from scheduling.selectors.usage.charts import CAUSE_TITLES

JUDGED_EACH = timedelta(minutes=1)
MAX_PARTS = 20
"""The most parts of one wait that are shown one by one; sums count all."""
_WAITS_SQL = """
    SELECT group_id, id, since, until, started, NULL AS cause FROM scheduling_waitspan
    WHERE workflow_id = ANY(%s) AND group_id = ANY(%s)
    UNION ALL
    SELECT group_id, id, since, NULL, FALSE, cause FROM scheduling_waitcausechange WHERE group_id = ANY(%s)
    ORDER BY since, id
"""


@dataclass(frozen=True, slots=True)
class WaitPart:
    """A time in which a gang waited for one cause. Until the causes of waiting are judged, once a minute, it is counted
    as ORDER and not `is_judged`."""

    cause: WaitCause
    since: datetime
    until: datetime
    is_judged: bool = True

    @property
    def title(self) -> str:
        """The cause in words."""
        return CAUSE_TITLES[self.cause] if self.is_judged else "cause not recorded"

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.until - self.since).total_seconds()


@dataclass(frozen=True, slots=True)
class GangWait:
    """One wait of a gang; `has_started` is false where it ended without a start or goes on (`is_over` false)."""

    since: datetime
    until: datetime
    has_started: bool
    is_over: bool
    parts: tuple[WaitPart, ...]

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.until - self.since).total_seconds()

    @property
    def shown_parts(self) -> Sequence[WaitPart]:
        """The first parts."""
        return self.parts[:MAX_PARTS]

    @property
    def more_parts(self) -> int:
        """The number of the others."""
        return max(0, len(self.parts) - MAX_PARTS)


@dataclass(frozen=True, slots=True)
class PastWaits:
    """The waits of one gang that are over, of all its waits."""

    every: Sequence[GangWait]

    @property
    def waits(self) -> list[GangWait]:
        """Those that are over, the oldest first, without those that took less than a second: a start is never at the
        instant of its submission."""
        return [wait for wait in self.every if wait.is_over and wait.seconds >= 1]

    @property
    def has_causes(self) -> bool:
        """Whether any of them was judged; the others were over before anybody asked why."""
        return any(part.is_judged for wait in self.waits for part in wait.parts)

    @property
    def shown(self) -> list[GangWait]:
        """The last of them, the newest first."""
        return self.waits[: -MAX_PARTS - 1 : -1]

    @property
    def seconds(self) -> float:
        """Their length."""
        return sum(wait.seconds for wait in self.waits)

    @property
    def by_cause(self) -> list[tuple[str, float]]:
        """The titles of their causes with the seconds, the longest first."""
        sums: dict[str, float] = defaultdict(float)
        for part in (part for wait in self.waits for part in wait.parts):
            sums[part.title] += part.seconds
        return sorted(sums.items(), key=lambda each: -each[1])


def read_waits(groups: Sequence[Group], now: datetime) -> Mapping[UUID, Sequence[GangWait]]:
    """The waits for GPUs of each group, the oldest first, with the present one. One query."""
    spans = []
    changes: dict[UUID, list[tuple[datetime, WaitCause]]] = defaultdict(list)
    for group, _, at, end, started, why in read_rows(
        _WAITS_SQL, [list({group.workflow_id for group in groups}), *[[group.pk for group in groups]] * 2]
    ):
        if why:
            changes[group].append((at, WaitCause(why)))
        else:
            spans.append((group, at, end or now, started, True))
    spans += [
        (group.pk, group.ready_at, now, False, False)
        for group in groups
        if group.status == TaskStatus.SCHEDULING and group.ready_at is not None
    ]
    waits: dict[UUID, list[GangWait]] = defaultdict(list)
    for group, since, until, started, is_over in spans:
        parts = tuple(_split_wait(since, until, changes[group]))
        waits[group].append(GangWait(since, until, started, is_over, parts))
    return waits


def sum_by_cause(waits: Sequence[GangWait]) -> dict[WaitCause, float]:
    """The seconds of these waits by cause; they add up to their lengths."""
    sums: dict[WaitCause, float] = defaultdict(float)
    for wait in waits:
        for part in wait.parts:
            sums[part.cause] += part.seconds
    return sums


def _split_wait(since: datetime, until: datetime, changes: Sequence[tuple[datetime, WaitCause]]) -> Iterator[WaitPart]:
    """The parts of one wait. Work without another cause waits for its turn, once that is judged."""
    within = [(at, cause, True) for at, cause in changes if since <= at < until]
    points = [(since, WaitCause.ORDER, False), *within, (until, WaitCause.ORDER, True)]
    for (begin, cause, is_judged), (end, _, _) in pairwise(points):
        if end > begin:
            yield WaitPart(cause, begin, end, is_judged=is_judged or end - begin > JUDGED_EACH)
