"""Passes until nothing moves: start, consolidate, reclaim, preempt, then gangs below their minimum give up."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.domain.engine.collector import collector_paused
from scheduling.domain.engine.facts import Facts
from scheduling.domain.engine.phases import Phases
from scheduling.domain.engine.starting import start_phase
from scheduling.domain.engine.steps import Diary, Step
from scheduling.domain.engine.world import World

MOST_PASSES = 100


@dataclass(frozen=True, slots=True)
class Settled:
    """Where the passes ended. `settled` is False if the last of `MOST_PASSES` passes still moved something."""

    world: World
    steps: tuple[Step, ...]
    settled: bool


def settle(facts: Facts) -> Settled:
    """Schedule the facts until nothing moves any more. The same facts in any order give the same steps."""
    with collector_paused():
        return _settle(World(facts))


def _settle(world: World) -> Settled:
    diary = Diary(world)
    phases = Phases(world, diary)
    for number in range(1, MOST_PASSES + 1):
        diary.pass_number = number
        moved = [
            start_phase(world, diary),
            phases.consolidate(),
            phases.reclaim(),
            phases.preempt(),
            phases.give_up(),
        ]
        if not any(moved):
            return Settled(world, tuple(diary.steps), settled=True)
    return Settled(world, tuple(diary.steps), settled=False)
