"""How many GPUs each team held at one time in a history: what it usually needs, as a proposal of its quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pools.domain.errors import Fault
from scheduling.domain.priorities import Priority
from scheduling.history.traces.faults import ReplayFault
from scheduling.history.traces.lines import Source
from scheduling.history.traces.trace import TraceOptions, TraceReader
from scheduling.moving_in.options import ALL_KINDS, HistoryUse, PastUse

USUAL: Final = 95
"""The percentage of the time in which a team held at most its usual number of GPUs."""


def read_past_use(history: Source) -> HistoryUse:
    """The use of each team by kind of GPU, and of several kinds together (`ALL_KINDS`): the usual use of the sum is not
    the sum of the usual ones. The kind is empty where the history does not name one. Raises `ReplayFault`."""
    options = TraceOptions(keeps_records=True, flavors_of=lambda _team, kind, _nodes: (kind,) if kind else ())
    reader = TraceReader(history, teams=None, priority=Priority.LOW, options=options)
    trace = reader.read()
    if trace is None:
        raise ReplayFault([reader.faults])
    changes: dict[tuple[str, str], list[tuple[int, int]]] = {}
    jobs: dict[tuple[str, str], int] = {}
    for job in trace.jobs:
        key = (job.team.lower(), "".join(job.flavors))
        jobs[key] = jobs.get(key, 0) + 1
        of_team = changes.setdefault(key, [])
        for started, ended in trace.records.of(job.id).runs():
            of_team += ((started, job.gpus), (ended, -job.gpus))
    begin = min(rows[at][0] for rows in changes.values() for at in range(0, len(rows), 2))
    end = max(rows[at][0] for rows in changes.values() for at in range(1, len(rows), 2))
    if begin == end:
        reader.faults.add(None, "", Fault.BAD_VALUE, "No job of the history held GPUs for any time.")
        raise ReplayFault([reader.faults])
    for team in {team for team, _kind in changes}:
        kinds = [rows for (name, _kind), rows in changes.items() if name == team]
        if len(kinds) > 1:
            changes[team, ALL_KINDS] = [change for rows in kinds for change in rows]
            jobs[team, ALL_KINDS] = sum(count for (name, _kind), count in jobs.items() if name == team)
    found: dict[str, dict[str, PastUse]] = {}
    for (team, kind), rows in sorted(changes.items()):
        found.setdefault(team, {})[kind] = _use(
            list(_levels(sorted(rows), begin, end)), end - begin, jobs[team, kind]
        )  # fmt: skip
    return HistoryUse(found, trace.notes)


def _levels(changes: list[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """(GPUs held, for how long), one after the other."""
    held, since = 0, begin
    for at, change in [*changes, (end, 0)]:
        if at > since:
            yield held, at - since
        held, since = held + change, at


def _use(levels: list[tuple[int, int]], whole: int, jobs: int) -> PastUse:
    left = whole * USUAL
    usual = 0
    for gpus, time in sorted(levels):
        usual = gpus
        left -= 100 * time
        if left <= 0:
            break
    most = max(gpus for gpus, _time in levels)
    return PastUse(usual, sum(gpus * time for gpus, time in levels) / whole, most, jobs)
