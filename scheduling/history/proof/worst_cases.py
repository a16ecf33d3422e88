"""Why the worst cases wait: the engine's reason at the instant when the longest wait of each job began."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import Final

from pools.domain.values.amounts import amount_text, gpus_in
from pools.domain.values.counting import counted
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.reasons.explain import Explainer
from scheduling.history.proof.outcomes import SAME, JobOutcome
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayClock, ReplayObserver, ReplayRules
from scheduling.history.replay.jobs import Job

_GANG: Final = re.compile(r"\bj0*(\d+)\b")
STARTED_AT_ONCE: Final = "It does not wait longer; it ends later because it starts again after a preemption."


@dataclass(slots=True)
class _Waiting:
    """A live job: the reason at the begin of its present wait, and of its longest wait so far."""

    now: str = ""
    longest: str = STARTED_AT_ONCE
    length: int = 0


class WorstReasons(ReplayObserver):
    """Asks the engine whenever a wait begins, and keeps the answers of the jobs with the largest delay alone, so that
    one run of the jobs is enough. `clock` is to be set before it runs."""

    clock: ReplayClock

    def __init__(self, most: int, ended_before: Callable[[Job], int], left_out: Collection[int]) -> None:
        """`ended_before`: the recorded end of a job, on the clock of the replay; `left_out`: the numbers of jobs that
        do not count."""
        self._most, self._ended_before, self._left_out = most, ended_before, left_out
        self._live: dict[int, _Waiting] = {}
        self._stopped: list[LiveJob] = []
        self._worst: list[tuple[int, int, str]] = []

    @property
    def reasons(self) -> dict[int, str]:
        """The reasons by the number of the job."""
        return {-minus: reason for _delay, minus, reason in self._worst}

    def waits(self, clock: ReplayClock, live: LiveJob) -> None:
        self._live[live.job.id] = _Waiting(_reason(clock.state, live.name))

    def started(self, live: LiveJob) -> None:
        waiting = self._live.get(live.job.id)
        assert live.start is not None
        if waiting is not None and (wait := live.start - live.waits_since) > waiting.length:
            waiting.longest, waiting.length = waiting.now, wait

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        job = live.job
        if reason is EndReason.PREEMPTED:
            self._stopped.append(live)
            return
        waiting = self._live.pop(job.id, None)
        if job.id not in self._left_out and (later := now - self._ended_before(job)) >= SAME:
            case = (later * job.gpus, -job.id, STARTED_AT_ONCE if waiting is None else waiting.longest)
            (heappush if len(self._worst) < self._most else heappushpop)(self._worst, case)

    def instant_over(self, now: int) -> None:
        for live in self._stopped:
            if live.start is None:
                self._live.setdefault(live.job.id, _Waiting()).now = _reason(self.clock.state, live.name)
        self._stopped = []


def never_starting_reasons(cases: Iterable[JobOutcome], facts: ClusterFacts, rules: ReplayRules) -> dict[int, str]:
    """Why jobs do not start even on the empty cluster, by the number of the job."""
    clock = ReplayClock(facts, rules)
    return {case.job.id: _never(case, facts, clock) for case in cases}


def _never(case: JobOutcome, facts: ClusterFacts, clock: ReplayClock) -> str:
    gpus = sum(gpus_in(node.resources) for node in facts.nodes or ())
    if case.job.gpus > gpus:  # its gang would have more tasks than fit into memory
        return f"It asks for {counted(case.job.gpus, 'GPU')}; all nodes together have {amount_text(gpus)}."
    state = KeptState(facts)
    gang = clock.gang_of(case.job)
    state.arrived(gang)
    state.run()
    return _reason(state, gang.name)


def _reason(state: KeptState, name: str) -> str:
    reason = Explainer(state.world).explain(state.world.gang_of[name])
    return _GANG.sub(r"job \1", reason.message)
