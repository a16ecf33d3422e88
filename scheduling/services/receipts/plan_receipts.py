"""The facts of the receipts of a plan: the rule of each eviction, the numbers of both queues, and the spared work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from pools.database.statements import execute_sql
from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount, flavor_of, gpu_key, is_gpu, sum_amounts
from scheduling.domain.engine.facts import GangFacts, TaskState
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.plan_units import Gates, PlanUnit
from scheduling.domain.receipts.causes import (
    EndCause,
    InterruptionFacts,
    QueueNumbers,
    cause_of_step,
    is_by_lowered_quota,
)
from scheduling.selectors.queue.live_facts import LiveFacts

_QUOTA_AT = """
    SELECT quota - COALESCE((
        SELECT sum(part.quota) FROM scheduling_quotaspan part
        WHERE part.parent_id = span.pool_id AND part.flavor = span.flavor AND part.since <= %(at)s
            AND (part.until IS NULL OR part.until > %(at)s)
    ), 0)
    FROM scheduling_quotaspan span
    WHERE span.pool_id = %(leaf)s AND span.flavor = %(flavor)s AND NOT span.is_unlimited
        AND span.since <= %(at)s AND (span.until IS NULL OR span.until > %(at)s)
"""
"""The quota of a leaf in one flavor at a time; of a shared leaf that of its pool without the subpools."""


class PlanReceipts:
    """What the receipts of one plan say. Nothing is read until work is evicted."""

    def __init__(self, live: LiveFacts, world: World) -> None:
        self._live, self._world = live, world

    def queue_numbers(self, gates: Gates, unit: PlanUnit) -> dict[int, QueueNumbers]:
        """The numbers of the leaves of the gangs of a unit that ends attempts, before it: those of the GPU flavor that
        is taken."""
        if not unit.ends_attempts:
            return {}
        flavor, found = self._taken_flavor(unit), {}
        for leaf, pool in {(self._live.gangs[gang].leaf, self._live.gangs[gang].pool) for gang in unit.gangs}:
            if path := gates.path(leaf, flavor):
                found[leaf] = QueueNumbers(pool, path[0].quota, path[0].total_usage, self._share(leaf, flavor))
        return found

    def _taken_flavor(self, unit: PlanUnit) -> str:
        """The flavor of the first task that the unit ends."""
        return self._flavor_of(next(step for step in unit.steps if step.action is not StepAction.START))

    def _flavor_of(self, step: Step) -> str:
        """The flavor of the first task of a step."""
        task = next(task for task in self._facts[step.gang].tasks if task.name in step.tasks)
        return next((flavor_of(key) for key in task.request if is_gpu(key)), DEFAULT_FLAVOR)

    def facts(self, step: Step, numbers: Mapping[int, QueueNumbers], started: datetime) -> InterruptionFacts:
        """Those of the attempts that a step ends; the first of them started at `started`."""
        gang, cause = self._live.gangs[step.gang], cause_of_step(step)
        taker = None if step.beneficiary is None else self._live.gangs[step.beneficiary]
        told: dict[str, Any] = {}
        loser = numbers.get(gang.leaf)
        if loser is not None:
            told["loser"] = loser.as_json()
        if taker is not None and taker.leaf in numbers:
            told["taker"] = numbers[taker.leaf].as_json()
        if cause is EndCause.RECLAIM and loser is not None and loser.quota is not None:
            before = _quota_at(gang.leaf, self._flavor_of(step), started)
            if is_by_lowered_quota(loser.used, loser.quota, before):
                cause, told["quota_at_start"] = EndCause.LOWERED_QUOTA, before
        spared, has_more = self._spared(step)
        for_workflow = None if taker is None else taker.workflow
        return InterruptionFacts(cause, for_workflow, numbers=told, spared=spared, has_more_spared=has_more)

    def _spared(self, step: Step) -> tuple[list[dict[str, Any]], bool]:
        if step.eviction is None:
            return [], False
        spared = [
            {
                "workflow": str(self._live.gangs[each.gang].workflow),
                "gang": each.gang,
                **_running_gpus(self._facts[each.gang]),
                "by": str(each.by),
            }
            for each in step.eviction.spared
            if each.gang in self._live.gangs
        ]
        return spared, step.eviction.has_more

    def _share(self, leaf: int, flavor: str) -> Amount | None:
        queue = self._world.queue_of.get(self._queue_names.get(leaf, ""))
        if queue is None or gpu_key(flavor) not in self._world.keys:
            return None
        return queue.fair[self._world.keys.index(gpu_key(flavor))]

    @cached_property
    def _queue_names(self) -> Mapping[int, str]:
        return {leaf: name for name, leaf in self._live.leaves.items()}

    @cached_property
    def _facts(self) -> Mapping[str, GangFacts]:
        return {gang.name: gang for gang in self._live.facts.gangs}


def _running_gpus(gang: GangFacts) -> dict[str, Any]:
    """The GPUs of a gang that run, and those of each flavor where it has one."""
    sums = sum_amounts(task.request for task in gang.tasks if task.state is TaskState.RUNNING)
    by_flavor = {flavor_of(key): int(amount) for key, amount in sums.items() if is_gpu(key)}
    named = {"by_flavor": by_flavor} if by_flavor.keys() - {DEFAULT_FLAVOR} else {}
    return {"gpus": sum(by_flavor.values()), **named}


def _quota_at(leaf: int, flavor: str, at: datetime) -> int | None:
    row = execute_sql(_QUOTA_AT, {"leaf": leaf, "flavor": flavor, "at": at}).fetchone()
    return None if row is None else int(row[0])
