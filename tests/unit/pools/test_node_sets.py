"""Pools that share nodes, directly or through other pools."""

from __future__ import annotations

import pytest

from pools.domain.configuration.node_sets import connected_node_sets

THERE = {(1, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "a")}


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
    assert [each.pools for each in connected_node_sets(pools, THERE)] == sets


def test_places_of_a_component_are_counted_once() -> None:
    (found,) = connected_node_sets([("x", 1, ["a", "b"]), ("y", 1, ["b", "c"]), ("z", 1, ["c", "a"])], THERE)
    assert found.node_groups == {(1, "a"), (1, "b"), (1, "c")}
