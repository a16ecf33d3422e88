"""Sampled futures: the one engine, run from the present state, on drawn run times and arrivals.

A future looks at the engine at most `STEPS` times: first every few seconds, later in steps that grow with the time from
now. It stops when the wanted work has started. docs/forecast.md says what else is approximated. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import inf

from pools.domain.values.amounts import Amount, Number, gpu_amounts, is_gpu, sum_amounts
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, QueueFacts, TaskFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.moved_nodes import keep_from_moved, moved_nodes, nodes_after
from scheduling.domain.engine.pool_quotas import QuotaReturns, give_remainder, with_gpu_quota
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.flavor_choices import FlavorHolders
from scheduling.history.forecast.arrivals import RecentArrivals
from scheduling.history.forecast.runtimes import RunTimeDraws, RunTimes, WorkKind

STEPS = 120
FIRST_STEP = 15.0
GROWTH = 0.1
ARRIVALS = 250
NEVER = 60 * 86_400.0
"""The wait of work that has not started when a future stops."""


@dataclass(frozen=True, slots=True)
class GangInfo:
    """What is known of a gang of the facts. `started`: when it started, None while it waits. `longest`: the seconds
    that an earlier attempt ran before it was preempted. `workflow`: its id; gangs of none are one workflow each."""

    kind: WorkKind
    started: float | None = None
    longest: float = 0.0
    workflow: str = ""


@dataclass(frozen=True, slots=True)
class Present:
    """All that a forecast knows. `gangs`: the gangs of the facts, by name; others neither end nor have a forecast.
    `held`: waiting gangs that come to some or all of their flavors when others have started, by name. `returns`: the
    pools of which subpools drain or have a temporary quota."""

    now: float
    facts: ClusterFacts
    gangs: Mapping[str, GangInfo]
    run_times: RunTimes
    arrivals: RecentArrivals
    held: Mapping[str, FlavorHolders] = field(default_factory=dict)
    returns: Sequence[QuotaReturns] = ()


def sample_waits(
    present: Present, wanted: Collection[str], futures: Iterable[int], *, leave: bool = False
) -> list[dict[str, float]]:
    """The waits from now of the waiting gangs, in each of the futures, which are identified by numbers. Of those that
    had not started when a future stopped, the wanted gangs have `NEVER` and the others nothing.

    `leave`: the wanted gangs are alternatives to each other, so each leaves the cluster in the instant of its start."""
    moved = moved_nodes(present.facts.nodes or (), (task for fact in present.facts.gangs for task in fact.tasks))
    return [_Future(present, number, moved).run(wanted, leave=leave) for number in futures]


class _Future:
    def __init__(self, present: Present, future: int, moved: Mapping[str, frozenset[str]]) -> None:
        self._now = now = present.now
        self._barred: dict[str, set[str]] = {name: set(flavors) for name, flavors in present.held.items()}
        """The flavors in which a gang is held now."""
        self._held: dict[tuple[str, ...], list[tuple[GangFacts, str]]] = {}
        """The gangs that are held in a flavor until some others have started, by the names of these."""
        for fact in present.facts.gangs if present.held else ():
            for flavor, first in present.held.get(fact.name, {}).items():
                self._held.setdefault(first, []).append((fact, flavor))
        here = (fact.without(self._barred.get(fact.name, ())) for fact in present.facts.gangs)
        self._state = KeptState(
            replace(present.facts, gangs=tuple(fact for fact in here if fact is not None))
            if self._held
            else present.facts
        )
        self._draws = RunTimeDraws(present.run_times, now, future)
        self._run_time: dict[str, float] = {}
        self._number: dict[str, int] = {}
        """The number of the running attempt of each gang that runs."""
        self._attempts = 0
        self._ends: list[tuple[float, str, int]] = []
        self._waits: dict[str, float] = {}
        waiting_queues = set()
        for fact in present.facts.gangs:
            info = present.gangs.get(fact.name)
            if info is None:
                continue
            if info.started is None:
                waiting_queues.add(fact.queue)
                self._run_time[fact.name] = self._draws.run_time(fact.name, info.kind, info.longest)
            else:
                elapsed = max(now - info.started, info.longest)
                run_time = self._draws.run_time(fact.name, info.kind, elapsed)
                self._run_time[fact.name] = run_time
                self._number[fact.name] = 0
                self._ends.append((info.started + run_time, fact.name, 0))
        heapify(self._ends)
        self._arrivals = present.arrivals.later(now, future, waiting_queues, ARRIVALS)
        self._nodes = present.facts.nodes or ()
        self._moved = moved
        """The nodes whose flavor has changed, by the key of the one in which work holds GPUs there."""
        names = frozenset[str]().union(*moved.values())
        there = {
            fact.name: [task for task in fact.tasks if task.node in names] for fact in present.facts.gangs if names
        }
        self._on_moved = {name: tasks for name, tasks in there.items() if tasks}
        self._returning = ReturningQuotas(present) if present.returns else None

    def run(self, wanted: Collection[str], *, leave: bool = False) -> dict[str, float]:
        """Run until the wanted gangs have started; with `leave` each is gone then."""
        missing = set(wanted)
        following = next(self._arrivals, None)
        time = self._now
        for _ in range(STEPS):
            self._drop_stale_ends()
            due = min(
                self._ends[0][0] if self._ends else inf,
                inf if following is None else following[0],
                inf if self._returning is None else self._returning.next_end,
            )
            if due == inf:
                if self._returning is None or not self._returning.has_changed:
                    break
                due = time
            before, time = time, max(due, time + max(FIRST_STEP, GROWTH * (time - self._now)))
            while self._ends and self._ends[0][0] <= time:
                _end, name, number = heappop(self._ends)
                if self._number.get(name) == number:
                    del self._number[name]
                    self._end(name)
            if self._returning is not None and (queues := self._returning.at(time, self._number)):
                self._state.rebuild(replace(self._state.facts(), queues=queues))
            while following is not None and following[0] <= time:
                _arrived, fact, kind = following
                self._state.arrived(keep_from_moved(fact, self._nodes, self._moved) if self._moved else fact)
                self._run_time[fact.name] = self._draws.run_time(fact.name, kind)
                following = next(self._arrivals, None)
            middle = max(due, (before + time) / 2)
            self._judge(time, middle)
            if self._release():
                self._judge(time, middle)
            while leave and (gone := [name for name in self._waits if name in missing]):
                missing.difference_update(gone)
                for name in gone:
                    self._leave(name)
                self._judge(time, middle)
            missing.difference_update(self._waits)
            if not missing:
                break
        return self._waits | dict.fromkeys(missing, NEVER)

    def _end(self, name: str) -> None:
        self._state.ended(name)
        if self._returning is not None:
            self._returning.ended(name)
        self._free_moved(self._on_moved.pop(name, ()))

    def _free_moved(self, tasks: Sequence[TaskFacts]) -> None:
        """These tasks are gone from their nodes, whose flavor had changed."""
        if tasks:
            self._nodes = nodes_after(self._nodes, tasks)
            self._state.rebuild(replace(self._state.facts(), nodes=self._nodes))

    def _judge(self, time: float, middle: float) -> None:
        """Run the engine; again where that took work from nodes whose flavor had changed."""
        steps = self._state.run(Fraction(time)).steps
        self._follow(steps, middle)
        gone = []
        for name in self._on_moved.keys() & {step.gang for step in steps}:
            tasks = zip(self._state.fact_of(name).tasks, self._state.nodes_of(name), strict=True)
            now = {task.name: node for task, node in tasks}
            gone += [task for task in self._on_moved[name] if task.node != now[task.name]]
            self._on_moved[name] = [task for task in self._on_moved[name] if task.node == now[task.name]]
        if gone:
            self._free_moved(gone)
            self._judge(time, middle)

    def _leave(self, name: str) -> None:
        """The gang has started, or has even been taken back again, and is gone."""
        self._number.pop(name, None)
        self._run_time.pop(name, None)
        self._end(name)

    def _release(self) -> bool:
        """Let the gangs come, or have more flavors, for which the gangs before them have started. A gang that runs
        by then has no use for more."""
        started = [
            names for names in self._held if all(name in self._waits or name not in self._run_time for name in names)
        ]
        for first in started:
            for fact, flavor in self._held.pop(first):
                had = fact.without(barred := self._barred[fact.name])
                barred.discard(flavor)
                has = fact.without(barred)
                if has is None or has == had or (had is not None and fact.name in self._waits):
                    continue
                if had is not None:
                    self._state.ended(fact.name)
                self._state.arrived(has)
        return bool(started)

    def _drop_stale_ends(self) -> None:
        while self._ends and self._number.get(self._ends[0][1]) != self._ends[0][2]:
            heappop(self._ends)

    def _follow(self, steps: Sequence[Step], time: float) -> None:
        for name in dict.fromkeys(step.gang for step in steps):
            if name not in self._run_time:
                continue
            if not self._state.is_running(name):
                self._number.pop(name, None)
                continue
            is_new = name not in self._number
            if not is_new and all(step.gang != name or step.action is StepAction.START for step in steps):
                continue  # an elastic gang grew
            self._attempts += 1
            self._number[name] = self._attempts
            heappush(self._ends, (time + self._run_time[name], name, self._attempts))
            self._waits.setdefault(name, time - self._now)


class ReturningQuotas:
    """The queues, as subpools that drain return what their work no longer needs, and temporary quotas end."""

    def __init__(self, present: Present) -> None:
        self._queues = {queue.name: queue for queue in present.facts.queues}
        self._pool_of = {leaf: each for each in present.returns for leaf in (*each.draining, *each.temporary)}
        draining = {leaf for each in present.returns for leaf in each.draining}
        self._needs: dict[str, tuple[str, str, dict[str, Number]]] = {}
        """The queue and the workflow of each gang that a drain waits for, and the most that it may use by key."""
        for fact in present.facts.gangs:
            if fact.queue in draining and not fact.preemptible and fact.name in present.gangs:
                choices = [gpu_amounts(sum_amounts(task.request for task in tasks)) for tasks in fact.choices]
                keys = dict.fromkeys(key for each in choices for key in each)
                needs = {key: max(each.get(key, 0) for each in choices) for key in keys}
                self._needs[fact.name] = fact.queue, present.gangs[fact.name].workflow or fact.name, needs
        self._times = sorted((at, leaf) for each in present.returns for leaf, (at, _) in each.temporary.items())
        self._changed: set[str] = set()
        """Subpools that drain and of which work has ended."""

    @property
    def next_end(self) -> float:
        """The next end of a temporary quota, in seconds since 1970; infinite if there is none."""
        return self._times[0][0] if self._times else inf

    def ended(self, name: str) -> None:
        """A gang is gone."""
        if name in self._needs:
            self._changed.add(self._needs.pop(name)[0])

    @property
    def has_changed(self) -> bool:
        """Whether work has ended since the last call of :meth:`at`."""
        return bool(self._changed)

    def at(self, time: float, running: Collection[str]) -> tuple[QueueFacts, ...]:
        """The queues at this time, while these gangs run; empty if they are those of the last call."""
        after: dict[str, Mapping[str, Amount]] = {}
        while self.next_end <= time:
            _at, leaf = self._times.pop(0)
            after[leaf] = self._pool_of[leaf].temporary[leaf][1]
        for leaf in self._changed:
            needs = self._committed(leaf, running)
            had = self._queues[leaf].quota or {}
            after[leaf] = {key: min(quota, needs.get(key, 0)) for key, quota in had.items() if is_gpu(key)}
        self._changed.clear()
        for leaf, quotas in after.items():
            for key, quota in quotas.items():
                self._queues[leaf] = with_gpu_quota(self._queues[leaf], quota, key)
            pool = self._pool_of[leaf]
            give_remainder(self._queues, pool.pool, pool.remainder, pool.guarantee)
        return tuple(self._queues.values()) if after else ()

    def _committed(self, leaf: str, running: Collection[str]) -> dict[str, Number]:
        """What the work of a leaf needs until its end by key: of each workflow the larger of what it holds and its
        largest gang (design, D4)."""
        held: dict[str, list[Mapping[str, Number]]] = {}
        largest: dict[str, dict[str, Number]] = {}
        for name, (queue, workflow, amounts) in self._needs.items():
            if queue != leaf:
                continue
            most = largest.setdefault(workflow, {})
            most |= {key: max(amount, most.get(key, 0)) for key, amount in amounts.items()}
            held.setdefault(workflow, []).extend([amounts] if name in running else [])
        return sum_amounts(
            {key: max(amount, sums.get(key, 0)) for key, amount in most.items()}
            for workflow, most in largest.items()
            for sums in [sum_amounts(held[workflow])]
        )
