"""Quota advice from files: a trace and a cluster in, proposals with ready dry runs out. Nothing is applied."""

from __future__ import annotations

import time
from typing import Any

from pools.domain.errors import Fault
from scheduling.garbage_collector import garbage_collector
from scheduling.history.advisor.advice import Window, advise, guaranteed_by_team, use_by_team
from scheduling.history.advisor.allotment import find_pools
from scheduling.history.advisor.trials import TraceTrials
from scheduling.history.replay.jobs import SECOND
from scheduling.history.traces.faults import FileFaults, ReplayFault
from scheduling.history.traces.run import Progress, ReplayRequest, Report, read_input


def advise_from_files(request: ReplayRequest, replays: int, report: Report = lambda _progress: None) -> dict[str, Any]:
    """The advice for the pools of `request.on` from its trace, in at most `tries` replays besides today's. Raises
    `ReplayFault`."""
    began = time.monotonic()
    given = read_input(request)
    facts, jobs = given.clusters[request.on], given.jobs
    pools = find_pools(facts)
    if not pools:
        faults = FileFaults(request.on)
        message = (
            "There is nothing to advise on: no two leaves with whole quotas have the same parent, and none can lend."
        )
        faults.add(None, "queues", Fault.BAD_VALUE, message)
        raise ReplayFault([faults])

    def tell(replay: int, arrived: int, now: int) -> None:
        name = f"replay {replay} of at most {replays + 2}"
        report(Progress(name, arrived, len(jobs), now // SECOND))

    with garbage_collector.paused():
        trials = TraceTrials(facts, jobs, request.rules, tell=tell)
        hours = float(trials.today.summary["makespan_s"] or 0) / 3600
        window = Window(use_by_team(jobs), guaranteed_by_team(jobs), hours, trials.idle_promises)
        answer = advise(pools, trials, window, replays=replays)
    return {**answer, "notes": list(given.notes), "seconds": round(time.monotonic() - began, 3)}
