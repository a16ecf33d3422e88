"""What is said about waiting work is tried: on random installations the lines are obeyed, and the engine runs again."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.outcome import queue_positions, waiting_reasons
from tests.unit.engine.random_installations import alone, obeyed, raised, random_installation, starts
from tests.unit.engine.sample_clusters import GPU

FEW, MANY = [*range(60), 640, 695], range(60, 1500)


@lru_cache(maxsize=len(FEW))
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


def find_unnamed_reservations(seed):
    """The gangs that start without any policy, and only so, and whose reason says something else."""
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


def find_false_lending(seed):
    """The gangs that wait although the lending limits rise as said, and those that would start with less."""
    given, _world, why = waiting(seed)
    for name, reason in why.items():
        mine = alone(given, name)
        lent = [blocker for blocker in reason.blockers if blocker.unlent]
        if reason.is_permanent or not lent or starts(mine, name):
            continue
        others = [blocker for blocker in reason.blockers if not blocker.unlent]
        rises = {each.node: int(each.rise.split()[0]) for blocker in lent for each in blocker.unlent}
        is_enough = all(blocker.lendable == blocker.missing[GPU] for blocker in lent)
        for short in [None, *rises]:
            now = obeyed(mine, others)
            for node, rise in rises.items():
                now = raised(now, node, "lending_limit", rise - (node == short))
            if starts(now, name) is not (is_enough and short is None):
                yield name, short, reason.unblock
        if not is_enough:
            now = obeyed(mine, others)
            for node in rises:
                now = raised(now, node, "lending_limit", None)
            if starts(now, name):
                yield name, "more helps", reason.unblock


def find_insufficient_lines(seed):
    """The gangs that wait although their lines are obeyed and no other work waits."""
    given, _world, why = waiting(seed)
    for name, reason in why.items():
        mine = alone(given, name)
        if not reason.blockers or reason.is_permanent:
            continue
        each = [reason.blockers] if reason.needs_all_remedies else [(line,) for line in reason.blockers]
        if not all(starts(obeyed(mine, lines), name) for lines in each):
            yield name, reason.needs_all_remedies, reason.unblock


def find_unneeded_lines(seed):
    """The gangs that start without one of the lines that are said to be needed together."""
    given, _world, why = waiting(seed)
    for name, reason in why.items():
        mine = alone(given, name)
        if reason.is_permanent or not reason.needs_all_remedies or starts(mine, name):
            continue
        for line in reason.blockers if len(reason.blockers) > 1 else ():
            if starts(obeyed(mine, [other for other in reason.blockers if other is not line]), name):
                yield name, line.limit, reason.unblock


def find_unnamed_competition(seed):
    """The gangs that start as soon as no other work waits, and whose reason does not say so."""
    given, _world, why = waiting(seed)
    for name, reason in why.items():
        says_so = reason.code == "held_back" or "fair share" in reason.message or "if less waited" in reason.message
        if reason.blockers and not says_so and starts(alone(given, name), name):
            yield name, reason.code, reason.message


def find_wrong_victims(seed):
    """The gangs whose line, obeyed alone, does not take the places that it names."""
    given, _world, why = waiting(seed)
    for name, reason in why.items():
        if not any(remedy.takes for remedy in reason.remedies) or reason.needs_all_remedies:
            continue
        for line, remedy in zip(reason.blockers, reason.remedies, strict=True):
            steps = run_cycle(obeyed(alone(given, name), [line])).steps
            taken = {step.gang for step in steps if step.beneficiary == name and step.action in {"reclaim", "preempt"}}
            if taken != set(remedy.takes):
                yield name, taken, remedy


CHECKS = [
    find_insufficient_lines,
    find_unneeded_lines,
    find_unnamed_competition,
    find_wrong_victims,
    find_false_lending,
    find_unheld,
    find_unneeded_holders,
    find_unnamed_reservations,
    find_useless_time_limits,
]


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_said_is_true(check):
    assert {seed: found for seed in FEW if (found := list(check(seed)))} == {}


@pytest.mark.nightly
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("check", CHECKS)
def test_what_is_said_is_true_of_many(check):
    assert {seed: found for seed in MANY if (found := list(check(seed)))} == {}
