"""Facts for a caller who may not see all of them: hidden queues, cohorts and gangs keep their numbers and lose their
names.

Names decide only the last of ties, so the redacted facts have the outcome of the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from scheduling.domain.engine.facts import ClusterFacts, CohortFacts, GangFacts, PolicyFacts, QueueFacts, TaskFacts

REDACTED_PREFIX = "others:"
"""The beginning of a redacted name; a real name may not contain a colon."""


def redact_facts(
    facts: ClusterFacts, *, queues: Collection[str], cohorts: Collection[str], gangs: Collection[str]
) -> ClusterFacts:
    """The same facts with only these names left."""
    called = {cohort.name: cohort.name for cohort in facts.cohorts} | {queue.name: queue.name for queue in facts.queues}
    hidden_cohorts = [cohort.name for cohort in facts.cohorts if cohort.name not in cohorts]
    called |= {name: f"{REDACTED_PREFIX}cohort-{n}" for n, name in enumerate(sorted(hidden_cohorts), 1)}
    called |= _queue_names(facts, queues)
    alias = _gang_names(facts, gangs)

    def name(old: str) -> str:
        # A gang may be in a queue that no longer exists.
        return called.get(old, f"{REDACTED_PREFIX}gone")

    return replace(
        facts,
        queues=tuple(_queue(queue, name) for queue in facts.queues),
        cohorts=tuple(_cohort(cohort, name) for cohort in facts.cohorts),
        gangs=tuple(_gang(gang, name(gang.queue), alias.get(gang.name)) for gang in facts.gangs),
        usage={name(queue): held for queue, held in facts.usage.items()},
        demand={name(queue): demand for queue, demand in facts.demand.items()},
        policy=None if facts.policy is None else _policy(facts.policy, alias),
    )


def _queue_names(facts: ClusterFacts, seen: Collection[str]) -> dict[str, str]:
    """`others:pool-1` for the top of a hidden branch, `others:pool-1--2` for the queues below it."""
    queues = {queue.name: queue for queue in facts.queues}
    names: dict[str, str] = {}
    below: dict[str, int] = {}
    for queue in sorted(facts.queues, key=lambda queue: (queue.parent in queues, queue.created, queue.name)):
        if queue.name in seen:
            continue
        parent = names.get(queue.parent or "")
        if parent is None:
            names[queue.name] = f"{REDACTED_PREFIX}pool-{len(names) - sum(below.values()) + 1}"
        else:
            below[parent] = below.get(parent, 0) + 1
            names[queue.name] = f"{parent}--{below[parent]}"
    return names


def _gang_names(facts: ClusterFacts, seen: Collection[str]) -> dict[str, str]:
    hidden = sorted(
        (gang for gang in facts.gangs if gang.name not in seen), key=lambda gang: (gang.submitted, gang.name)
    )
    return {gang.name: f"{REDACTED_PREFIX}work-{n}" for n, gang in enumerate(hidden, 1)}


def _queue(queue: QueueFacts, name: Callable[[str], str]) -> QueueFacts:
    return replace(queue, name=name(queue.name), parent=None if queue.parent is None else name(queue.parent))


def _cohort(cohort: CohortFacts, name: Callable[[str], str]) -> CohortFacts:
    return replace(cohort, name=name(cohort.name), parent=None if cohort.parent is None else name(cohort.parent))


def _policy(policy: PolicyFacts, alias: Mapping[str, str]) -> PolicyFacts:
    reservations = (replace(each, gang=alias.get(each.gang, each.gang)) for each in policy.reservations)
    return replace(policy, reservations=tuple(reservations))


def _gang(gang: GangFacts, queue: str, alias: str | None) -> GangFacts:
    if alias is None:
        return gang if gang.queue == queue else replace(gang, queue=queue)
    tasks = _tasks(gang.tasks, alias)
    others = tuple(_tasks(each, alias) for each in gang.alternatives)
    lead = next((tasks[n].name for n, task in enumerate(gang.tasks) if task.name == gang.lead), "")
    return replace(gang, name=alias, queue=queue, tasks=tasks, alternatives=others, lead=lead)


def _tasks(tasks: tuple[TaskFacts, ...], alias: str) -> tuple[TaskFacts, ...]:
    return tuple(replace(task, name=f"{alias}-{n}") for n, task in enumerate(tasks))
