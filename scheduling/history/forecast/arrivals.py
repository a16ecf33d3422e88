"""Samples of future arrivals: bursts of work, as those of the recent past.

The past arrivals of a queue are bursts with pauses between them. In a future the next burst of a queue comes after a
pause of a random length, about as often as bursts came, and is one of its past bursts, never the same twice in a row.
Work of a queue that waits already is left out: it comes behind the waiting work of its own queue. Times are seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from operator import itemgetter

from scheduling.domain.engine.facts import GangFacts
from scheduling.history.forecast.chance import chance, exponential, normal
from scheduling.history.forecast.runtimes import WorkKind

REMEMBERED = 1000
PAUSE = 600.0
"""Work of one queue that comes within this time of the last one belongs to the same burst."""


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
        self, now: float, future: int, without: Collection[str], most: int
    ) -> Iterator[tuple[float, GangFacts, WorkKind]]:
        """Gangs that arrive after `now` in one future, without those of some queues, at most `most`, in the order of
        their times."""
        if not self._known:
            return
        since = self._known[0].time
        queues = [
            _coming(future, queue, bursts, now, since)
            for queue, bursts in self._bursts().items()
            if queue not in without
        ]
        for time, name, past in islice(heapq.merge(*queues, key=itemgetter(0)), most):
            yield time, replace(past.fact(), name=name), past.kind

    def _bursts(self) -> dict[str, list[list[Arrival]]]:
        found: dict[str, list[list[Arrival]]] = {}
        for past in self._known:
            bursts = found.setdefault(past.queue, [])
            if bursts and past.time - bursts[-1][-1].time <= PAUSE:
                bursts[-1].append(past)
            else:
                bursts.append([past])
        return found


def _coming(
    future: int, queue: str, bursts: Sequence[Sequence[Arrival]], now: float, since: float
) -> Iterator[tuple[float, str, Arrival]]:
    """The arrivals of one queue, with their names. The mean pause is as uncertain as so few bursts leave it."""
    busy = sum(burst[-1].time - burst[0].time for burst in bursts)
    many = len(bursts)
    pause = max(now - since - busy, PAUSE) / many * math.exp(normal(future, "pause", queue) / math.sqrt(many))
    time, last = now, -1
    for number in count():
        time += pause * exponential(future, "pause", queue, number)
        at = int(chance(future, "burst", queue, number) * (many if many == 1 or last < 0 else many - 1))
        if many > 1 and last >= 0 and at >= last:
            at += 1
        last = at
        for place, past in enumerate(bursts[at]):
            yield time + past.time - bursts[at][0].time, f"~{queue}/{number:04}/{place:04}", past
        time += bursts[at][-1].time - bursts[at][0].time
