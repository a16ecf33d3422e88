"""How many GPUs each team held at one time in a history: what it usually needs, as a proposal of its quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduling.domain.priorities import Priority
from scheduling.history.traces.faults import ReplayFault
from scheduling.history.traces.trace import TraceOptions, TraceReader
from scheduling.moving_in.options import PastUse

USUAL: Final = 95
"""The percentage of the time in which a team held at most its usual number of GPUs."""


def read_past_use(history: str) -> dict[str, dict[str, PastUse]]:
    """The use of each team by kind of GPU; the kind is empty where the history does not name one. Raises
    `ReplayFault`."""
    options = TraceOptions(keeps_records=True, flavors_of=lambda _team, kind, _nodes: (kind,) if kind else ())
    reader = TraceReader(history, teams=None, priority=Priority.LOW, options=options)
    trace = reader.read()
    if trace is None:
        raise ReplayFault([reader.faults])
    changes: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for job in trace.jobs:
        ended = trace.records.of(job.id).ended
        of_team = changes.setdefault((job.team.lower(), "".join(job.flavors)), [])
        of_team += ((ended - job.duration, job.gpus), (ended, -job.gpus))
    begin = min(rows[at][0] for rows in changes.values() for at in range(0, len(rows), 2))
    end = max(rows[at][0] for rows in changes.values() for at in range(1, len(rows), 2))
    found: dict[str, dict[str, PastUse]] = {}
    for (team, kind), rows in sorted(changes.items()):
        found.setdefault(team, {})[kind] = _use(list(_levels(sorted(rows), begin, end)), end - begin)
    return found


def _levels(changes: list[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """(GPUs held, for how long), one after the other."""
    held, since = 0, begin
    for at, change in [*changes, (end, 0)]:
        if at > since:
            yield held, at - since
        held, since = held + change, at


def _use(levels: list[tuple[int, int]], whole: int) -> PastUse:
    left = whole * USUAL
    usual = 0
    for gpus, time in sorted(levels):
        usual = gpus
        left -= 100 * time
        if left <= 0:
            break
    return PastUse(usual, sum(gpus * time for gpus, time in levels) / whole, max(gpus for gpus, _time in levels))
