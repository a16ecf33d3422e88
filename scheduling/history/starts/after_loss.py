"""When work starts again that lost its nodes: the forecast of a what-if about nodes (docs/bad-day.md). Nothing is
written."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from pools.models import Backend
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskState
from scheduling.garbage_collector import garbage_collector
from scheduling.history.forecast.chance import SPREAD
from scheduling.history.forecast.futures import NEVER, sample_waits
from scheduling.history.starts.background import read_calibration, sum_up
from scheduling.history.starts.forecast_facts import read_forecast_facts
from scheduling.selectors.queue.kept_starts import GangStart

LEAST_FUTURES = 2
SECONDS = 0.4
"""The time for the futures; the least number of them is made in any case."""


def starts_after_loss(backend: Backend, facts: ClusterFacts, wanted: Collection[str]) -> Mapping[str, GangStart]:
    """The forecast starts of these gangs, which wait in `facts`: the live facts after a loss of nodes."""
    known = read_forecast_facts(backend, even_if_nothing_waits=True)
    assert known is not None, "the facts are wanted in any case"
    left = {gang.name: gang for gang in facts.gangs}
    gangs = {
        name: replace(info, started=None) if _waits(left[name]) else info
        for name, info in known.present.gangs.items()
        if name in left and any(task.state is not TaskState.FINISHED for task in left[name].tasks)
    }
    present = replace(known.present, facts=facts, gangs=gangs)
    waiting = {name: known.live.gangs[name].group for name, info in gangs.items() if info.started is None}
    places, calibration = replace(known, present=present, waiting=waiting).places(), read_calibration(backend)
    chosen = [name for name in wanted if name in waiting]
    until, futures = time.monotonic() + SECONDS, list[dict[str, float]]()
    with garbage_collector.paused():
        for number in range(SPREAD if chosen else 0):
            if number >= LEAST_FUTURES and time.monotonic() > until:
                break
            futures += sample_waits(present, chosen, [number])
    found = {}
    for name in chosen:
        sampled = sum_up([min(future[name], NEVER) for future in futures], places[name], calibration)
        p10, p50, p90 = sampled.times(known.now)
        record = sampled.record
        found[name] = GangStart(
            known.now, p10, p50, p90, sampled.never, like=record.like, in_time=record.in_time, samples=sampled.samples
        )
    return found


def _waits(gang: GangFacts) -> bool:
    return not any(task.state in {TaskState.RUNNING, TaskState.RELEASING} for task in gang.tasks)
