"""When new work may start by totals of the other work alone, without a look at each running gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.steps import Step, StepAction


def starts_everything(facts: ClusterFacts, new: Collection[str], steps: Sequence[Step]) -> bool:
    """Whether the steps start every task of these gangs that has no start reservation, and do nothing else."""
    reserved = set() if facts.policy is None else {each.gang for each in facts.policy.reservations}
    waiting = Counter(
        {gang.name: len(gang.tasks) for gang in facts.gangs if gang.name in new and gang.name not in reserved}
    )
    started = Counter(name for step in steps for name in [step.gang] * len(step.tasks))
    return waiting == started and all(step.action is StepAction.START for step in steps)
