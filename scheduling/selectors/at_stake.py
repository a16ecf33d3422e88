"""Whose place the next settling would take, were things as this transaction sees them.

Asked inside a trial (:mod:`pools.services.dry_run`): the facts are read there, where the change is made; the engine
runs on them afterwards, when the trial is taken back and nobody waits for its locks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pools.domain.roles import Actor
from pools.models import Backend
from pools.signals import AtStake, Losses
from scheduling.domain.engine.facts import Facts, TaskState
from scheduling.domain.engine.settle import settle
from scheduling.domain.engine.steps import Action, Step
from scheduling.models import Workflow
from scheduling.selectors.live_facts import LiveFacts, live_facts

TAKES = frozenset({Action.RECLAIM, Action.PREEMPT})


def at_stake(actor: Actor, backend_ids: Collection[int]) -> AtStake:
    """Read the facts of these backends now, and give a function that tells what the next settling takes there."""
    read = [live_facts(backend) for backend in Backend.objects.filter(pk__in=backend_ids).order_by("name")]
    return lambda: _losses(actor, [live for live in read if _something_may_be_taken(live.facts)])


def losers(steps: Iterable[Step]) -> list[str]:
    """The gangs that lose tasks for others, in the order in which they do."""
    return list(dict.fromkeys(step.gang for step in steps if step.action in TAKES))


def _losses(actor: Actor, read: Iterable[LiveFacts]) -> Losses:
    taken = dict.fromkeys(live.gangs[name].workflow for live in read for name in losers(settle(live.facts).steps))
    seen = dict(Workflow.objects.visible_to(actor).filter(pk__in=taken).values_list("pk", "name"))
    return Losses(tuple(seen[workflow] for workflow in taken if workflow in seen), len(taken) - len(seen))


def _something_may_be_taken(facts: Facts) -> bool:
    return any(gang.preemptible and any(task.state is TaskState.RUNNING for task in gang.tasks) for gang in facts.gangs)
