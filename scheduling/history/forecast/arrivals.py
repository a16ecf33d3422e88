"""Samples of future arrivals: a stretch of the recent past is repeated.

A future repeats what arrived in a random stretch of the last minutes or hours. Work of a queue that waits already is
left out: it comes behind the waiting work of its own queue. Times are seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from random import Random

from scheduling.domain.engine.facts import GangFacts
from scheduling.history.forecast.runtimes import WorkKind

REMEMBERED = 1000
STRETCHES = (1800.0, 2 * 3600.0, 6 * 3600.0, 24 * 3600.0)
LEAST_STRETCH = 60.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang that arrived, and what was known of it then. `fact` makes it, when it waits."""

    time: float
    kind: WorkKind
    queue: str
    fact: Callable[[], GangFacts]


class RecentArrivals:
    """The last gangs that arrived, in the order of their times."""

    def __init__(self) -> None:
        self._known: deque[Arrival] = deque(maxlen=REMEMBERED)

    def add(self, arrival: Arrival) -> None:
        """A gang arrived."""
        self._known.append(arrival)

    def later(
        self, now: float, random: Random, without: Collection[str], most: int
    ) -> Iterator[tuple[float, GangFacts, WorkKind]]:
        """Gangs that arrive after `now` in one future, without those of some queues, at most `most`, in the order of
        their times."""
        if not self._known:
            return
        stretch = min(random.choice(STRETCHES), max(now - self._known[0].time, LEAST_STRETCH))
        repeated = [past for past in self._known if past.time > now - stretch and past.queue not in without]
        for number in range(most if repeated else 0):
            times, which = divmod(number, len(repeated))
            past = repeated[which]
            fact = past.fact()
            yield past.time + (times + 1) * stretch, replace(fact, name=f"~{number:06} {fact.name}"), past.kind
