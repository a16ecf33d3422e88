"""Compares the decisions of an observed cluster's scheduler with what our engine does with the same facts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import connection

from pools.database.transactions import change, database_time
from pools.domain.names import with_pool_names
from pools.domain.people.roles import SYSTEM
from pools.domain.values.amounts import gpus_in
from pools.models import Backend
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.outcome import waiting_reasons
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.observed.differences import (
    MAX_KEPT,
    FoundDifference,
    OurPlan,
    SeenDecision,
    Wait,
    find_differences,
    find_left_waiting,
    planned_since,
)
from scheduling.domain.observed.seen_pods import SeenWork
from scheduling.domain.statuses import TaskStatus
from scheduling.models import ObservedWork, SchedulerDifference
from scheduling.selectors.queue.live_facts import GangRef, LiveFacts, read_live_facts

PATIENCE_SECONDS = 60.0
"""So long our engine must start a gang, plan after plan, before it counts that the other scheduler did not."""

_EVICTIONS = frozenset({StepAction.RECLAIM, StepAction.PREEMPT, StepAction.GIVE_UP})

Decided = tuple[SeenWork, bool, int]
"""Work that started (or, False, lost GPUs) since the last look, and the GPUs."""


def decisions_between(before: Sequence[SeenWork], now: Sequence[SeenWork]) -> list[Decided]:
    """The starts of work of which nothing ran, and the preemptions, between the state without them and the state now.
    Pods that running work gets besides are no start."""
    found: list[Decided] = []
    for old, new in zip(before, now, strict=True):
        status = {pod.uid: pod.status for pod in old.pods}
        started = [
            pod for pod in new.pods if pod.status is TaskStatus.RUNNING and status.get(pod.uid) is TaskStatus.SCHEDULING
        ]
        lost = [
            pod
            for pod in new.pods
            if pod.status is TaskStatus.FAILED_PREEMPTED and status.get(pod.uid) is TaskStatus.RUNNING
        ]
        if started and TaskStatus.RUNNING not in status.values():
            found.append((new, True, sum(pod.gpus for pod in started)))
        if lost:
            found.append((new, False, sum(pod.gpus for pod in lost)))
    return found


class DifferenceWatch:
    """The comparison of one backend."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def judge(self, backend: Backend, decided: Sequence[Decided]) -> int:
        """Compare these decisions; the ledger has the state before them. Returns the number of differences."""
        live = read_live_facts(backend)
        names = _gang_names(live)
        workflows: dict[str, UUID] = dict(
            ObservedWork.objects.filter(
                backend=backend, is_open=True, uid__in=[work.uid for work, _, _ in decided]
            ).values_list("uid", "workflow_id")
        )
        seen = [
            SeenDecision(name, is_start, gpus)
            for work, is_start, gpus in decided
            if (name := names.get(workflows.get(work.uid))) is not None
        ]
        found = find_differences(seen, _plan(backend, live))
        _save(backend, live.gangs, found)
        return len(found)

    def judge_waiting(self, backend: Backend) -> int:
        """Compare what waits now; each gang is recorded once until our engine lets it wait, too."""
        live = read_live_facts(backend)
        plan, now = _plan(backend, live), time.monotonic()
        self._since = planned_since(self._since, plan.starts, now)
        self._told &= plan.starts.keys()
        waiting = {
            gang.name: int(sum(gpus_in(task.request) for task in gang.tasks))
            for gang in live.facts.gangs
            if gang.name in plan.starts and gang.name not in self._told
        }
        found = find_left_waiting(waiting, plan, self._since, now, patience=PATIENCE_SECONDS)
        _save(backend, live.gangs, found)
        self._told |= {each.gang for each in found}
        return len(found)


def _gang_names(live: LiveFacts) -> Mapping[UUID | None, str]:
    return {ref.workflow: name for name, ref in live.gangs.items()}


def _plan(backend: Backend, live: LiveFacts) -> OurPlan:
    cycle = run_cycle(live.facts)
    starts: dict[str, str] = {}
    evictions: dict[str, str] = {}
    for step in cycle.steps:
        text = with_pool_names(step.message, backend.namespace)
        if step.action is StepAction.START:
            starts[step.gang] = text
        elif step.action in _EVICTIONS:
            evictions[step.gang] = text
    waits = {
        gang: Wait(str(reason.code), with_pool_names(reason.message, backend.namespace))
        for gang, reason in waiting_reasons(cycle.world).items()
    }
    return OurPlan(starts, evictions, waits)


def _save(backend: Backend, gangs: Mapping[str, GangRef], found: Sequence[FoundDifference]) -> None:
    if not found:
        return
    with change(actor=SYSTEM, description="observed", controller_of=backend.pk):
        now = database_time()
        SchedulerDifference.objects.bulk_create(
            SchedulerDifference(
                time=now,
                kind=each.kind.value,
                backend=backend,
                pool_id=gangs[each.gang].leaf,
                workflow_id=gangs[each.gang].workflow,
                gpus=each.gpus,
                rule=each.rule,
                message=each.message,
                instead=list(each.instead),
            )
            for each in found
        )
        with connection.cursor() as cursor:
            cursor.execute(_DELETE_SURPLUS, [backend.pk, backend.pk, MAX_KEPT])


_DELETE_SURPLUS = """
    DELETE FROM scheduling_schedulerdifference WHERE backend_id = %s AND id <= (
        SELECT id FROM scheduling_schedulerdifference WHERE backend_id = %s ORDER BY id DESC OFFSET %s LIMIT 1
    )
"""
