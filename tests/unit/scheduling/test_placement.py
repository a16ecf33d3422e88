"""A gang finds machines for all its tasks, or for none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.placement import Machine, Need, place


def machine(name: str, gpus: int = 8, platform: str = "default", cpu: int = 64) -> Machine:
    return Machine(name, platform, gpus, cpu, 2**40, 2**40)


def machines(*gpus: int) -> dict[str, Machine]:
    return {f"n{index}": machine(f"n{index}", each) for index, each in enumerate(gpus, start=1)}


@pytest.mark.parametrize(
    ("wanted", "free", "nodes"),
    [
        ((8,), (8,), ["n1"]),
        ((9,), (8, 8), None),
        ((4, 4, 4), (8, 4), ["n1", "n1", "n2"]),
        ((8, 1), (8, 1), ["n1", "n2"]),
        ((1,), (8, 2, 4), ["n2"]),
        ((2, 2), (2, 2), ["n1", "n2"]),
        ((0,), (0,), ["n1"]),
        ((1, 1), (1,), None),
        ((1,), (), None),
    ],
)
def test_gpus(wanted: tuple[int, ...], free: tuple[int, ...], nodes: list[str] | None) -> None:
    """The fullest machine that still has room, so that whole machines stay free."""
    placed = place([Need(f"t{index}", gpus) for index, gpus in enumerate(wanted)], machines(*free))

    assert (sorted(placed.values()) if placed is not None else None) == nodes


@pytest.mark.parametrize(
    ("need", "fits"),
    [
        (Need("t", 1), True),
        (Need("t", 1, platform="h100"), False),
        (Need("t", 1, nodes_excluded=("n1",)), False),
        (Need("t", 1, nodes_excluded=("n2",)), True),
        (Need("t", 1, cpu=65), False),
        (Need("t", 1, memory_bytes=2**41), False),
        (Need("t", 1, storage_bytes=2**41), False),
    ],
)
def test_everything_else_counts_too(need: Need, fits: bool) -> None:
    assert (place([need], machines(8)) is not None) is fits


@given(st.lists(st.integers(0, 8), max_size=12), st.lists(st.integers(-2, 8), max_size=6), st.integers(1, 4))
def test_no_machine_is_ever_overfull(wanted: list[int], free: list[int], cpu: int) -> None:
    facts = machines(*free)
    needs = [Need(f"t{index}", gpus, cpu) for index, gpus in enumerate(wanted)]
    placed = place(needs, facts)

    if placed is None:
        return
    assert placed.keys() == {need.task for need in needs}
    for name, each in facts.items():
        mine = [need for need in needs if placed[need.task] == name]
        assert not mine or sum(need.gpus for need in mine) <= each.gpus
        assert sum(need.cpu for need in mine) <= each.cpu
