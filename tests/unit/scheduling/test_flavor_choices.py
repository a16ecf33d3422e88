"""Which flavors a gang may use, and what it counts in each."""

from __future__ import annotations

import pytest

from scheduling.domain.flavor_choices import (
    MAX_CHOICES,
    PoolFlavors,
    TaskGpus,
    counts_by_flavor,
    flavors_before,
    flavors_beside,
)
from scheduling.domain.gang import GangTree, SubGroup

POOL = PoolFlavors(("h100", "a100", "l40s"), {"dgx": {"h100"}, "mixed": {"a100", "l40s"}, "old": {"v100"}})


@pytest.mark.parametrize(
    ("task", "flavors"),
    [
        (TaskGpus(8), ("h100", "a100", "l40s")),
        (TaskGpus(8, ("l40s", "h100")), ("l40s", "h100")),
        (TaskGpus(8, ("a100", "gone")), ("a100",)),
        (TaskGpus(8, ("gone",)), ()),
        (TaskGpus(8, (), "dgx"), ("h100",)),
        (TaskGpus(8, ("l40s", "h100", "a100"), "mixed"), ("l40s", "a100")),
        (TaskGpus(8, (), "old"), ("h100", "a100", "l40s")),
        (TaskGpus(8, (), "unknown"), ("h100", "a100", "l40s")),
    ],
)
def test_the_flavors_of_a_task(task: TaskGpus, flavors: tuple[str, ...]) -> None:
    assert POOL.permitted(task) == flavors


@pytest.mark.parametrize(
    ("tasks", "choices"),
    [
        ([TaskGpus(8), TaskGpus(8)], (("h100",) * 2, ("a100",) * 2, ("l40s",) * 2)),
        ([TaskGpus(8, ("a100",)), TaskGpus(8)], (("a100", "a100"),)),
        ([TaskGpus(8), TaskGpus(0)], (("h100", "default"), ("a100", "default"), ("l40s", "default"))),
        ([TaskGpus(0)], (("default",),)),
        ([TaskGpus(8, ("h100",)), TaskGpus(8, ("a100",))], (("h100", "a100"),)),
        (
            [TaskGpus(8, ("h100",)), TaskGpus(8, ("a100", "l40s")), TaskGpus(8, ("h100",))],
            (("h100", "a100", "h100"), ("h100", "l40s", "h100")),
        ),
        ([TaskGpus(8, ("gone",)), TaskGpus(8)], ()),
    ],
)
def test_a_gang_is_split_only_where_its_tasks_name_different_flavors(
    tasks: list[TaskGpus], choices: tuple[tuple[str, ...], ...]
) -> None:
    assert POOL.choices(tasks) == choices


def test_a_pool_without_flavors_has_one() -> None:
    pool = PoolFlavors()
    assert pool.choices([TaskGpus(8, ("h100",)), TaskGpus(0)]) == (("default", "default"),)
    assert pool.needs([TaskGpus(8), TaskGpus(4)], 12, None) == [{"default": 12}]


def test_the_choices_of_many_different_tasks_are_bounded() -> None:
    names = tuple(f"f{i}" for i in range(40))
    tasks = [TaskGpus(1, names[i : i + 2]) for i in range(0, 40, 2)]
    assert len(PoolFlavors(names).choices(tasks)) == MAX_CHOICES


def test_work_whose_flavors_the_pool_lost_keeps_the_one_that_it_names() -> None:
    assert POOL.choices_or_named([TaskGpus(8, ("gone", "too")), TaskGpus(8)]) == (("gone", "h100"),)


@pytest.mark.parametrize(
    ("held", "flavors"),
    [(["a100", ""], ("a100", "a100")), (["", "l40s"], ("l40s", "l40s")), (["v100", ""], ("v100", "h100"))],
)
def test_the_other_tasks_follow_those_that_have_a_flavor(held: list[str], flavors: tuple[str, ...]) -> None:
    assert flavors_beside(POOL.choices([TaskGpus(8), TaskGpus(8)]), held) == flavors


def test_an_elastic_gang_needs_its_minimum_in_each_flavor() -> None:
    tree = GangTree(2)
    assert POOL.needs([TaskGpus(4)] * 5, 8, tree) == [{"h100": 8}, {"a100": 8}, {"l40s": 8}]


def test_an_elastic_gang_of_two_flavors_needs_the_minimum_of_each() -> None:
    tree = GangTree(None, None, [SubGroup("big", min_member=1), SubGroup("small", min_member=2)])
    tasks = [TaskGpus(8, ("h100",), sub_group="big")] + [TaskGpus(1, ("a100",), sub_group="small")] * 4
    assert POOL.needs(tasks, 10, tree) == [{"a100": 2, "h100": 8}]


def test_a_workflow_needs_its_largest_gang_in_each_flavor_that_it_may_use() -> None:
    running = ({"h100": 8}, [{"h100": 8}])
    waiting = ({}, [{"h100": 4}, {"a100": 4}])
    assert counts_by_flavor([running, waiting]) == {"a100": (0, 4), "h100": (8, 8)}


@pytest.mark.parametrize(
    ("chosen", "before"),
    [
        (("h100", "h100"), []),
        (("a100", "a100"), ["h100"]),
        (("l40s", "l40s"), ["h100", "a100"]),
        (("gone", "gone"), []),
    ],
)
def test_the_flavors_that_come_before(chosen: tuple[str, ...], before: list[str]) -> None:
    assert flavors_before(POOL.choices([TaskGpus(8), TaskGpus(8)]), chosen) == before
