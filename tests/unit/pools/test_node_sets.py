"""Pools that share nodes, directly or through other pools."""

from __future__ import annotations

import pytest

from pools.domain.configuration.node_sets import connected_node_sets

THERE = {(1, "a", "h100"), (1, "b", "h100"), (1, "c", "h100"), (1, "d", "h100"), (2, "a", "h100"), (1, "a", "a100")}
ONE_FLAVOR = ("h100",)


@pytest.mark.parametrize(
    ("pools", "sets"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([("x", 1, ["a"]), ("y", 1, ["b"])], [["x"], ["y"]], id="apart"),
        pytest.param([("x", 1, ["a"]), ("y", 1, ["a"])], [["x", "y"]], id="the same platform"),
        pytest.param([("x", 1, ["a"]), ("y", 2, ["a"])], [["x"], ["y"]], id="the same platform elsewhere"),
        pytest.param([("x", 1, ["a", "b"]), ("y", 1, ["b", "c"])], [["x", "y"]], id="overlap"),
        pytest.param(
            [("x", 1, ["a"]), ("y", 1, ["d"]), ("z", 1, ["a", "b"]), ("w", 1, ["b"])],
            [["x", "z", "w"], ["y"]],
            id="through others, in the order of the first",
        ),
        pytest.param(
            [("v", 1, ["a"]), ("w", 1, ["b"]), ("x", 1, ["c"]), ("y", 1, ["d"]), ("z", 1, ["a", "b", "c", "d"])],
            [["v", "w", "x", "y", "z"]],
            id="one joins all",
        ),
        pytest.param(
            [("x", 1, ["gone"]), ("y", 1, ["a"]), ("z", 1, ["other"]), ("w", 2, ["gone"])],
            [["x", "z"], ["y"], ["w"]],
            id="without nodes: one empty set per backend",
        ),
        pytest.param(
            [("x", 1, ["a", "gone"]), ("y", 1, ["gone"])], [["x"], ["y"]], id="a platform without nodes joins nobody"
        ),
    ],
)
def test_components(pools: list[tuple[str, int, list[str]]], sets: list[list[str]]) -> None:
    rows = [(*row, ONE_FLAVOR) for row in pools]
    assert [each.pools for each in connected_node_sets(rows, THERE)] == sets


def test_pools_with_other_flavors_share_no_nodes() -> None:
    pools = [("x", 1, ["a"], ["h100"]), ("y", 1, ["a"], ["a100"]), ("z", 1, ["a"], ["default"])]
    assert [(each.pools, each.node_groups) for each in connected_node_sets(pools, THERE)] == [
        (["x"], {(1, "a", "h100")}),
        (["y"], {(1, "a", "a100")}),
        (["z"], set()),
    ]
    both = ("w", 1, ["a"], ["a100", "h100"])
    assert [each.pools for each in connected_node_sets([*pools, both], THERE)] == [["x", "y", "w"], ["z"]]


def test_places_of_a_component_are_counted_once() -> None:
    pools = [("x", 1, ["a", "b"]), ("y", 1, ["b", "c"]), ("z", 1, ["c", "a"])]
    (found,) = connected_node_sets([(*row, ONE_FLAVOR) for row in pools], THERE)
    assert found.node_groups == {(1, "a", "h100"), (1, "b", "h100"), (1, "c", "h100")}
