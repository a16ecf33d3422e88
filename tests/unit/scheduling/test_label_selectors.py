"""`--label KEY=SELECTOR`: exact values, `*`, `(A|B)`; everything else is a plain character."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.label_selectors import selector_pattern


@pytest.mark.parametrize(
    ("selector", "matches", "others"),
    [
        ("one", ["one"], ["one2", "xone", "On", ""]),
        ("sim_*", ["sim_", "sim_a.b"], ["sim", "asim_"]),
        ("*_b", ["a_b", "_b"], ["a_bc"]),
        ("*", ["", "anything"], []),
        ("(sim_*|hil_*)", ["sim_1", "hil_"], ["sil_1"]),
        ("robotics_(a|b)", ["robotics_a", "robotics_b"], ["robotics_c", "robotics_"]),
        ("a.b", ["a.b"], ["axb"]),
        ("(a)", ["a"], ["(a)"]),
    ],
)
def test_selectors(selector: str, matches: list[str], others: list[str]) -> None:
    pattern = selector_pattern(selector)

    assert pattern is not None
    assert all(re.search(pattern, value) for value in matches)
    assert not any(re.search(pattern, value) for value in others)


@pytest.mark.parametrize("selector", ["", "(a", "a)", "a|b", "(a|)", "()", "((a)|b)", "x" * 201])
def test_unreadable(selector: str) -> None:
    assert selector_pattern(selector) is None


@given(st.text(alphabet="ab.*+?[]{}^$\\|()", min_size=1, max_size=12))
def test_the_result_is_always_a_regular_expression(selector: str) -> None:
    pattern = selector_pattern(selector)
    if pattern is not None:
        re.compile(pattern)
