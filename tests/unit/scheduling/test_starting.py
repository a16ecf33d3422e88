"""Which gangs start: order, quota, machines, and never more than the gates let through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.admission import Gate
from scheduling.domain.placement import Machine, Need
from scheduling.domain.priorities import Priority
from scheduling.domain.starting import Path, Plan, WaitingGang, room, still_allowed

T0 = datetime(2026, 11, 20, tzinfo=UTC)
POOL = Gate("team", 100, 0, 120, 0)
PATHS: dict[int, Path] = {1: (Gate("team--a", 30, 0, -1, 0), POOL), 2: (Gate("team--_shared", 70, 0, -1, 0), POOL)}


def gang(number: int, gpus: int, priority: Priority = Priority.NORMAL, leaf: int = 1, when: int = 0) -> WaitingGang:
    return WaitingGang(UUID(int=number), leaf, priority, T0 + timedelta(seconds=when or number), 0, gpus)


def machines(*gpus: int) -> dict[str, Machine]:
    return {f"n{i}": Machine(f"n{i}", "default", each, 1000, 2**50, 2**50) for i, each in enumerate(gpus)}


def one_task(gangs: list[WaitingGang]) -> dict[UUID, list[Need]]:
    return {each.group: [Need(f"task-{each.group.int}", each.gpus)] for each in gangs}


def started(gangs: list[WaitingGang], *free: int, paths: dict[int, Path] | None = None) -> list[int]:
    plan = Plan(paths or PATHS, machines(*(free or (1000,))))
    ordered = sorted(gangs, key=lambda each: each.order)
    plan.consider(ordered, one_task(gangs))
    return [start.gang.group.int for start in plan.starts]


@pytest.mark.parametrize(
    ("gangs", "starts"),
    [
        ([gang(1, 30), gang(2, 1)], [1]),
        ([gang(1, 31), gang(2, 30)], [2]),
        ([gang(1, 20), gang(2, 20), gang(3, 10)], [1, 3]),
        ([gang(1, 30, Priority.NORMAL), gang(2, 30, Priority.HIGH)], [2]),
        ([gang(1, 30, Priority.LOW), gang(2, 30, Priority.NORMAL)], [2, 1]),
        ([gang(1, 60, Priority.LOW), gang(2, 60, Priority.LOW), gang(3, 1, Priority.LOW)], [1, 2]),
        ([gang(1, 30, leaf=1), gang(2, 70, leaf=2)], [1, 2]),
        ([gang(1, 5, leaf=3)], []),
        ([gang(1, 0)], [1]),
        ([gang(2, 30, when=1), gang(1, 30, when=2)], [2]),
    ],
)
def test_quota_and_order(gangs: list[WaitingGang], starts: list[int]) -> None:
    assert started(gangs) == starts


def test_the_place_in_the_file_breaks_ties() -> None:
    first = WaitingGang(UUID(int=9), 1, Priority.NORMAL, T0, 0, 30)
    second = WaitingGang(UUID(int=1), 1, Priority.NORMAL, T0, 1, 30)

    assert started([second, first]) == [9]


def test_machines_bind_where_quotas_do_not() -> None:
    assert started([gang(1, 9), gang(2, 8), gang(3, 8), gang(4, 1)], 8, 8) == [2, 3]


def test_a_full_pool_holds_back_its_slices() -> None:
    held = Gate("team", 100, 80, -1, 80)
    paths: dict[int, Path] = {1: (Gate("team--a", 30, 0, -1, 0), held)}

    assert started([gang(1, 21), gang(2, 20)], paths=paths) == [2]


def test_a_gang_whose_tasks_are_not_known_does_not_start() -> None:
    plan = Plan(PATHS, machines(8))
    plan.consider([gang(1, 1)], {})

    assert plan.starts == []


def test_is_full_when_no_gpu_is_left() -> None:
    plan = Plan(PATHS, machines(4))
    assert not plan.is_full
    plan.consider([gang(1, 4)], one_task([gang(1, 4)]))
    assert plan.is_full


@pytest.mark.parametrize(
    ("path", "preemptible", "free", "gpus"),
    [
        (PATHS[1], False, 1000, 30),
        (PATHS[1], True, 1000, 120),
        (PATHS[1], True, 7, 7),
        ((Gate("a", 10, 40, -1, 40), POOL), False, 1000, 0),
        ((Gate("a", -1, 5, -1, 5), Gate("team", -1, 5, -1, 5)), False, 12, 12),
    ],
)
def test_room(path: Path, preemptible: bool, free: int, gpus: int) -> None:
    assert room(path, preemptible=preemptible, free_gpus=free) == gpus


GANGS = st.lists(
    st.builds(
        gang,
        st.integers(1, 10**6),
        st.integers(0, 40),
        st.sampled_from(Priority),
        st.sampled_from([1, 2]),
        st.integers(1, 50),
    ),
    max_size=25,
    unique_by=lambda each: each.group,
)


@given(GANGS)
def test_never_more_than_the_gates_allow_and_nothing_that_could_start_is_left(gangs: list[WaitingGang]) -> None:
    plan = Plan(PATHS, machines(1000))
    plan.consider(sorted(gangs, key=lambda each: each.order), one_task(gangs))
    chosen = [start.gang for start in plan.starts]
    firm = {leaf: sum(g.gpus for g in chosen if g.leaf == leaf and g.priority is not Priority.LOW) for leaf in (1, 2)}

    assert firm[1] <= 30
    assert firm[2] <= 70
    assert sum(each.gpus for each in chosen) <= 120
    after = Gate("team", 100, sum(firm.values()), 120, sum(each.gpus for each in chosen))
    paths = {1: (Gate("team--a", 30, firm[1], -1, 0), after), 2: (Gate("team--_shared", 70, firm[2], -1, 0), after)}
    for each in gangs:
        if each not in chosen:
            left = room(paths[each.leaf], preemptible=each.priority.is_preemptible, free_gpus=10**6)
            assert each.gpus > left
    assert still_allowed(plan.starts, PATHS) == plan.starts


def test_what_a_cut_quota_no_longer_allows_is_dropped_in_order() -> None:
    plan = Plan(PATHS, machines(1000))
    gangs = [gang(1, 10), gang(2, 10), gang(3, 10)]
    plan.consider(gangs, one_task(gangs))
    smaller: dict[int, Path] = {1: (Gate("team--a", 20, 0, -1, 0), POOL)}

    assert [start.gang.group.int for start in still_allowed(plan.starts, smaller)] == [1, 2]
    assert still_allowed(plan.starts, {}) == []
