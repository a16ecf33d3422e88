"""The lines of a waiting gang that are needed: the engine tries them.

A gang that several quotas, limits or nodes block has a line for each. Often fewer suffice: a higher quota may give what
another line asks for, and inside its quota the gang may reclaim or preempt what the nodes lack. So the lines are obeyed
one by one on a copy of the cluster in which no other work waits, and the engine runs there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pools.domain.values.amounts import Amount, Number, sum_amounts
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, CohortFacts, NodeFacts, QueueFacts, TaskState
from scheduling.domain.engine.reasons.blockers import Blocker
from scheduling.domain.engine.reasons.explain import Explainer, Reason
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import GangState
from scheduling.domain.engine.state_facts import gang_after
from scheduling.domain.engine.steps import StepAction

MAX_TRIAL_RECORDS = 10_000
"""The most records of tasks, queues and nodes together that the trials of one state build, a tenth to a fifth of a
second; the lines of the other gangs are shown untried. Gangs of high priority, then old ones, come first."""

_HELD = {TaskState.RUNNING, TaskState.RELEASING}


@dataclass(frozen=True, slots=True)
class _LineTrial:
    """Whether the gang starts, and whose place it takes."""

    starts: bool
    takes: tuple[str, ...] = ()


class LineTrials:
    """The trials in one state."""

    def __init__(self, world: World, explainer: Explainer) -> None:
        self._world, self._explainer = world, explainer
        self._left = MAX_TRIAL_RECORDS
        self._base: ClusterFacts | None = None
        holds = sum(sum(gang.active) + sum(gang.released) for gang in world.gangs)
        self._cost = holds + len(world.queues) + len(world.facts.nodes or ())

    def tried(self, reasons: dict[GangState, Reason]) -> dict[GangState, Reason]:
        """These reasons after the trials: first those with several lines, then those with one, which may start without
        it where less work waits."""
        first: dict[int, GangState] = {}
        for gang, reason in reasons.items():
            if reason.blockers and not reason.is_permanent:
                known = first.get(id(reason))
                if known is None or gang.order_key < known.order_key:
                    first[id(reason)] = gang
        after: dict[int, Reason] = {}
        is_one = {index: len(reasons[gang].blockers) == 1 for index, gang in first.items()}
        for _is_one, _key, gang in sorted(
            ((is_one[index], gang.order_key, gang) for index, gang in first.items()), key=lambda each: each[:2]
        ):
            reason = reasons[gang]
            if self._cost * (1 + len(reason.blockers)) > self._left:
                break
            after[id(reason)] = self._try(gang, reason)
        return {gang: after.get(id(reason), reason) for gang, reason in reasons.items()} if after else reasons

    def _try(self, gang: GangState, reason: Reason) -> Reason:
        """The reason with the lines that are needed together, or with those of which each alone is enough."""
        lines = reason.blockers
        if self._run(gang, ()).starts:
            return self._explainer.with_competition(gang, reason)
        if len(lines) == 1:
            return reason
        alone = [(line, self._run(gang, (line,))) for line in lines]
        enough = [(line, trial.takes) for line, trial in alone if trial.starts]
        if enough:
            return self._explainer.with_lines(gang, reason, enough, needs_all=False)
        needed, takes = list(lines), _LineTrial(starts=False).takes
        for line in lines if len(lines) > 2 else ():
            rest = [other for other in needed if other is not line]
            trial = self._run(gang, rest) if len(rest) > 1 else _LineTrial(starts=False)
            if trial.starts:
                needed, takes = rest, trial.takes
        if len(needed) == len(lines):
            return reason
        shown = [(line, takes if line is needed[-1] else ()) for line in needed]
        return self._explainer.with_lines(gang, reason, shown, needs_all=True)

    def _run(self, gang: GangState, lines: Iterable[Blocker]) -> _LineTrial:
        base = self._alone()
        self._left -= self._cost + len(gang.fact.tasks)
        mine = replace(gang_after(self._world, gang), hold=None, alternatives=(), choice=0)
        others = tuple(other for other in base.gangs if other.name != mine.name)
        policy = base.policy
        if policy is not None:
            own = tuple(
                replace(each, choice=0)
                for each in policy.reservations
                if each.gang == mine.name and each.choice == gang.choice
            )
            policy = replace(policy, reservations=own)
        facts = replace(base, gangs=(*others, mine), policy=policy)
        for line in lines:
            facts = _obeyed(facts, self._world, line)
        done = run_cycle(facts)
        if not done.world.gang_of[mine.name].is_running:
            return _LineTrial(starts=False)
        lost = {StepAction.RECLAIM, StepAction.PREEMPT}
        takes = dict.fromkeys(step.gang for step in done.steps if step.action in lost and step.beneficiary == mine.name)
        return _LineTrial(starts=True, takes=tuple(takes))

    def _alone(self) -> ClusterFacts:
        """The cluster without waiting work, with the capacity that fair shares divide now."""
        if self._base is None:
            world = self._world
            gangs = []
            for gang in world.gangs:
                if any(gang.active) or any(gang.released):
                    fact = gang_after(world, gang)
                    held = tuple(task for task in fact.tasks if task.state in _HELD)
                    gangs.append(replace(fact, tasks=held, alternatives=(), choice=0))
            capacity = world.facts.capacity
            if capacity is None and world.facts.nodes is not None:
                capacity = sum_amounts(node.resources for node in world.facts.nodes)
            self._base = replace(world.facts, gangs=tuple(gangs), demand={}, capacity=capacity)
            if world.policy is not None:
                self._base = replace(self._base, policy=world.policy.facts())
        return self._base


def _obeyed(facts: ClusterFacts, world: World, line: Blocker) -> ClusterFacts:
    """The facts after one line."""
    if line.limit == "nodes":
        more = {short.node: world.named_amounts(short.missing) for short in line.node_shortages}

        def enlarged(node: NodeFacts) -> NodeFacts:
            found = more.get(node.name)
            return node if found is None else replace(node, resources=sum_amounts((node.resources, found)))

        return replace(facts, nodes=tuple(map(enlarged, facts.nodes or ())))
    queue = world.queue_of.get(line.node or "")
    if queue is None:
        cohorts = facts.cohorts
        if all(cohort.name != line.node for cohort in cohorts):
            cohorts = (*cohorts, CohortFacts(line.node or ""))
        return replace(facts, cohorts=tuple(_raised_cohort(each, line) for each in cohorts))
    quota = {key: queue.quota[r] for r, key in enumerate(world.keys)}
    return replace(
        facts, queues=tuple(_raised(each, line, quota) if each.name == line.node else each for each in facts.queues)
    )


def _raised_cohort(cohort: CohortFacts, line: Blocker) -> CohortFacts:
    if cohort.name != line.node:
        return cohort
    if line.limit == "quota":
        return replace(cohort, quota=_more(cohort.quota, line.missing))
    return replace(cohort, borrowing_limit=_more(cohort.borrowing_limit, line.missing))


def _raised(queue: QueueFacts, line: Blocker, quota: Mapping[str, Amount]) -> QueueFacts:
    """A queue whose borrowing limit follows from its limit borrows as much more as the limit rises, and less when its
    quota does."""
    borrowing = queue.borrowing_limit
    if line.limit == "borrowing_limit":
        return replace(queue, borrowing_limit=_more(borrowing, line.missing))
    if queue.borrows_by_limit:
        sign = -1 if line.limit == "quota" else 1
        borrowing = _more(borrowing, {key: sign * n for key, n in line.missing.items() if key in borrowing})
    if line.limit == "quota":
        return replace(queue, quota=_more(quota, line.missing), borrowing_limit=borrowing)
    return replace(queue, limit=_more(queue.limit, line.missing), borrowing_limit=borrowing)


def _more(amounts: Mapping[str, Amount], change: Mapping[str, Number]) -> dict[str, Amount]:
    return {**amounts, **{key: amounts.get(key, 0) + n for key, n in change.items()}}
