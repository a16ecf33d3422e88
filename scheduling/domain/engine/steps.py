"""The steps of a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scheduling.domain.engine.state.records import GangState, sum_requests
from scheduling.domain.engine.state.world_state import WorldState

LEAST_LOST_TEXT = "Of the work that the rules allow equally, this set is enough and loses least."
"""The words of an eviction under `victims: least_lost`."""


class StepAction(StrEnum):
    """`reclaim` evicts for another queue by its quota or share. `preempt` evicts for work of the same queue with a
    higher priority, or for a reservation that takes back its nodes. `give_up` stops a gang that fell below its
    minimum."""

    START = "start"
    MOVE = "move"
    RECLAIM = "reclaim"
    PREEMPT = "preempt"
    GIVE_UP = "give_up"


class EvictionRule(StrEnum):
    """The rule of an eviction. `priority`: work of a higher priority in the same queue. `reclaim`: a queue takes back
    its own quota. `fair_share`: a queue gets its share of what nobody's quota covers. `reservation`: reserved nodes are
    taken back."""

    PRIORITY = "priority"
    RECLAIM = "reclaim"
    FAIR_SHARE = "fair_share"
    RESERVATION = "reservation"


class SparedBy(StrEnum):
    """Why work that the rule also allowed to evict stayed. `queue`: its queue was later in the order. `priority`: it
    has a higher priority than the victims of its queue. `age`: it was submitted earlier. `room`: it was earlier in the
    order, and its place was not enough. `least_lost`: the victims lose less."""

    QUEUE = "queue"
    PRIORITY = "priority"
    AGE = "age"
    ROOM = "room"
    LEAST_LOST = "least_lost"


@dataclass(frozen=True, slots=True)
class SparedGang:
    """Work that the rule of an eviction also allowed to evict, and why it stayed."""

    gang: str
    by: SparedBy


@dataclass(frozen=True, slots=True)
class Eviction:
    """The rule of an eviction and the work that it spared: the first in the order of victims, `has_more` if there was
    more. Only a world that `notes_spared` knows spared work."""

    rule: EvictionRule
    spared: tuple[SparedGang, ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One change. `tasks` are names in the order of the spec; `beneficiary` is the gang that the step serves. `nodes`:
    the new node of each task of a start or a move, in the same order; empty without nodes."""

    pass_number: int
    action: StepAction
    gang: str
    tasks: tuple[str, ...]
    beneficiary: str | None
    message: str
    nodes: tuple[str, ...] = ()
    is_least_lost: bool = False
    """Whether it is an eviction of a set that loses least."""
    eviction: Eviction | None = None
    """Of a reclaim and a preemption: by which rule, and which other work could have gone."""
    choice: int = 0
    """The place of the tasks among the choices of the gang (`GangFacts.choices`): its flavor."""


class StepLog:
    """Records the steps of a cycle."""

    def __init__(self, world: WorldState) -> None:
        self._world = world
        self.pass_number = 0
        self.steps: list[Step] = []

    def record(
        self,
        action: StepAction,
        gang: GangState,
        tasks: Iterable[int],
        beneficiary: GangState | None = None,
        eviction: Eviction | None = None,
    ) -> None:
        """Add one step about these tasks of the gang."""
        which = sorted(tasks)
        names = tuple(gang.fact.tasks[i].name for i in which)
        amount = self._world.amounts_text(self._world.named_amounts(sum_requests([gang.requests[i] for i in which])))
        queue, name = gang.fact.queue, gang.fact.name
        if beneficiary is None:
            message = {
                StepAction.START: f"{name} starts in {queue} with {amount}.",
                StepAction.GIVE_UP: f"{name} is below its minimum and gives up {amount}.",
            }[action]
        else:
            other, theirs = beneficiary.fact.name, beneficiary.fact.queue
            message = {
                StepAction.MOVE: f"{name} moves {amount} to other nodes, so that {other} can start.",
                StepAction.RECLAIM: f"{theirs} reclaims {amount} that {name} had borrowed in {queue}, for {other}.",
                StepAction.PREEMPT: f"{other} preempts {name} in {queue}, which gives up {amount}.",
            }[action]
        is_least_lost = beneficiary is not None and action is not StepAction.MOVE and self._world.takes_least_lost
        if is_least_lost:
            message = f"{message} {LEAST_LOST_TEXT}"
        beneficiary_name = None if beneficiary is None else beneficiary.fact.name
        nodes = self._nodes(action, gang, which)
        self.steps.append(
            Step(
                self.pass_number,
                action,
                name,
                names,
                beneficiary_name,
                message,
                nodes,
                is_least_lost,
                eviction,
                gang.choice,
            )
        )

    def _nodes(self, action: StepAction, gang: GangState, which: Iterable[int]) -> tuple[str, ...]:
        nodes = self._world.nodes
        if nodes is None or action not in {StepAction.START, StepAction.MOVE}:
            return ()
        return tuple(nodes.names[gang.node[i]] for i in which)
