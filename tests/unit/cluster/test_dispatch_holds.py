"""Who comes first in a pool, and what is held back for it, with numbers alone."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from scheduling.domain.judgement.dispatch_holds import (
    RunningPoolWork,
    WaitingPoolGang,
    by_flavor,
    find_held_back,
    find_holds,
    held_in_all,
)
from scheduling.domain.priorities import Priority

A, B, NOW, AFTER = 1, 2, 10_000.0, 3600.0
LOW, NORMAL, HIGH = Priority.LOW, Priority.NORMAL, Priority.HIGH


def work(number, leaf=A, priority=NORMAL, gpus=8, ready=0.0, sent=False, limit=None):
    return WaitingPoolGang(UUID(int=number), leaf, priority, (ready, "w", number), gpus, ready, sent, limit)


def held(*waiting, running=(), quotas=None):
    """The numbers of the gangs that are held back."""
    holds, _following = find_holds(waiting, running, AFTER, NOW)
    found = find_held_back(waiting, running, holds, {A: 0, B: 0} if quotas is None else quotas, NOW)
    return {group.int for group in found}


def test_the_first_gang_that_has_waited_holds_what_comes_later():
    first, second = work(1, sent=True), work(2, ready=10)
    assert held(first, second) == {2}
    assert held(work(1, sent=True, ready=NOW - AFTER + 1), work(2, ready=NOW)) == set()
    assert held(work(1), second) == set(), "it is not on the cluster itself"
    assert held(first, work(2, ready=10, gpus=0)) == set(), "work without GPUs competes for none"


def test_new_work_of_a_higher_priority_goes_on_and_ends_no_hold():
    assert held(work(1, sent=True), work(2, priority=HIGH, ready=9000), work(3, ready=9000)) == {3}
    sent = work(2, priority=HIGH, ready=9000, sent=True)
    assert held(work(1, sent=True), sent, work(3, ready=9000)) == {3}


def test_low_work_of_the_same_leaf_is_preempted_and_goes_on():
    assert held(work(1, sent=True), work(2, priority=LOW, ready=10)) == set()
    assert held(work(1, priority=LOW, sent=True), work(2, ready=10)) == set()
    assert held(work(1, priority=LOW, sent=True), work(2, priority=LOW, ready=10)) == {2}


def test_work_inside_the_quota_of_another_leaf_goes_on_up_to_that_quota():
    first = work(1, sent=True)
    others = [work(2, B, ready=10), work(3, B, LOW, ready=20), work(4, B, LOW, ready=30)]
    assert held(first, *others, quotas={A: 8, B: 16}) == {4}
    running = [RunningPoolWork(B, NORMAL, 8, None)]
    assert held(first, *others, running=running, quotas={A: 8, B: 16}) == {3, 4}
    assert held(first, *others, quotas={}) == {2, 3, 4}


def test_work_that_ends_before_the_gang_starts_at_the_latest_goes_on():
    running = [RunningPoolWork(A, NORMAL, 8, NOW + 600), RunningPoolWork(B, LOW, 8, NOW + 60)]
    first = work(1, sent=True)
    assert held(first, work(2, ready=10, limit=600), work(3, ready=10, limit=601), running=running) == {3}
    unknown = [*running, RunningPoolWork(B, LOW, 1, None)]
    assert held(first, work(2, ready=10, limit=1), running=unknown) == {2}
    ((hold,), _following) = find_holds([first], running, AFTER, NOW)
    assert (hold.since, hold.latest_start) == (AFTER, NOW + 600)


def test_the_latest_start_does_not_move_with_the_clock():
    """Where nothing of the pool runs, or runs beyond its limit, the time is not known."""
    first = work(1, sent=True)
    for running in ([], [RunningPoolWork(A, NORMAL, 8, NOW - 1)]):
        ((hold,), _following) = find_holds([first], running, AFTER, NOW)
        assert hold.latest_start is None


def test_a_hold_may_be_in_vain_after_twice_the_wait_of_the_setting():
    ((hold,), _following) = find_holds([work(1, sent=True)], [], AFTER, NOW)
    assert not hold.may_be_in_vain(3 * AFTER - 1)
    assert hold.may_be_in_vain(3 * AFTER)


def test_every_gang_that_keeps_work_here_is_reported():
    """Two leaves, each with a gang that comes first and one behind it; new work of A waits for both of the first."""
    waiting = [work(1, sent=True), work(2, B, sent=True, ready=5), work(3, ready=7, sent=True), work(4, ready=100)]
    holds, following = find_holds(waiting, (), AFTER, NOW)
    (held,) = find_held_back(waiting, (), holds, {A: 0, B: 0}, NOW, following).values()
    assert [hold.holder.group.int for hold in held.holds] == [1, 2]
    assert held.following == 1
    for gone, is_held in (({1}, True), ({2}, True), ({1, 2}, True), ({1, 2, 3}, False)):
        left = [each for each in waiting if each.group.int not in gone]
        assert bool(find_held_back(left, (), find_holds(left, (), AFTER, NOW)[0], {A: 0, B: 0}, NOW)) is is_held, gone


def kinds(number, choices, **more):
    return replace(work(number, **more), choices=tuple(choices))


def held_by_flavor(*waiting, running=(), quotas=None):
    """The numbers of the gangs that are held back in all flavors, and the flavors in which others are."""
    found = {}
    for flavor, mine in by_flavor(waiting, running).items():
        holds, _following = find_holds(mine.waiting, mine.running, AFTER, NOW)
        found[flavor] = find_held_back(mine.waiting, mine.running, holds, (quotas or {}).get(flavor, {}), NOW)
    whole, partly = held_in_all(waiting, found)
    return {group.int for group in whole}, {group.int: set(flavors) for group, flavors in partly.items()}


def test_a_gang_holds_its_own_flavor_alone():
    first = kinds(1, [{"h100": 8}], sent=True)
    others = [
        kinds(2, [{"h100": 8}], ready=10), kinds(3, [{"a100": 8}], ready=10),
        kinds(4, [{"h100": 8}, {"a100": 8}], ready=10), kinds(5, [{"h100": 4, "a100": 4}], ready=10),
    ]  # fmt: skip
    assert held_by_flavor(first, *others) == ({2, 5}, {4: {"h100"}})


def test_each_flavor_of_a_leaf_has_a_gang_that_comes_first():
    first, second = kinds(1, [{"h100": 8}], sent=True), kinds(2, [{"a100": 8}], sent=True, ready=5)
    either = kinds(3, [{"h100": 8}, {"a100": 8}], ready=10)
    assert held_by_flavor(first, second, either) == ({3}, {})


def test_the_quota_of_another_leaf_counts_by_flavor():
    first = kinds(1, [{"h100": 8}], sent=True)
    other = kinds(2, [{"h100": 8}, {"a100": 8}], leaf=B, ready=10)
    assert held_by_flavor(first, other, quotas={"h100": {B: 8}}) == (set(), {})
    assert held_by_flavor(first, other, quotas={"a100": {B: 8}}) == (set(), {2: {"h100"}})
    full = [RunningPoolWork(B, NORMAL, 8, None, "h100")]
    assert held_by_flavor(first, other, running=full, quotas={"h100": {B: 8}}) == (set(), {2: {"h100"}})


def test_only_work_of_the_flavor_says_when_the_gang_starts():
    running = [RunningPoolWork(A, NORMAL, 8, NOW + 600, "h100"), RunningPoolWork(A, NORMAL, 8, None, "a100")]
    first = kinds(1, [{"h100": 8}], sent=True)
    assert held_by_flavor(first, kinds(2, [{"h100": 8}], ready=10, limit=600), running=running) == (set(), {})
