"""Worlds of one flavor are scheduled as before there were flavors: `kept_steps.txt` has what the engine of that time
did in each of them, and a digest of all that it said."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import HIGH, LOW, NORMAL, TaskState
from scheduling.domain.engine.outcome import queue_positions, waiting_reasons
from tests.unit.engine.random_installations import HOUR, NOW, random_installation
from tests.unit.engine.sample_clusters import gang

KEPT = Path(__file__).with_name("kept_steps.txt")
SEEDS = range(60)


def line_of(seed: int) -> str:
    """The steps after some running work has ended and two more gangs have come, and the digest of steps, reasons and
    places."""
    before, pick = random_installation(seed), random.Random(seed + 1000)
    running = [each.name for each in before.gangs if any(task.state is TaskState.RUNNING for task in each.tasks)]
    ended = set(pick.sample(running, min(2, len(running))))
    leaves = sorted({each.name for each in before.queues} - {each.parent for each in before.queues})
    new = [
        gang(f"new{n}", pick.choice(leaves), pick.choice([LOW, NORMAL, HIGH]), gpus=pick.choice([1, 2, 4]), at=NOW)
        for n in range(2)
    ]
    left = [each for each in before.gangs if each.name not in ended]
    policy = before.policy and replace(before.policy, now=NOW + HOUR)
    cycle = run_cycle(replace(before, gangs=(*left, *new), policy=policy), notes_spared=True)
    steps = [f"{each.action.value} {each.gang} {'+'.join(each.nodes)}".rstrip() for each in cycle.steps]
    said: list[object] = [
        (each.message, each.tasks, each.beneficiary, each.eviction and [other.gang for other in each.eviction.spared])
        for each in cycle.steps
    ]
    said += [(name, reason.code, reason.message) for name, reason in sorted(waiting_reasons(cycle.world).items())]
    said += [(name, place.overall) for name, place in sorted(queue_positions(cycle.world).items())]
    return f"{seed}: {', '.join(steps) or 'nothing'} {sha256(repr(said).encode()).hexdigest()[:16]}"


def test_the_steps_and_reasons_of_worlds_of_one_flavor_stay():
    assert [line_of(seed) for seed in SEEDS] == KEPT.read_text(encoding="utf-8").splitlines()
