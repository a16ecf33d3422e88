"""Why the worst cases wait: the engine's reason while the longest wait of each job lasts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush, heappushpop
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
NEXT_END: Final = "It waits for the next end of other work."


@dataclass(slots=True)
class _Waiting:
    """A live job, with the reason of its present wait and of its longest wait so far. A wait that ends before `due`
    does not make it one of the worst."""

    live: LiveJob
    due: int = 0
    now: str = ""
    longest: str = STARTED_AT_ONCE
    length: int = 0


class WorstReasons(ReplayObserver):
    """Asks the engine about each wait that may make a job one of the worst, and keeps the answers of those alone, so
    that one run of the jobs is enough. Until there are as many as wanted it asks when a wait begins, afterwards when
    half of the time is over that a wait has to last. `clock` is to be set before it runs."""

    clock: ReplayClock

    def __init__(self, most: int, ended_before: Callable[[Job], int], left_out: Collection[int]) -> None:
        """`ended_before`: the recorded end of a job, on the clock of the replay; `left_out`: the numbers of jobs that
        do not count."""
        self._most, self._ended_before, self._left_out = most, ended_before, left_out
        self._live: dict[int, _Waiting] = {}
        self._stopped: list[LiveJob] = []
        self._asks: list[tuple[int, int]] = []
        self._worst: list[tuple[int, int, str]] = []

    @property
    def reasons(self) -> dict[int, str]:
        """The reasons by the number of the job."""
        return {-minus: reason for _delay, minus, reason in self._worst}

    def waits(self, clock: ReplayClock, live: LiveJob) -> None:
        self._live[live.job.id] = waiting = _Waiting(live)
        self._ask(waiting, clock.now)

    def started(self, live: LiveJob) -> None:
        waiting = self._live.get(live.job.id)
        assert live.start is not None
        if waiting is None:
            return
        is_known = waiting.now != "" or live.start >= waiting.due
        if is_known and (wait := live.start - live.waits_since) > waiting.length:
            waiting.longest, waiting.length = waiting.now or NEXT_END, wait
        waiting.now = ""

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
                waiting = self._live.setdefault(live.job.id, _Waiting(live))
                waiting.live = live
                self._ask(waiting, now)
        self._stopped = []
        while self._asks and self._asks[0][0] <= now:
            found = self._live.get(heappop(self._asks)[1])
            if found is not None and found.live.start is None and not found.now:
                self._ask(found, now)

    def _ask(self, waiting: _Waiting, now: int) -> None:
        """Ask about a wait, or note when to."""
        job = waiting.live.job
        if job.id in self._left_out:
            return
        least = self._worst[0][0] if len(self._worst) == self._most else 0
        waiting.due = self._ended_before(job) + max(SAME, least // job.gpus) - job.duration
        since = waiting.live.waits_since
        if (at := since + (waiting.due - since) // 2) <= now or not least:
            waiting.now = _reason(self.clock.state, waiting.live.name)
        else:
            heappush(self._asks, (at, job.id))


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
