"""What is said about waiting work is tried: on random installations the lines are obeyed, and the engine runs again."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.outcome import queue_positions, waiting_reasons
from tests.unit.engine.random_installations import random_installation, starts

FEW, MANY = range(60), range(60, 1500)


def waiting(seed):
    """The settled facts, their world, and each waiting gang with its reason."""
    given = random_installation(seed)
    after = run_cycle(given)
    assert after.steps == (), seed
    return given, after.world, waiting_reasons(after.world)


def find_unheld(seed):
    """The gangs that still wait without those that are said to hold them back, though nothing ahead of them starts."""
    given, world, why = waiting(seed)
    place = {name: each.overall for name, each in queue_positions(world).items()}
    for name, reason in why.items():
        if reason.code != "held_back":
            continue
        holders = {gang for remedy in reason.remedies for gang in remedy.gangs}
        after = run_cycle(replace(given, gangs=tuple(each for each in given.gangs if each.name not in holders)))
        is_running = {gang.fact.name for gang in after.world.gangs if any(gang.active)}
        if name not in is_running and not any(place[other] < place[name] for other in is_running & place.keys()):
            yield name, reason.unblock


def find_unneeded_holders(seed):
    """The gangs that start although one of those still waits that are said to hold them back."""
    given, _world, why = waiting(seed)
    for name, reason in why.items():
        for holder in reason.remedies[0].gangs if reason.code == "held_back" else ():
            gone = set(reason.remedies[0].gangs) - {holder}
            if starts(replace(given, gangs=tuple(each for each in given.gangs if each.name not in gone)), name):
                yield name, reason.unblock


def find_untold_reservations(seed):
    """The gangs that start without any policy, and only so, and are told something else."""
    given, _world, why = waiting(seed)
    for name, reason in why.items() if given.policy is not None else ():
        free = replace(given, policy=None)
        if reason.code != "held_back" and starts(free, name) and not starts(given, name):
            yield name, reason.code, reason.message


def find_useless_time_limits(seed):
    """The gangs that still wait with the time limit that is offered, though nothing ahead of them has started."""
    given, world, why = waiting(seed)
    place = {name: each.overall for name, each in queue_positions(world).items()}
    for name, reason in why.items():
        offers = [re.search(r"time limit of at most (\S+) s", line) for line in reason.unblock]
        for limit in (int(found[1]) for found in offers if found):
            gangs = tuple(replace(each, time_limit=limit) if each.name == name else each for each in given.gangs)
            after = run_cycle(replace(given, gangs=gangs)).world
            ahead = [other for other in place if place[other] < place[name] and after.gang_of[other].is_running]
            if not after.gang_of[name].is_running and not ahead:
                yield name, reason.unblock


CHECKS = [find_unheld, find_unneeded_holders, find_untold_reservations, find_useless_time_limits]


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_said_is_true(check):
    assert {seed: found for seed in FEW if (found := list(check(seed)))} == {}


@pytest.mark.nightly
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("check", CHECKS)
def test_what_is_said_is_true_of_many(check):
    assert {seed: found for seed in MANY if (found := list(check(seed)))} == {}
