"""The order of writes, checked after each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.queues.desired import DesiredQueue
from scheduling.domain.queues.observed import ObservedQueue, Ownership, QueueDifference
from scheduling.domain.queues.plan import QueueAction, QueueStep, independent_chains, plan_queues

CHANGE = (QueueDifference("spec.x", 1, 2),)


def queue(name: str, quota: int, parent: str | None) -> DesiredQueue:
    return DesiredQueue(name, parent, name, quota)


def there(name: str, quota: float, parent: str | None, standing: Ownership = Ownership.OURS) -> ObservedQueue:
    return ObservedQueue(name, f"uid-{name}", parent, quota, standing)


def drawn(picture: str) -> list[tuple[str, int, str | None]]:
    """(name, quota, parent) of each line; two more blanks mean one level deeper."""
    found: list[tuple[str, int, str | None]] = []
    way: list[str] = []
    for line in filter(str.strip, picture.splitlines()):
        name, quota = line.split()
        del way[(len(line) - len(line.lstrip())) // 2 :]
        found.append((name, int(quota), way[-1] if way else None))
        way.append(name)
    return found


def wanted(picture: str) -> dict[str, DesiredQueue]:
    return {name: queue(name, quota, parent) for name, quota, parent in drawn(picture)}


def seen(picture: str, target: Mapping[str, DesiredQueue]) -> dict[str, ObservedQueue]:
    """The queues as a cluster shows them; a queue that is not as in `target` differs."""
    found = {}
    for name, quota, parent in drawn(picture):
        goal = target.get(name)
        differs = goal is not None and (goal.quota, goal.parent) != (quota, parent)
        found[name] = ObservedQueue(name, f"uid-{name}", parent, quota, Ownership.OURS, CHANGE if differs else ())
    return found


def words(steps: Iterable[QueueStep]) -> list[str]:
    return [f"{step.action} {step.name}" for step in steps]


def test_nothing_to_do() -> None:
    picture = "root -1\n  team 10\n    s 10"
    target = wanted(picture)
    assert plan_queues(target, seen(picture, target)).steps == ()


def test_a_new_tree_is_made_from_the_top() -> None:
    target = wanted("root -1\n  team 10\n    s 7\n    a 3")
    assert words(plan_queues(target, {}).steps) == ["create root", "create team", "create s", "create a"]


def test_a_new_subpool_waits_until_the_shared_leaf_has_shrunk() -> None:
    target = wanted("root -1\n  team 100\n    a 30\n    s 70")
    steps = plan_queues(target, seen("root -1\n  team 100\n    s 100", target)).steps
    assert words(steps) == ["update s", "create a"]


def test_a_subpool_goes_before_the_shared_leaf_grows() -> None:
    target = wanted("root -1\n  team 100\n    s 100")
    steps = plan_queues(target, seen("root -1\n  team 100\n    s 70\n    a 30", target)).steps
    assert words(steps) == ["delete a", "update s"]
    assert steps[0].uid == "uid-a"


def test_the_container_grows_before_and_shrinks_after_its_leaves() -> None:
    target = wanted("root -1\n  more 20\n    m 20\n  less 10\n    l 10")
    steps = plan_queues(target, seen("root -1\n  more 10\n    m 10\n  less 20\n    l 20", target)).steps
    order = words(steps)
    assert order.index("update more") < order.index("update m")
    assert order.index("update l") < order.index("update less")


def test_a_pool_goes_from_its_leaves_up() -> None:
    target = wanted("root -1")
    steps = plan_queues(target, seen("root -1\n  team 10\n    s 7\n    a 3", target)).steps
    assert words(steps)[-1] == "delete team"
    assert sorted(words(steps)[:2]) == ["delete a", "delete s"]


def test_unlimited_counts_as_more_than_any_number() -> None:
    target = wanted("root -1\n  team 10\n    s 10")
    assert words(plan_queues(target, seen("root -1\n  team -1\n    s -1", target)).steps) == ["update s", "update team"]
    target = wanted("root -1\n  team -1\n    s -1")
    assert words(plan_queues(target, seen("root -1\n  team 10\n    s 10", target)).steps) == ["update team", "update s"]


def test_a_pool_that_joins_a_cohort_finds_it_there() -> None:
    target = wanted("root -1\n  org 10\n    team 10\n      s 10")
    steps = plan_queues(target, seen("root -1\n  team 10\n    s 10", target)).steps
    assert words(steps) == ["create org", "update team"]
    assert (steps[0].affected_names, steps[1].affected_names) == (("org",), ("team", "org")), "the root is everybody's"


def test_quota_moves_between_cohorts() -> None:
    before = "root -1\n  a 30\n    p 10\n    x 20\n  b 10\n    y 10"
    target = wanted("root -1\n  a 20\n    p 20\n  b 30\n    y 10\n    x 20")
    around = seen(before, target)
    steps = plan_queues(target, around).steps
    assert words(steps) == ["update b", "update x", "update a", "update p"]
    check(steps, around)


def test_a_pool_leaves_a_cohort_before_the_cohort_goes() -> None:
    before = "root -1\n  org 34\n    lab 14\n      team 10\n        s 10\n    other 20"
    target = wanted("root -1\n  org 30\n    team 10\n      s 10\n    other 20")
    steps = plan_queues(target, seen(before, target)).steps
    assert words(steps) == ["update team", "delete lab", "update org"]


def test_pools_may_be_written_side_by_side_and_cohorts_may_not() -> None:
    target = wanted("root -1\n  a 10\n    as 10\n  b 10\n    bs 10\n  org 10\n    c 5\n      cs 5\n    d 5\n      ds 5")
    parts = sorted(words(part) for part in independent_chains(plan_queues(target, {}).steps))
    assert parts == [
        ["create a", "create as"],
        ["create b", "create bs"],
        ["create org", "create c", "create cs", "create d", "create ds"],
        ["create root"],
    ]


def test_leaves_without_their_container_get_it_back() -> None:
    target = wanted("root -1\n  team 10\n    s 6\n    a 4")
    orphans = {
        name: each for name, each in seen("root -1\n  team 10\n    s 7\n    a 3", target).items() if name != "team"
    }
    assert words(plan_queues(target, orphans).steps) == ["create team", "update s", "update a"]


def test_a_quota_that_others_raised_is_reduced_again() -> None:
    target = wanted("root -1\n  team 10\n    s 7\n    a 3")
    steps = plan_queues(target, seen("root -1\n  team 5\n    s 50\n    a 1", target)).steps
    assert words(steps)[0] == "update s"
    assert sorted(words(steps)) == ["update a", "update s", "update team"]


def test_queues_of_others_and_below_them_are_untouched() -> None:
    target = wanted("root -1\n  team 10\n    s 10\n  own 5\n    t 5")
    around = {
        "team": ObservedQueue("team", "u", "root", 10, Ownership.OTHERS, (), "it belongs to another installation"),
        "root": there("root", -1, None),
        "stranger": there("stranger", 3, "root", Ownership.UNKNOWN),
    }
    found = plan_queues(target, around)
    assert words(found.steps) == ["create own", "create t"]
    assert {(each.name, each.note) for each in found.untouched} == {
        ("team", "it belongs to another installation"),
        ("s", "team above it is not ours"),
        ("team", "a queue of others below our root; its quota is in none of our sums"),
        ("stranger", "a queue of others below our root; its quota is in none of our sums"),
    }


def test_a_queue_with_a_guest_below_it_stays_with_all_above_it() -> None:
    target = wanted("root -1")
    around = {
        **seen("root -1\n  team 10\n    s 7\n    a 3", target),
        "guest": there("guest", 1, "a", Ownership.UNKNOWN),
    }
    found = plan_queues(target, around)
    assert words(found.steps) == ["delete s"]
    assert [each.name for each in found.untouched] == ["a", "team"]


def test_an_adopted_queue_is_written_once_even_without_differences() -> None:
    target = wanted("root -1")
    (step,) = plan_queues(target, {"root": there("root", -1, None, Ownership.ADOPTED)}).steps
    assert (step.action, step.description) == (QueueAction.UPDATE, "update root: take over")


def test_a_cycle_written_by_hand_causes_no_endless_loop() -> None:
    target = wanted("root -1\n  team 10\n    s 10")
    around = seen("root -1\n  team 10\n    s 10", target)
    around["team"] = ObservedQueue("team", "u", "s", 10, Ownership.OURS, CHANGE)
    assert words(plan_queues(target, around).steps) == ["update team"]


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (QueueStep(QueueAction.CREATE, "a", queue("a", 5, "b")), "create a: 5 GPUs below b"),
        (QueueStep(QueueAction.CREATE, "a", queue("a", -1, None)), "create a: unlimited below nothing"),
        (QueueStep(QueueAction.DELETE, "a", None), "delete a"),
        (
            QueueStep(
                QueueAction.UPDATE,
                "a",
                queue("a", 5, None),
                differences=(QueueDifference("spec.priority", None, 100, "kim"),),
            ),
            "update a: spec.priority: nothing → 100",
        ),
    ],
)
def test_steps_read_as_sentences(step: QueueStep, sentence: str) -> None:
    assert step.description == sentence


def check(steps: Iterable[QueueStep], start: Mapping[str, ObservedQueue]) -> dict[str, tuple[float, str | None]]:
    """Apply the steps one by one; after each step every parent exists and no sum is above its queue."""
    tree = {name: (_size(each.quota), each.parent) for name, each in start.items()}
    for step in steps:
        if step.queue is None:
            del tree[step.name]
        else:
            tree[step.name] = (_size(step.queue.quota), step.queue.parent)
        for name, (quota, _) in tree.items():
            below = [own for own, parent in tree.values() if parent == name]
            assert sum(below) <= quota, (words(steps), step.name, name)
        for name, (_, parent) in tree.items():
            assert parent is None or parent in tree, (step.name, name)
    return tree


def _size(quota: float) -> float:
    return math.inf if quota == -1 else quota


SHARES = st.dictionaries(
    st.sampled_from([f"p{n}" for n in range(4)]),
    st.tuples(
        st.integers(0, 9), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4), st.booleans()
    ),
    max_size=4,
)


def desired_state(shares: Mapping[str, tuple[int, Mapping[str, int], bool]]) -> dict[str, DesiredQueue]:
    """Pools whose subpools and shared leaf sum up exactly, or that are unlimited."""
    found = {"root": queue("root", -1, None)}
    for pool, (rest, subpools, is_unlimited) in shares.items():
        if is_unlimited:
            found[pool] = queue(pool, -1, "root")
            found[f"{pool}-s"] = queue(f"{pool}-s", -1, pool)
            continue
        found[pool] = queue(pool, rest + sum(subpools.values()), "root")
        found[f"{pool}-s"] = queue(f"{pool}-s", rest, pool)
        found |= {f"{pool}-{name}": queue(f"{pool}-{name}", quota, pool) for name, quota in subpools.items()}
    return found


@given(before=SHARES, after=SHARES)
def test_from_any_state_to_any_other_no_sum_is_ever_too_large(before: dict, after: dict) -> None:  # type: ignore[type-arg]
    start, goal = desired_state(before), desired_state(after)
    around = {
        name: ObservedQueue(
            name, "u", each.parent, each.quota, Ownership.OURS, CHANGE if name in goal and goal[name] != each else ()
        )
        for name, each in start.items()
    }
    steps = plan_queues(goal, around).steps
    assert len({step.name for step in steps}) == len(steps), "each queue is written once"
    assert set(words(steps)) == {
        *(f"create {name}" for name in goal.keys() - start.keys()),
        *(f"delete {name}" for name in start.keys() - goal.keys()),
        *(f"update {name}" for name in start.keys() & goal.keys() if start[name] != goal[name]),
    }
    assert check(steps, around) == {name: (_size(each.quota), each.parent) for name, each in goal.items()}
