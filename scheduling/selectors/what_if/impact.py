"""The impact of a change: which work the next cycle would reclaim, which would start, and which would no longer start.

A dry run (:mod:`pools.services.changes.dry_run`) reads the facts while its change is made. The engine runs on them
afterwards, when the change is rolled back and no lock is held. Then the facts without the change are read, and both
results are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from pools.database.transactions import database_time
from pools.domain.people.roles import Actor
from pools.models import Backend
from pools.selectors.change_tokens import read_tokens
from pools.signals import AffectedWorkflows, Impact, ImpactReader
from scheduling.domain.engine.cycle import CycleResult, run_cycle
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, TaskState
from scheduling.domain.engine.outcome import GangResult, gang_result, waiting_reasons
from scheduling.domain.engine.steps import Step
from scheduling.domain.judgement.shown_effects import EVICTING_ACTIONS, WorkEffect, effect_of_steps
from scheduling.garbage_collector import garbage_collector
from scheduling.models import Workflow
from scheduling.selectors.queue.dispatch_holds import held_by, read_dispatch_holds, with_holds
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts
from scheduling.selectors.queue.pending_queue import queue_subjects

MAX_WAITING_ON_PAGE = 1000
"""With this number of waiting gangs a page does not wait for the engine."""


def read_impact(actor: Actor, backend_ids: Collection[int], tokens: Mapping[str, str] | None = None) -> ImpactReader:
    """Read the facts of these backends now; return a function that computes the impact of the next cycle there. With
    the change tokens before the change, the impact has memos for those backends whose cycle can be compared with it."""
    backends = list(Backend.objects.filter(pk__in=backend_ids).order_by("name"))
    read = {backend.pk: _read_with_holds(backend) for backend in backends}
    seen = {} if tokens is None else _seen_tokens(backends, tokens)
    now = database_time()

    def read_now() -> Impact:
        impacts = {pk: _read_backend_impact(pk, live) for pk, live in read.items() if _may_change(live.facts)}
        memos = (_memo(pk, read[pk], each, seen[pk], now) for pk, each in impacts.items() if pk in seen and each)
        return replace(_build_impact(actor, list(impacts.values())), memos=tuple(memos))

    return read_now


def _seen_tokens(backends: Iterable[Backend], tokens: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Of the backends that run cycles: the tokens of all that a cycle reads. Those of a cluster are empty: its own
    scheduler decides, and nothing can be compared."""
    return {
        each.pk: {subject: tokens.get(subject, "") for subject in queue_subjects(each)}
        if each.kind == Backend.Kind.SIMULATED
        else {}
        for each in backends
        if not each.offline
    }


def _memo(
    backend_id: int, live: LiveFacts, impact: _BackendImpact, tokens: Mapping[str, str], now: datetime
) -> dict[str, Any]:
    policy = live.facts.policy
    return {
        "backend": backend_id,
        "shown_at": now.isoformat(),
        "clock": "" if policy is None else str(policy.now),
        "tokens": tokens,
        "lost": impact.effect.lost,
        "started": impact.effect.started,
    }


def waiting_groups(live: LiveFacts) -> set[str]:
    """The ids of the groups of which nothing runs."""
    return {str(live.gangs[gang.name].group) for gang in live.facts.gangs if _is_waiting(gang)}


def effect_of_plan(live: LiveFacts, plan: CycleResult) -> WorkEffect:
    """What a plan of these facts does to work."""
    steps = ((step.action, str(live.gangs[step.gang].group)) for step in plan.steps)
    return effect_of_steps(steps, waiting_groups(live))


def read_cancel_impact(actor: Actor, workflows: Collection[Workflow]) -> Impact | None:
    """The impact of the cancellation of these workflows, read without a change: the same facts without their gangs.
    With memos, as of a dry run. None where the answer would take seconds, because many gangs wait."""
    gone = {workflow.pk for workflow in workflows}
    impacts, memos, now = [], [], database_time()
    backends = list(Backend.objects.filter(pk__in={workflow.root_pool.backend_id for workflow in workflows}))
    seen = _seen_tokens(backends, read_tokens())
    for backend in backends:
        live = _read_with_holds(backend, gone)
        if sum(_is_waiting(gang) for gang in live.facts.gangs) >= MAX_WAITING_ON_PAGE:
            return None
        left = tuple(gang for gang in live.facts.gangs if live.gangs[gang.name].workflow not in gone)
        changed = replace(live, facts=replace(live.facts, gangs=left))
        if _may_change(changed.facts):
            impacts.append(impact := _read_backend_impact(backend.pk, changed))
            if impact and backend.pk in seen:
                memos.append(_memo(backend.pk, changed, impact, seen[backend.pk], now))
    return replace(_build_impact(actor, impacts), memos=tuple(memos))


def _read_with_holds(backend: Backend, gone: Collection[UUID] = ()) -> LiveFacts:
    """The facts, in which work that is held back for a gang of its pool does not start. Gangs of the workflows in
    `gone` hold nothing."""
    live = read_live_facts(backend)
    holds = read_dispatch_holds(backend, live)
    held = held_by(holds.held_names(live), lambda first: live.gangs[first].workflow not in gone)
    return replace(live, facts=with_holds(live.facts, held)) if held else live


def losing_gangs(steps: Iterable[Step]) -> list[str]:
    """The gangs that lose tasks to other gangs, in the order of the steps."""
    return list(dict.fromkeys(step.gang for step in steps if step.action in EVICTING_ACTIONS))


@dataclass(frozen=True, slots=True)
class _BackendImpact:
    """The affected workflows of one backend, and all that the next cycle does; false if it shows no effect."""

    reclaimed: list[UUID]
    starting: list[UUID]
    blocked: list[UUID]
    effect: WorkEffect

    def __bool__(self) -> bool:
        return bool(self.reclaimed or self.starting or self.blocked)


def _read_backend_impact(backend_id: int, changed: LiveFacts) -> _BackendImpact:
    with garbage_collector.paused():
        after = run_cycle(changed.facts)
    reclaimed = [changed.gangs[name].workflow for name in losing_gangs(after.steps)]
    effect = effect_of_plan(changed, after)
    # The database returns gangs in no order; readers see them as their queue has them.
    queued = sorted(filter(_is_waiting, changed.facts.gangs), key=lambda gang: (-gang.priority, gang.submitted))
    waiting = [gang.name for gang in queued]
    if not waiting:
        return _BackendImpact(reclaimed, [], [], effect)
    backend = Backend.objects.filter(pk=backend_id).first()  # read again: the dry run may have changed the backend
    with garbage_collector.paused():
        before = run_cycle(ClusterFacts() if backend is None else _read_with_holds(backend).facts)
    started, will_start = _running_gangs(before, waiting), _running_gangs(after, waiting)
    never_starting = _find_never_starting(after).intersection(waiting)
    if never_starting:
        never_starting -= _find_never_starting(before)

    def workflows(found: Collection[str]) -> list[UUID]:
        return [changed.gangs[name].workflow for name in waiting if name in found]

    return _BackendImpact(
        reclaimed, workflows(will_start - started), workflows((started - will_start) | never_starting), effect
    )


def _running_gangs(result: CycleResult, names: Iterable[str]) -> set[str]:
    """The gangs among these that hold their minimum after the cycle."""
    known = result.world.gang_of
    return {name for name in names if name in known and gang_result(known[name]) is GangResult.RUNNING}


def _find_never_starting(result: CycleResult) -> set[str]:
    with garbage_collector.paused():
        reasons = waiting_reasons(result.world)
    return {name for name, reason in reasons.items() if reason.is_permanent}


def _build_impact(actor: Actor, impacts: Collection[_BackendImpact]) -> Impact:
    return Impact(
        reclaimed=_affected_workflows(actor, [pk for each in impacts for pk in each.reclaimed]),
        starting=_affected_workflows(actor, [pk for each in impacts for pk in each.starting]),
        blocked=_affected_workflows(actor, [pk for each in impacts for pk in each.blocked]),
    )


def _affected_workflows(actor: Actor, workflows: Iterable[UUID]) -> AffectedWorkflows:
    each = dict.fromkeys(workflows)
    if not each:
        return AffectedWorkflows()
    visible = dict(Workflow.objects.visible_to(actor).filter(pk__in=each).values_list("pk", "name"))
    return AffectedWorkflows(
        tuple(visible[workflow] for workflow in each if workflow in visible), len(each) - len(visible)
    )


def _may_change(facts: ClusterFacts) -> bool:
    """Whether any work waits, or runs and is preemptible."""
    return any(
        _is_waiting(gang) or (gang.preemptible and any(task.state is TaskState.RUNNING for task in gang.tasks))
        for gang in facts.gangs
    )


def _is_waiting(gang: GangFacts) -> bool:
    """Whether a gang waits and none of its tasks runs."""
    states = {task.state for task in gang.tasks}
    return TaskState.PENDING in states and TaskState.RUNNING not in states
