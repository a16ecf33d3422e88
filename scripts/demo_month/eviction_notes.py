"""Notes what the receipts of the month say: the rule of each eviction, the numbers of both queues, the spared work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pools.domain.values import amounts
from scheduling.demo.month_file import MonthEviction, MonthJob
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.plan_units import VICTIM_ACTIONS
from scheduling.domain.receipts.causes import EndCause, QueueNumbers, cause_of_step, is_by_lowered_quota


class EvictionNotes:
    """Follows the cycles of one cluster."""

    def __init__(self, jobs: Sequence[MonthJob], queues: Mapping[str, str]) -> None:
        """`queues`: those of the leaves."""
        self._jobs, self._queues = jobs, queues
        self._held: dict[int, dict[str, float]] = defaultdict(dict)
        """When each running task of a job began."""
        self._quotas: dict[str, list[tuple[float, amounts.Amount]]] = defaultdict(list)
        """The quotas of each queue and since when it has had them."""
        self._used: dict[str, int] = {}

    def before_cycle(self, world: World) -> None:
        """Keep what the queues use."""
        gpu = world.keys.index(amounts.GPU) if amounts.GPU in world.keys else None
        self._used = {} if gpu is None else {queue.fact.name: int(queue.alloc[gpu]) for queue in world.queues}

    def ended(self, job: int) -> None:
        """A job holds nothing any more."""
        self._held.pop(job, None)

    def follow(self, steps: Sequence[Step], world: World, now: float, number: Mapping[str, int]) -> list[Sequence[Any]]:
        """What the receipt of each step says; empty for a start. The numbers are those before its plan unit."""
        for queue in world.queues if steps else ():
            quota = (queue.fact.quota or {}).get(amounts.GPU, 0)
            known = self._quotas[queue.fact.name]
            if not known or known[-1][1] != quota:
                known.append((now, quota))
        running = {job: len(tasks) * self._jobs[job].gpus for job, tasks in self._held.items()}
        before, found = dict(self._used), []
        for step in steps:
            job = number[step.gang]
            leaf, tasks = self._queues[self._jobs[job].leaf], self._held[job]
            if step.action in VICTIM_ACTIONS:
                found.append(self._why(step, before, world, running, number))
            else:
                found.append([])
            gpus = self._jobs[job].gpus
            if step.action is StepAction.MOVE:
                tasks.update(dict.fromkeys(step.tasks, now))
            elif step.action is StepAction.START:
                tasks.update(dict.fromkeys(step.tasks, now))
                self._used[leaf] += gpus * len(step.tasks)
                before = dict(self._used)
            else:
                for name in step.tasks:
                    tasks.pop(name, None)
                self._used[leaf] -= gpus * len(step.tasks)
        return found

    def _why(
        self,
        step: Step,
        used: Mapping[str, int],
        world: World,
        running: Mapping[int, int],
        number: Mapping[str, int],
    ) -> Sequence[Any]:
        loser = self._numbers(number[step.gang], used, world)
        taker = None if step.beneficiary is None else self._numbers(number[step.beneficiary], used, world)
        cause, at_start = cause_of_step(step), None
        if cause is EndCause.RECLAIM and loser.quota is not None:
            began = min(self._held[number[step.gang]][name] for name in step.tasks)
            queue = self._queues[self._jobs[number[step.gang]].leaf]
            past = [quota for since, quota in self._quotas[queue] if since <= began]
            if past and is_by_lowered_quota(loser.used, loser.quota, past[-1]):
                cause, at_start = EndCause.LOWERED_QUOTA, past[-1]
        eviction = step.eviction
        spared = () if eviction is None else eviction.spared
        return list(
            MonthEviction(
                cause.value,
                _listed(loser),
                [] if taker is None else _listed(taker),
                None if at_start is None else int(at_start),
                [[number[each.gang], running.get(number[each.gang], 0), each.by.value] for each in spared],
                eviction is not None and eviction.has_more,
            )
        )

    def _numbers(self, job: int, used: Mapping[str, int], world: World) -> QueueNumbers:
        leaf = self._jobs[job].leaf
        queue = world.queue_of[self._queues[leaf]]
        share = queue.fair[world.keys.index(amounts.GPU)]
        return QueueNumbers(leaf, self._quotas[queue.fact.name][-1][1], used[queue.fact.name], share)


def _listed(numbers: QueueNumbers) -> list[Any]:
    told = numbers.as_json()
    return [told["quota"], told["used"], told["share"]]
