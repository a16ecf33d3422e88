"""What a cycle of the record did with its plan: some cycles judged new work alone, and some did not do all they had
planned, because a change came in between or their process died."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pools.domain.values.amounts import Number, is_gpu
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, PolicyFacts, TaskFacts, TaskState
from scheduling.domain.engine.state.build import chosen
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.new_work import starts_everything
from scheduling.domain.judgement.plan_units import VICTIM_ACTIONS, PlanUnit, split_plan
from scheduling.history.replay.history import Ending, RecordedHistory, RecordedJob, RecordedStep
from scheduling.history.replay.seen_order import Snapshot

_Key = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def known_run_times(history: RecordedHistory) -> dict[tuple[str, int], int]:
    """By gang and start, a time until which that attempt certainly ran: right after the record took its last task
    back, a person stopped it, or the window was over."""
    jobs = {job.name: job for job in history.jobs}
    running = {job.name: (job.started, set(job.running)) for job in history.jobs if job.started is not None}
    found: dict[tuple[str, int], int] = {}
    for step in history.steps:
        start, tasks = running.setdefault(step.gang, (step.time, set()))
        if step.action == StepAction.START:
            tasks.update(step.tasks)
        elif step.action != StepAction.MOVE:
            tasks.difference_update(step.tasks)
        if step.action == StepAction.MOVE or not tasks:
            found[step.gang, start] = step.time + 1
            del running[step.gang]
            if tasks:
                running[step.gang] = step.time, tasks
    for name, (start, _tasks) in running.items():
        job = jobs[name]
        if job.ending is not Ending.WORKED:
            found[name, start] = (history.until if job.ended is None else max(job.ended, job.ended_seen)) + 1
    return found


def is_old(job: RecordedJob, new_since: Snapshot) -> bool:
    """Whether a cycle of new work alone left out this job that waits."""
    return job.transaction is None or new_since.sees(job.transaction)


def count_units(recorded: Iterable[RecordedStep]) -> int:
    """The units of a plan that were done."""
    return sum(step.action not in VICTIM_ACTIONS for step in recorded)


def is_recorded(steps: Iterable[Step], recorded: Iterable[RecordedStep]) -> bool:
    """Whether these are the recorded steps."""
    return sorted(map(_key, steps)) == sorted((step.action, step.gang, step.tasks, step.nodes) for step in recorded)


def done_units(planned: Sequence[Step], recorded: Iterable[RecordedStep], units: int) -> Sequence[Step]:
    """The steps of the plan that were done: a unit is done or dropped as a whole, and each recorded step is that of one
    unit. All of them, where the cycle of the record had another plan."""
    plan = list(split_plan(planned))
    if len(plan) != units:
        return list(planned)
    left = Counter((step.action, step.gang, step.tasks, step.nodes) for step in recorded)
    return [step for unit in plan if _take_known(unit, left) for step in unit.steps]


def plan_new_work(facts: ClusterFacts, left_out: Collection[str], now: Number) -> Sequence[Step]:
    """What a cycle of new work plans, which leaves this work out that waits: first with totals of the running work,
    and with all of it where not everything starts. Work with a start reservation is always listed."""
    policy = facts.policy if facts.policy is None else replace(facts.policy, now=now)
    reserved = set() if policy is None else {each.gang for each in policy.reservations}
    hidden = set(left_out) - reserved
    waiting = [gang for gang in facts.gangs if gang.name not in hidden]
    listed = [gang for gang in waiting if not any(task.state is TaskState.RUNNING for task in gang.tasks)]
    totals = replace(
        facts,
        gangs=(*listed, *_firm_totals(facts), _node_totals(facts)),
        usage=_lent_totals(facts),
        policy=None if policy is None else replace(policy, are_totals=True),
    )
    steps = run_cycle(totals).steps
    if starts_everything(totals, {gang.name for gang in listed}, steps):
        return steps
    demand: dict[str, dict[str, Number]] = defaultdict(dict)
    for gang in facts.gangs:
        if gang.name in hidden:
            for tasks in zip(*gang.choices, strict=True):
                _add(demand[gang.queue], tasks[0].request)
                others = {key: amount for task in tasks for key, amount in task.request.items() if is_gpu(key)}
                _add(demand[gang.queue], {key: others[key] for key in others.keys() - tasks[0].request.keys()})
    return run_cycle(replace(facts, gangs=tuple(waiting), demand=demand, policy=policy)).steps


def _running(facts: ClusterFacts) -> Iterator[tuple[GangFacts, TaskFacts]]:
    return ((gang, task) for gang in facts.gangs for task in gang.tasks if task.state is TaskState.RUNNING)


def _firm_totals(facts: ClusterFacts) -> Iterator[GangFacts]:
    """One gang for each queue with all that its work holds that is not preemptible."""
    held: dict[str, dict[str, Number]] = defaultdict(dict)
    for gang, task in _running(facts):
        if not gang.preemptible:
            _add(held[gang.queue], _gpus(task))
    return (
        GangFacts(f"sum of {queue}", queue, (TaskFacts(queue, gpus, state=TaskState.RUNNING),))
        for queue, gpus in held.items()
        if any(gpus.values())
    )


def _node_totals(facts: ClusterFacts) -> GangFacts:
    """One gang of no queue with all that work holds on the nodes."""
    held: dict[str, dict[str, Number]] = defaultdict(dict)
    for _gang, task in _running(facts):
        if task.node is not None:
            _add(held[task.node], task.request)
    tasks = (TaskFacts(node, used, state=TaskState.RUNNING, node=node) for node, used in held.items())
    return GangFacts("sum of ", "", tuple(tasks))


def _lent_totals(facts: ClusterFacts) -> dict[str, dict[str, Number]]:
    """The GPUs of preemptible work by queue."""
    held: dict[str, dict[str, Number]] = defaultdict(dict)
    for gang, task in _running(facts):
        if gang.preemptible:
            _add(held[gang.queue], _gpus(task))
    return held


def _gpus(task: TaskFacts) -> dict[str, Number]:
    return {key: amount for key, amount in task.request.items() if is_gpu(key)}


def _add(total: dict[str, Number], request: Mapping[str, Number]) -> None:
    for key, amount in request.items():
        total[key] = total.get(key, 0) + amount


def after_steps(facts: ClusterFacts, steps: Iterable[Step], policy: PolicyFacts | None, now: Number) -> ClusterFacts:
    """The facts when these steps have been done."""
    gangs = {gang.name: gang for gang in facts.gangs}
    for step in steps:
        gangs[step.gang] = _after(gangs[step.gang], step, now)
    return replace(facts, gangs=tuple(gangs.values()), policy=policy)


def _after(gang: GangFacts, step: Step, now: Number) -> GangFacts:
    places = step.action in {StepAction.START, StepAction.MOVE}
    if step.action is StepAction.START and step.choice != gang.choice:
        gang = chosen(gang, step.choice)
    nodes = dict(zip(step.tasks, step.nodes or [None] * len(step.tasks), strict=True))
    was_running = any(task.state is TaskState.RUNNING for task in gang.tasks)
    tasks = tuple(
        task
        if task.name not in nodes
        else replace(
            task,
            state=TaskState.RUNNING if places else TaskState.PENDING,
            node=nodes[task.name] if places else None,
        )
        for task in gang.tasks
    )
    started = gang.started
    if not any(task.state is TaskState.RUNNING for task in tasks):
        started = None
    elif step.action is StepAction.MOVE or not was_running:
        started = now
    return replace(gang, tasks=tasks, started=started)


def _take_known(unit: PlanUnit, left: Counter[_Key]) -> bool:
    """Whether all steps of the unit are among those that are left; they are not afterwards."""
    wanted = Counter(map(_key, unit.steps))
    is_known = wanted <= left
    if is_known:
        left.subtract(wanted)
    return is_known


def _key(step: Step) -> _Key:
    nodes = tuple(step.nodes) if step.action in {StepAction.START, StepAction.MOVE} else ()
    return step.action.value, step.gang, step.tasks, nodes
