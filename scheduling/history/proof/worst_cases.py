"""Why the worst cases wait: the engine's reason at the instant when the longest wait of each job began."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pools.domain.values.amounts import GPU, amount_text
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.reasons.explain import Explainer
from scheduling.history.proof.outcomes import JobOutcome
from scheduling.history.replay.clock import ReplayClock, ReplayRules, gang_name
from scheduling.history.replay.jobs import JobTable

_GANG: Final = re.compile(r"\bj0*(\d+)\b")
_STARTED_AT_ONCE: Final = "It does not wait longer; it ends later because it starts again after a preemption."


def reasons_of(worst: Sequence[JobOutcome], facts: ClusterFacts, rules: ReplayRules, jobs: JobTable) -> dict[int, str]:
    """The reasons by the number of the job. Runs the jobs once more, up to the last of these instants."""
    clock = ReplayClock(facts, rules)
    found: dict[int, str] = {}
    open_cases: dict[int, list[JobOutcome]] = {}
    for case in worst:
        if case.end_after is None:
            found[case.job.id] = _never(case, facts, clock)
        else:
            open_cases.setdefault(case.longest_since, []).append(case)
    last = max(open_cases, default=-1)
    for now in clock.run(jobs) if open_cases else ():
        for case in open_cases.pop(now, ()):
            live = clock.live.get(gang_name(case.job.id))
            found[case.job.id] = (
                _STARTED_AT_ONCE if live is None or live.start is not None else _reason(clock.state, live.name)
            )
        if now >= last:
            break
    return found


def _never(case: JobOutcome, facts: ClusterFacts, clock: ReplayClock) -> str:
    """Why it does not start even on the empty cluster."""
    gpus = sum(node.resources.get(GPU, 0) for node in facts.nodes or ())
    if case.job.gpus > gpus:  # its gang would have more tasks than fit into memory
        return f"It asks for {case.job.gpus:,} GPUs; all nodes together have {amount_text(gpus)}."
    state = KeptState(facts)
    gang = clock.gang_of(case.job)
    state.arrived(gang)
    state.run()
    return _reason(state, gang.name)


def _reason(state: KeptState, name: str) -> str:
    reason = Explainer(state.world).explain(state.world.gang_of[name])
    return _GANG.sub(r"job \1", reason.message)
