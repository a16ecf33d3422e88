"""Numbers as people write them, read exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pools.domain.values.amounts import MAX_DIGITS, InvalidNumber, parse_exact


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("0.1", Fraction(1, 10)), ("1e3", 1000), (".5", Fraction(1, 2)), ("2.50", Fraction(5, 2))],
)
def test_it_is_exact(text: str, number: object) -> None:
    assert parse_exact(text) == number


@pytest.mark.parametrize("text", ["9" * MAX_DIGITS, f"0.{'9' * (MAX_DIGITS - 1)}", f"1e{MAX_DIGITS - 1}"])
def test_the_largest_and_one_more(text: str) -> None:
    """Digits and power together are bounded, because `1e999999999` would fill the memory."""
    assert parse_exact(text) == Fraction(text)
    longer = f"1e{MAX_DIGITS}" if "e" in text else f"{text}9"
    with pytest.raises(InvalidNumber):
        parse_exact(longer)


@pytest.mark.parametrize("text", ["", ".", "e3", "1e", "0x1", "1_000", "١", "inf", "nan", "1" * 1000, "1e999999999"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(InvalidNumber):
        parse_exact(text)
