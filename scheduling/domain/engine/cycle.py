"""A scheduling cycle: passes of start, consolidate, reclaim, preempt, take back, give up, until one changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.fast.shortcuts import accelerate
from scheduling.domain.engine.rules.phases import Phases
from scheduling.domain.engine.rules.starting import ChoiceOrder, run_start_phase
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.steps import Step, StepLog

MAX_PASSES = 100


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The state and the steps after the last of `passes` passes. `has_converged` is False if the last of `MAX_PASSES`
    passes still changed something."""

    world: World
    steps: tuple[Step, ...]
    has_converged: bool
    passes: int


def new_world(facts: ClusterFacts, *, fast: bool = True) -> World:
    """The state of these facts. Without `fast` the rules alone decide, and everything is looked at again each time."""
    world = World(facts)
    return accelerate(world) if fast else world


def run_cycle(facts: ClusterFacts, *, fast: bool = True, notes_spared: bool = False) -> CycleResult:
    """Schedule the facts until a pass changes nothing. The same facts in any order give the same steps, and so do the
    rules alone (`fast=False`), which take longer. With `notes_spared` the steps name the work that evictions
    spared."""
    world = new_world(facts, fast=fast)
    world.notes_spared = notes_spared
    return run_passes(world)


def run_passes(world: World) -> CycleResult:
    """Schedule the state until a pass changes nothing."""
    step_log = StepLog(world)
    choices = ChoiceOrder(Phases(world, StepLog(world)).would_start)
    phases = Phases(world, step_log, choices)
    for number in range(1, MAX_PASSES + 1):
        step_log.pass_number = number
        choices.begin_pass()
        changed = [
            run_start_phase(world, step_log, choices),
            phases.consolidate(),
            phases.reclaim(),
            phases.preempt(),
            phases.take_back(),
            phases.give_up(),
        ]
        if not any(changed) and not choices.ends_waiting():
            return CycleResult(world, tuple(step_log.steps), has_converged=True, passes=number)
    return CycleResult(world, tuple(step_log.steps), has_converged=False, passes=MAX_PASSES)
