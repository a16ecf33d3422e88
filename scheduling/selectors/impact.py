"""What the next settling would do, were things as this transaction sees them: whose place it takes, who starts, and who
no longer does.

Asked inside a trial (:mod:`pools.services.dry_run`): the facts are read there, where the change is made; the engine
runs on them afterwards, when the trial is taken back and nobody waits for its locks. Then things are again as they were
without the change, and are read once more to compare.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from pools.domain.roles import Actor
from pools.models import Backend
from pools.signals import AtStake, Concerned, Stakes
from scheduling.domain.engine.cycle import Settled, settle
from scheduling.domain.engine.facts import Facts, Gang, TaskState
from scheduling.domain.engine.outcome import GangResult, reasons, result_of
from scheduling.domain.engine.steps import Action, Step
from scheduling.models import Workflow
from scheduling.selectors.live_facts import LiveFacts, live_facts

TAKES = frozenset({Action.RECLAIM, Action.PREEMPT})


def at_stake(actor: Actor, backend_ids: Collection[int]) -> AtStake:
    """Read the facts of these backends now, and give a function that tells what the next settling does there."""
    backends = Backend.objects.filter(pk__in=backend_ids).order_by("name")
    read = {backend.pk: live_facts(backend) for backend in backends}
    return lambda: _stakes(actor, [_moves(pk, live) for pk, live in read.items() if _may_move(live.facts)])


def losers(steps: Iterable[Step]) -> list[str]:
    """The gangs that lose tasks for others, in the order in which they do."""
    return list(dict.fromkeys(step.gang for step in steps if step.action in TAKES))


@dataclass(frozen=True, slots=True)
class _Moves:
    """Workflows of one backend, by what happens to them."""

    taken: list[UUID]
    starts: list[UUID]
    stays: list[UUID]


def _moves(backend_id: int, changed: LiveFacts) -> _Moves:
    after = settle(changed.facts)
    taken = [changed.gangs[name].workflow for name in losers(after.steps)]
    waiting = [gang.name for gang in changed.facts.gangs if _waits(gang)]
    if not waiting:
        return _Moves(taken, [], [])
    backend = Backend.objects.filter(pk=backend_id).first()  # anew: what was tried may be a change of the backend
    before = settle(Facts() if backend is None else live_facts(backend).facts)
    started, will_start = _running(before, waiting), _running(after, waiting)
    hopeless = _never(after).intersection(waiting)
    if hopeless:
        hopeless -= _never(before)

    def workflows(found: Collection[str]) -> list[UUID]:
        return [changed.gangs[name].workflow for name in waiting if name in found]

    return _Moves(taken, workflows(will_start - started), workflows((started - will_start) | hopeless))


def _running(settled: Settled, names: Iterable[str]) -> set[str]:
    """Those of the gangs that hold their minimum where the passes ended."""
    known = settled.world.gang_of
    return {name for name in names if name in known and result_of(known[name]) is GangResult.RUNNING}


def _never(settled: Settled) -> set[str]:
    return {name for name, reason in reasons(settled.world).items() if reason.never}


def _stakes(actor: Actor, moves: Collection[_Moves]) -> Stakes:
    return Stakes(
        taken=_concerned(actor, [pk for each in moves for pk in each.taken]),
        starts=_concerned(actor, [pk for each in moves for pk in each.starts]),
        stays=_concerned(actor, [pk for each in moves for pk in each.stays]),
    )


def _concerned(actor: Actor, workflows: Iterable[UUID]) -> Concerned:
    each = dict.fromkeys(workflows)
    if not each:
        return Concerned()
    seen = dict(Workflow.objects.visible_to(actor).filter(pk__in=each).values_list("pk", "name"))
    return Concerned(tuple(seen[workflow] for workflow in each if workflow in seen), len(each) - len(seen))


def _may_move(facts: Facts) -> bool:
    """Whether anything waits, or runs that may be taken."""
    return any(
        _waits(gang) or (gang.preemptible and any(task.state is TaskState.RUNNING for task in gang.tasks))
        for gang in facts.gangs
    )


def _waits(gang: Gang) -> bool:
    """Whether it wants to start and nothing of it runs."""
    states = {task.state for task in gang.tasks}
    return TaskState.PENDING in states and TaskState.RUNNING not in states
