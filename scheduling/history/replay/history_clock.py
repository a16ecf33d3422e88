"""The replay of a recorded history: the same submissions, cancellations, nodes and quotas, judged by the one engine.

Unchanged, the engine judges at the times at which the record has decisions, and has to decide the same
(:func:`first_difference`). With other quotas it judges at these times and after every event that none of them follows
within `DELAY`. A gang that ends runs as long as in the record; one that the record cut off runs as long as its file
says, or to the end of the window.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from heapq import heappop, heappush
from itertools import groupby

from pools.domain.values.amounts import UNLIMITED, Amount, gpus_in, sum_amounts
from scheduling.domain.engine.facts import (
    ClusterFacts,
    GangFacts,
    QueueFacts,
    StartReservationFacts,
)
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.moved_nodes import keep_from_moved, moved_nodes, nodes_with_work
from scheduling.domain.engine.pool_quotas import give_remainder, gpu_keys, gpu_quota, with_gpu_quota
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.history.replay.as_recorded import (
    after_steps,
    count_units,
    done_units,
    is_old,
    is_recorded,
    known_run_times,
    plan_new_work,
)
from scheduling.history.replay.gang_facts import (
    expected_time,
    flavors_held,
    gang_of,
    gpus_by_key,
    gpus_of_choices,
    moved_at,
    time_limit,
    whole_seconds,
)
from scheduling.history.replay.history import Configuration, Ending, RecordedHistory, RecordedJob, RecordedStep
from scheduling.history.replay.jobs import SECOND, seconds
from scheduling.history.replay.seen_order import Snapshot

DELAY = 10 * SECOND
"""A reconciliation follows an event within this time, where the record has one."""


class TooLong(Exception):
    """The caller's time for this replay is over."""


class _Kind(IntEnum):
    """What happens, in the order of one instant."""

    END = 0
    WORKFLOW_TIMEOUT = 1
    QUEUE_TIMEOUT = 2
    STOP = 3
    CONFIGURE = 4
    ARRIVE = 5


@dataclass(slots=True)
class PastJob:
    """What became of one job. `used`: microseconds with GPUs in the window; `waits` and `runs`: from when to when it
    waited for GPUs and had them there, and which; `lost`: microseconds of its work that preemption threw away. `wants`:
    the GPUs that it waits for in each flavor that it may use, `holds` those that it got last, by key."""

    job: RecordedJob
    arrived: int | None = None
    waits_since: int | None = None
    start: int | None = None
    turn: int = 0
    ended: int | None = None
    is_completed: bool = False
    first_wait: int | None = None
    starts: int = 0
    preemptions: int = 0
    reclaims: int = 0
    used: int = 0
    lost: int = 0
    tasks: set[str] = field(default_factory=set)
    """Those that hold GPUs."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    runs: list[tuple[int, int, Mapping[str, int]]] = field(default_factory=list)
    wants: Mapping[str, int] = field(default_factory=dict)
    holds: Mapping[str, int] = field(default_factory=dict)
    _counted_from: int = 0

    def begin(self, now: int, counted_from: int | None = None, gang: GangFacts | None = None) -> None:
        """It holds its GPUs from now on, in the flavors of its gang; what it uses counts from then, or from the
        beginning of the window."""
        self.stop_waiting(now)
        self.holds = {} if gang is None else gpus_by_key(gang.tasks, self.job.gpus)
        self.start, self._counted_from = now, now if counted_from is None else counted_from
        self.turn += 1

    def take(self, step: RecordedStep) -> bool:
        """The step changes which of its tasks hold GPUs; whether its attempt ends with it."""
        if step.action in {StepAction.START, StepAction.MOVE}:
            self.tasks.update(step.tasks)
            return step.action == StepAction.MOVE
        self.tasks.difference_update(step.tasks)
        self.reclaims += step.action == StepAction.RECLAIM
        self.preemptions += step.action == StepAction.PREEMPT
        return not self.tasks

    def stop(self, now: int) -> None:
        """It holds nothing from now on."""
        self.stop_waiting(now)
        if self.start is not None:
            self.used += now - self._counted_from
            self.runs.append((self._counted_from, now, self.holds))
        self.start = None
        self.turn += 1

    def stop_waiting(self, now: int) -> None:
        """It does not wait for GPUs from now on."""
        if self.waits_since is not None:
            self.waits.append((self.waits_since, now))
        self.waits_since = None

    def close(self, since: int, until: int) -> None:
        """The window ends."""
        self.stop_waiting(until)
        if self.start is not None:
            begin = max(self.start, since)
            self.used += until - begin
            self.runs.append((begin, until, self.holds))

    @property
    def waited(self) -> int:
        """Microseconds that it waited for GPUs in the window, waits after a preemption included."""
        return sum(until - since for since, until in self.waits)

    def wait_of(self, until: int) -> int | None:
        """Its first wait for GPUs, up to the end of the window if it still waits; None if it did not wait in it."""
        if self.first_wait is not None:
            return self.first_wait
        if self.arrived is None or self.starts or self.job.running:
            return None
        return (until if self.ended is None else self.ended) - self.arrived


@dataclass(slots=True)
class Past:
    """What happened in a replay."""

    until: int
    jobs: Mapping[str, PastJob]
    steps: list[RecordedStep] = field(default_factory=list)
    configurations: list[tuple[int, Configuration]] = field(default_factory=list)
    """From when on each configuration held."""
    capacity: int = 0
    """GPUs × microseconds."""


Change = Callable[[Configuration], Configuration]


def _time_of(step: RecordedStep) -> int:
    return step.time


def _never(_now: int) -> bool:
    return False


def _ignore(_past: PastJob) -> None:
    """Nobody watches."""


class HistoryClock:
    """Runs one history."""

    def __init__(
        self,
        history: RecordedHistory,
        change: Change | None = None,
        is_over: Callable[[int], bool] = _never,
        watch: Callable[[PastJob], None] = _ignore,
    ) -> None:
        """`change` makes another configuration of each recorded one; None replays the record. `is_over` is called at
        each instant, and tells when the caller's time is over. `watch` sees each job that started or was stopped; what
        it raises ends the replay."""
        self._history, self._change, self._is_over, self._watch = history, change, is_over, watch
        self._record = {time: list(steps) for time, steps in groupby(sorted(history.steps, key=_time_of), key=_time_of)}
        self._judged = sorted(self._record)
        self._cycles = {cycle.time: cycle for cycle in history.cycles}
        self._known_to_run = known_run_times(history)
        self._configuration = history.configurations[0]
        self._next_configuration = 0
        self._past = Past(history.until, {job.name: PastJob(job) for job in history.jobs})
        self._workflows: dict[str, list[RecordedJob]] = {}
        for job in history.jobs:
            self._workflows.setdefault(job.workflow, []).append(job)
        self._first_starts: dict[str, int] = {}
        self._began: dict[str, int] = {}
        """Since when each running gang has had its place, which moves do not change."""
        self._limited: set[str] = set()
        """The gangs with a time limit that wait or run."""
        self._events: list[tuple[int, _Kind, int, str, int]] = []
        self._capacity_since = history.since
        self._needs_rebuild = False
        self._has_moved_nodes = False
        """Whether running work may hold GPUs in another flavor than that of their node now."""
        self._last = history.since - 1
        self._configure(history.since)
        self._state = KeptState(self._facts(()))
        self._begin()
        self._needs_rebuild = bool(self._configuration.flavors)

    def run(self) -> Past:
        """Live through the window. Raises TooLong."""
        history = self._history
        while (now := self._next_instant()) is not None:
            if self._is_over(now):
                raise TooLong
            while self._events and self._events[0][0] <= now:
                self._happen(*heappop(self._events))
            if self._needs_rebuild or self._configuration.draining or self._has_moved_nodes:
                self._needs_rebuild = False
                self._state.rebuild(self._facts(self._state.facts().gangs))
            if not self._configuration.is_offline:
                self._follow(now, self._judge(now))
                self._note_starts()
        self._count_capacity(history.until)
        for past in self._past.jobs.values():
            past.close(history.since, history.until)
        return self._past

    # -- when -----------------------------------------------------------------------------------------------------

    def _next_instant(self) -> int | None:
        """The next time at which the engine judges; None after the end of the window."""
        event = self._events[0][0] if self._events else None
        at = bisect_left(self._judged, self._last + 1)
        judged = self._judged[at] if at < len(self._judged) else None
        if self._change is None or event is None or (judged is not None and judged <= max(event, self._last) + DELAY):
            now = judged
        else:
            now = max(event, self._last)
        if now is None or now > self._history.until:
            return None
        self._last = now
        return now

    # -- what ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        history = self._history
        for number, configuration in enumerate(history.configurations[1:], 1):
            self._push(configuration.since, _Kind.CONFIGURE, number, "")
        for number, job in enumerate(history.jobs):
            if job.workflow_started is not None:
                self._workflow_began(job.workflow, job.workflow_started)
            if job.running:
                past = self._past.jobs[job.name]
                past.arrived = job.ready
                self._state.arrived(gang := gang_of(self._configuration, job, job.running, job.held))
                assert job.started is not None
                past.tasks = set(job.running)
                past.wants = gpus_of_choices(gang, job.gpus)
                past.begin(job.started, history.since, gang)
                self._came(job, job.started if job.began is None else job.began)
                self._plan_end(past)
            elif not job.after:
                self._push(max(job.ready, job.ready_seen, history.since), _Kind.ARRIVE, number, job.name)
            if job.ending is Ending.STOPPED and job.ended is not None:
                self._push(max(job.ended, job.ended_seen), _Kind.STOP, number, job.name)

    def _push(self, time: int, kind: _Kind, number: int, name: str, turn: int = 0) -> None:
        heappush(self._events, (time, kind, number, name, turn))

    def _happen(self, time: int, kind: _Kind, number: int, name: str, turn: int) -> None:
        if kind is _Kind.CONFIGURE:
            self._count_capacity(time)
            self._next_configuration = number
            self._configure(time)
            self._needs_rebuild = True
            return
        if kind is _Kind.WORKFLOW_TIMEOUT:
            for job in self._workflows[name]:
                past = self._past.jobs[job.name]
                if past.arrived is not None and past.ended is None:
                    self._end(past, time, is_completed=False)
            return
        past = self._past.jobs[name]
        if past.ended is not None or (kind in {_Kind.END, _Kind.QUEUE_TIMEOUT} and past.turn != turn):
            return
        if kind is _Kind.ARRIVE:
            self._arrive(past, time)
        else:
            if time == past.job.ended_seen:
                time = past.job.ended or time
            self._end(past, time, is_completed=kind is _Kind.END and not past.job.fails)

    def _arrive(self, past: PastJob, time: int) -> None:
        job = past.job
        past.arrived = time if job.after else job.ready
        gang = replace(gang_of(self._configuration, job, {}), waiting_since=whole_seconds(past.arrived))
        past.wants = gpus_of_choices(gang, job.gpus)
        self._state.arrived(gang)
        self._came(job, None)
        self._wait(past, past.arrived)

    def _came(self, job: RecordedJob, began: int | None) -> None:
        if began is not None:
            self._began[job.name] = began
        if job.exec_timeout is not None:
            self._limited.add(job.name)

    def _wait(self, past: PastJob, now: int) -> None:
        job, past.waits_since = past.job, max(now, self._history.since)
        if job.queue_timeout is None:
            return
        end = now + job.queue_timeout
        if job.ending is Ending.QUEUE_TIMEOUT and job.ended is not None and job.last_ready == now:
            end = max(end, job.ended)
        elif self._change is None:
            return  # this wait was over otherwise, perhaps before a reconciliation found it too long
        self._push(end, _Kind.QUEUE_TIMEOUT, 0, job.name, past.turn)

    def _end(self, past: PastJob, time: int, *, is_completed: bool) -> None:
        if past.arrived is not None:
            self._state.ended(past.job.name)
            self._began.pop(past.job.name, None)
            self._limited.discard(past.job.name)
        past.stop(time)
        past.ended, past.is_completed = time, is_completed
        for number, job in enumerate(self._workflows[past.job.workflow]):
            other = self._past.jobs[job.name]
            if past.job.name not in job.after or other.arrived is not None or other.ended is not None:
                continue
            before = [self._past.jobs[name] for name in job.after if name in self._past.jobs]
            if not is_completed:
                self._end(other, time, is_completed=False)
            elif all(each.is_completed for each in before):
                self._push(time, _Kind.ARRIVE, number, job.name)

    def _judge(self, now: int) -> Sequence[Step]:
        """What the engine decides now, as far as the cycle of the record looked and came."""
        cycle = self._cycles.get(now) if self._change is None else None
        if cycle is None:
            self._limit_times(now)
            return self._state.run(seconds(now)).steps
        self._limit_times(cycle.judged_at)
        self._recall(cycle.reservations)
        at, recorded = seconds(cycle.judged_at), self._record[now]
        is_done = count_units(recorded) == cycle.units
        if cycle.new_since is None and is_done:
            return self._state.run(at).steps
        before = self._state.facts()
        steps: Sequence[Step] = self._state.run(at).steps
        policy = self._state.facts().policy
        if cycle.new_since is not None:
            if is_done and is_recorded(steps, recorded):
                return steps
            steps, policy = plan_new_work(before, self._left_out(cycle.new_since), at), before.policy
        if not is_done:
            steps = done_units(steps, recorded, cycle.units)
        self._state.rebuild(after_steps(before, steps, policy, at))
        return steps

    def _limit_times(self, now: int) -> None:
        """Let the policy read how long each gang may still run."""
        if self._configuration.policy is None:
            return
        changed = {}
        for name in self._limited:
            job = self._past.jobs[name].job
            limit = time_limit(job, self._first_starts.get(job.workflow), self._began.get(name), now)
            if limit != self._state.fact_of(name).time_limit:
                changed[name] = limit
        if changed:
            facts = self._state.facts()
            gangs = (
                replace(gang, time_limit=changed[gang.name]) if gang.name in changed else gang for gang in facts.gangs
            )
            self._state.rebuild(replace(facts, gangs=tuple(gangs)))

    def _recall(self, reservations: tuple[StartReservationFacts, ...]) -> None:
        """Keep the start reservations that the cycle read: some are older than the window, and a cycle that decides
        nothing else may change them."""
        policy = self._state.world.policy
        if policy is None or (not reservations and not policy.facts().reservations):
            return
        kept = {each.gang: each for each in policy.facts().reservations}
        if kept != {each.gang: each for each in reservations}:
            facts = self._state.facts()
            assert facts.policy is not None
            self._state.rebuild(replace(facts, policy=replace(facts.policy, reservations=reservations)))

    def _left_out(self, new_since: Snapshot) -> set[str]:
        """The work that waits and that a cycle of new work does not look at."""
        waits = (past for past in self._past.jobs.values() if past.waits_since is not None)
        return {past.job.name for past in waits if is_old(past.job, new_since)}

    def _follow(self, now: int, steps: Sequence[Step]) -> None:
        ends: dict[str, bool] = {}
        taken: set[str] = set()
        for step in steps:
            nodes = step.nodes if step.action in {StepAction.START, StepAction.MOVE} else ()
            done = RecordedStep(now, step.action.value, step.gang, step.tasks, tuple(nodes))
            self._past.steps.append(done)
            has_ended = self._past.jobs[step.gang].take(done)
            ends[step.gang] = has_ended or ends.get(step.gang, False)
            if has_ended and step.action is not StepAction.MOVE:
                taken.add(step.gang)
        for name, has_ended in ends.items():
            past, is_running = self._past.jobs[name], self._state.is_running(name)
            if name in taken or not is_running:
                # Also what started within this instant waits anew.
                self._began.pop(name, None)
                self._state.waits(name, whole_seconds(now), expected_time(past.job, None, None))
            # Work that is evicted and placed again within one instant begins again too.
            if past.start is not None and (has_ended or not is_running):
                past.lost += now - past.start
                past.stop(now)
                if not is_running:
                    self._wait(past, now)
                self._watch(past)
            elif name in taken and not is_running:
                # It started and was taken back within this instant: the time limit of its wait begins anew.
                past.stop(now)
                self._wait(past, now)
            if is_running and past.start is None:
                if past.first_wait is None and past.arrived is not None and not past.job.running:
                    past.first_wait = now - past.arrived
                past.starts += 1
                past.begin(now, gang=self._state.fact_of(name))
                self._began.setdefault(name, now)
                self._workflow_began(past.job.workflow, now)
                self._plan_end(past)
                self._watch(past)

    def _note_starts(self) -> None:
        """Let the policy read since when each gang has its place: the ledger keeps that of a gang that moves, and of
        one that a plan takes back and places again within one instant."""
        if self._configuration.policy is None:
            return
        for name, began in self._began.items():
            past = self._past.jobs[name]
            expected = expected_time(past.job, past.start, began)
            self._state.started(name, whole_seconds(began), expected, moved_at(past.start, began))

    def _workflow_began(self, workflow: str, now: int) -> None:
        """The time limit of a workflow counts from its first start."""
        if workflow in self._first_starts:
            return
        self._first_starts[workflow] = now
        jobs = self._workflows[workflow]
        limit = jobs[0].exec_timeout
        if limit is not None:
            late = [job.ended for job in jobs if job.ending is Ending.EXEC_TIMEOUT and job.ended is not None]
            end = now + limit
            if self._change is None and not late and any(job.ended is None or job.ended > end for job in jobs):
                return  # its work was over otherwise, before a reconciliation found it too long
            # The record ended it at a reconciliation after this time.
            latest = math.inf if self._change is None else end + DELAY
            recorded = min((at for at in late if end <= at <= latest), default=end)
            self._push(recorded, _Kind.WORKFLOW_TIMEOUT, 0, workflow)

    def _plan_end(self, past: PastJob) -> None:
        job, start = past.job, past.start
        assert start is not None
        if job.ending is Ending.WORKED and job.ended is not None and job.last_start == start:
            self._push(max(job.ended, job.ended_seen), _Kind.END, 0, job.name, past.turn)
            return
        run = job.run_time if job.ending is Ending.WORKED else job.simulated
        if run is not None:
            end = max(start + run, self._known_to_run.get((job.name, start), 0), self._last)
            self._push(end, _Kind.END, 0, job.name, past.turn)

    # -- the cluster ----------------------------------------------------------------------------------------------

    def _configure(self, now: int) -> None:
        recorded = self._history.configurations[self._next_configuration]
        self._configuration = recorded if self._change is None else self._change(recorded)
        self._past.configurations.append((now, self._configuration))
        self._capacity_since = now

    def _count_capacity(self, now: int) -> None:
        gpus = 0 if self._configuration.is_offline else sum(gpus_in(n.resources) for n in self._configuration.nodes)
        self._past.capacity += int(gpus) * (now - self._capacity_since)
        self._capacity_since = now

    def _facts(self, gangs: Iterable[GangFacts]) -> ClusterFacts:
        """The configuration with these gangs; their nodes are those that there are now."""
        now = self._configuration
        names = {node.name for node in now.nodes}
        kept = []
        for gang in gangs:
            job = self._past.jobs[gang.name].job
            again = gang_of(now, job, {}, flavors_held(gang))
            tasks = tuple(
                replace(task, state=was.state, node=was.node if was.node in names else None)
                for was, task in zip(gang.tasks, again.tasks, strict=True)
            )
            kept.append(replace(gang, tasks=tasks, alternatives=again.alternatives, choice=again.choice))
        running = [task for gang in kept for task in gang.tasks]
        nodes = now.nodes
        if moved := moved_nodes(nodes, running) if now.flavors else {}:
            kept, nodes = [keep_from_moved(gang, nodes, moved) for gang in kept], nodes_with_work(nodes, running)
        self._has_moved_nodes = bool(moved)
        return ClusterFacts(self._queues(), now.cohorts, tuple(kept), nodes, units=now.units, policy=now.policy)

    def _queues(self) -> tuple[QueueFacts, ...]:
        """The queues; a subpool that drains keeps the quota that its active work needs, which its pool's shared leaf
        does not get."""
        draining = self._configuration.draining
        if not draining:
            return self._configuration.queues
        kept = {
            (name, key): min(quota, self._committed(name, key))
            for name, quotas in draining.items()
            for key, quota in quotas.items()
        }
        queues = {queue.name: queue for queue in self._configuration.queues}
        guarantees: dict[str, dict[str, Amount]] = {}
        for (name, key), quota in kept.items():
            queue = queues[name] = with_gpu_quota(queues[name], quota, key)
            if (pool := queue.parent or "") in self._configuration.shared:
                guarantees.setdefault(pool, {})[key] = gpu_quota(queues[pool], key)
        for pool, guarantee in guarantees.items():
            give_remainder(queues, pool, self._configuration.shared[pool], guarantee)
        return tuple(queues.values())

    def _committed(self, queue: str, key: str) -> int:
        """The GPUs of one key that the active work of a queue needs to go on: what has a flavor counts there, what
        waits counts in each that it may use."""
        total = 0
        for jobs in self._workflows.values():
            if jobs[0].queue != queue or jobs[0].priority.is_preemptible:
                continue
            active = [self._past.jobs[job.name] for job in jobs]
            active = [past for past in active if past.ended is None and past.job.submitted <= self._last]
            needs = [(past.start is not None, self._needs(past.job, key)) for past in active]
            held = sum(gpus for is_running, gpus in needs if is_running)
            total += max(held, max((gpus for _, gpus in needs), default=0))
        return total

    def _needs(self, job: RecordedJob, key: str) -> int:
        if job.queue not in self._configuration.flavors:
            return job.gpus
        fact = self._state.fact_of(job.name) if self._is_known(job.name) else gang_of(self._configuration, job, {})
        choices = (fact.tasks,) if self._past.jobs[job.name].start is not None else fact.choices
        sums = [sum_amounts(task.request for task in tasks) for tasks in choices]
        return max(job.gpus if gpus_in(each) == each.get(key) else int(each.get(key, 0)) for each in sums)

    def _is_known(self, name: str) -> bool:
        return name in self._state.world.gang_of


def shares_follow(recorded: Configuration, queues: Iterable[QueueFacts], named: Collection[str]) -> Configuration:
    """The configuration with these queues. A subpool of the `named` queues takes its quota from the shared leaf of its
    pool, or gives it back there, as in the ledger."""
    now = {queue.name: queue for queue in queues}
    for container, shared in recorded.shared.items():
        parts = [queue for queue in now.values() if queue.parent == container and queue.name != shared]
        touched = container in named or any(part.name in named for part in parts)
        if not touched or shared in named or shared not in now:
            continue
        for key in gpu_keys([now[container], *parts]):
            promised = gpu_quota(now[container], key)
            if promised not in {UNLIMITED, math.inf} and all(gpu_quota(part, key) != UNLIMITED for part in parts):
                give_remainder(now, container, shared, {key: promised})
    return replace(recorded, queues=tuple(now[queue.name] for queue in recorded.queues))


@dataclass(frozen=True, slots=True)
class StepDifference:
    """The first step in which a replay and the record differ; None where one of them has no step."""

    recorded: RecordedStep | None
    replayed: RecordedStep | None


def first_difference(recorded: Sequence[RecordedStep], replayed: Sequence[RecordedStep]) -> StepDifference | None:
    """None if both have the same steps with the same tasks and nodes at the same times. The order within one time has
    no meaning: starts in different trees are written tree by tree."""
    one, other = sorted(recorded), sorted(replayed)
    for a, b in zip(one, other, strict=False):
        if a != b:
            return StepDifference(a, None) if a < b else StepDifference(None, b)
    if len(one) == len(other):
        return None
    return StepDifference(one[len(other)], None) if len(one) > len(other) else StepDifference(None, other[len(one)])
