"""A clock over the engine for tests of policies: jobs arrive, run and end, and the engine runs at each instant."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, PolicyFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.engine.steps import StepAction


@dataclass
class Job:
    """A gang that arrives at `fact.submitted` and runs for `duration` once it has all its tasks."""

    fact: object
    duration: int


def run_stream(start, jobs, *, policy=None, compare=False, until=10**7):
    """Run all jobs to their end: `{name: the time of its first start}`. With `compare`, a fresh run of the facts gives
    the steps of the kept state at every instant."""
    facts = replace(start, policy=policy)
    kept, first, ends, generation = KeptState(facts), {}, {}, {}
    arrivals = sorted(jobs, key=lambda job: (job.fact.submitted, job.fact.name))
    by_name = {job.fact.name: job for job in arrivals}
    while arrivals or ends:
        now = min([job.fact.submitted for job in arrivals[:1]] + [end for end, _n in ends.values()])
        if now > until:
            break
        for name in sorted(name for name, (end, _n) in ends.items() if end == now):
            del ends[name]
            kept.ended(name)
            facts = replace(facts, gangs=tuple(g for g in facts.gangs if g.name != name))
        while arrivals and arrivals[0].fact.submitted == now:
            job = arrivals.pop(0)
            kept.arrived(job.fact)
            facts = replace(facts, gangs=(*facts.gangs, job.fact))
        settled = kept.run(now)
        if compare:
            if facts.policy is not None:
                facts = replace(facts, policy=replace(facts.policy, now=now))
            fresh = run_cycle(facts)
            assert fresh.steps == settled.steps
            facts = facts_after(fresh)
            assert facts.policy == kept.facts().policy
            assert sorted(facts.gangs, key=lambda g: g.name) == list(kept.facts().gangs)
        for step in settled.steps:
            if step.action is StepAction.START or step.action is StepAction.MOVE:
                first.setdefault(step.gang, now)
                ends[step.gang] = (now + by_name[step.gang].duration, generation.get(step.gang, 0))
            else:
                ends.pop(step.gang, None)
    return first


def no_facts(queues, nodes):
    """An empty cluster."""
    return ClusterFacts(tuple(queues), nodes=tuple(nodes))


def after(seconds, *, ageing=None):
    """A policy with reservations after this number of seconds."""
    return PolicyFacts(reserve_after=seconds, ageing=ageing)
