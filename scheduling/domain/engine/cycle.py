"""Passes until nothing moves: start, consolidate, reclaim, preempt, then gangs below their minimum give up."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.phases import Phases
from scheduling.domain.engine.starting import run_start_phase
from scheduling.domain.engine.steps import Step, StepLog
from scheduling.domain.engine.world import World

MAX_PASSES = 100


@dataclass(frozen=True, slots=True)
class CycleResult:
    """Where the passes ended. `settled` is False if the last of `MAX_PASSES` passes still moved something."""

    world: World
    steps: tuple[Step, ...]
    has_converged: bool


def run_cycle(facts: ClusterFacts) -> CycleResult:
    """Schedule the facts until nothing moves any more. The same facts in any order give the same steps."""
    return _run_passes(World(facts))


def _run_passes(world: World) -> CycleResult:
    diary = StepLog(world)
    phases = Phases(world, diary)
    for number in range(1, MAX_PASSES + 1):
        diary.pass_number = number
        moved = [
            run_start_phase(world, diary),
            phases.consolidate(),
            phases.reclaim(),
            phases.preempt(),
            phases.give_up(),
        ]
        if not any(moved):
            return CycleResult(world, tuple(diary.steps), has_converged=True)
    return CycleResult(world, tuple(diary.steps), has_converged=False)
