"""Quantities: accepted texts, refused texts, and output; the tables are those of the Kubernetes parser."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.values.quantities import MAX_UNITS, InvalidQuantity, Quantity, parse_quantity

SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# The pattern of the GPUResourceQuota object, which allows more than its own parser.
CRD = re.compile(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?\Z"
)


@pytest.mark.parametrize(
    ("text", "milli", "canonical"),
    [
        ("0", 0, "0"),
        ("0Gi", 0, "0"),
        ("1", 1000, "1"),
        ("+1", 1000, "1"),
        ("5.", 5000, "5"),
        (".5", 500, "500m"),
        ("00012", 12_000, "12"),
        ("1m", 1, "1m"),
        ("1000u", 1, "1m"),
        ("1000000n", 1, "1m"),
        ("1.500", 1500, "1500m"),
        ("1000", 10**6, "1k"),
        ("1500", 1_500_000, "1500"),
        ("1024Mi", 2**30 * 1000, "1Gi"),
        ("1.5Gi", 1536 * 2**20 * 1000, "1536Mi"),
        ("1000Mi", 1000 * 2**20 * 1000, "1000Mi"),
        ("0.1Gi", 107374182400, "107374182400m"),
        ("0.5Ki", 512_000, "512"),
        ("1.953125Ki", 2_000_000, "2000"),
        ("1e3", 10**6, "1e3"),
        ("12E6", 12 * 10**9, "12e6"),
        ("1500e0", 1_500_000, "1500"),
        ("1e-3", 1, "1e-3"),
        ("1E", 10**21, "1E"),
        (str(MAX_UNITS), MAX_UNITS * 1000, str(MAX_UNITS)),
        (7, 7000, "7"),
        (1000, 10**6, "1k"),
        (0.1, 100, "100m"),
        (2.0, 2000, "2"),
        (1e16, 10**19, "10P"),
    ],
)
def test_read_and_printed(text: object, milli: int, canonical: str) -> None:
    found = parse_quantity(text)
    assert found.milli == milli
    assert found.canonical == canonical
    assert parse_quantity(canonical).milli == milli
    if isinstance(text, str):
        assert str(found) == text, "what nobody computed prints as it was typed"


REFUSED = {
    "bad_value": (
        "", " ", "1 ", " 1", "1 Gi", "1\n", "1e3Ki", "1e", "1e1.5", "Gi", ".", "+", "--1", "1.2.3", "1,000", "1_000",
        "0x10", "NaN", "Inf", "1K", "1GB", "1GiB", "1ki", "١", "1" * 65, True, None, [1], float("nan"), float("inf"),
    ),
    "negative": (
        "-1", "-0.5Gi", -1, -0.5, -(10**30),
    ),
    "too_fine": (
        "0.5m", "1n", "0.0001Ki", 0.0001, "1e-9999",
    ),
    "too_large": (
        "8Ei", str(MAX_UNITS + 1), "1e9999", 2**63, 10**4000, 1e300,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code"), [(text, code) for code, texts in REFUSED.items() for text in texts])
def test_refused(text: object, code: str) -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse_quantity(text)
    assert refusal.value.code == code


def test_equal_amounts_compare_equal_by_value() -> None:
    assert len({parse_quantity(text).milli for text in ("1Gi", "1024Mi", "1073741824", "1048576Ki")}) == 1
    assert parse_quantity("1G").milli < parse_quantity("1Gi").milli


def test_a_sum_keeps_the_way_of_its_left_part() -> None:
    one, kilo, none = parse_quantity("1Gi"), parse_quantity("1000"), Quantity()
    assert str(one + kilo) == "1073742824"
    assert str(kilo + one) == "1073742824"
    assert str(one + parse_quantity("1024Mi")) == "2Gi"
    assert str(none + one) == "1Gi"
    assert str(parse_quantity("1.5").times(4)) == "6"
    assert str(parse_quantity("250m").times(4)) == "1"


def read(text: object) -> Quantity | str:
    """The quantity, or the code of the refusal."""
    try:
        return parse_quantity(text)
    except InvalidQuantity as refusal:
        return refusal.code


suffixes = st.sampled_from(
    [(name, Fraction(10) ** power) for name, power in SUFFIXES.items()]
    + [(name, Fraction(2) ** power) for name, power in BINARY.items()]
    + [(f"{letter}{power}", Fraction(10) ** power) for letter in "eE" for power in range(-9, 21)]
)


@given(st.integers(0, 10**9), st.integers(0, 999_999), suffixes)
def test_the_value_is_exact(whole: int, fraction: int, suffix: tuple[str, Fraction]) -> None:
    number = f"{whole}.{fraction:06d}"
    exact = Fraction(number) * suffix[1]
    found = read(f"{number}{suffix[0]}")
    if (exact * 1000).denominator != 1:
        assert found == "too_fine"
    elif exact > MAX_UNITS:
        assert found == "too_large"
    else:
        assert isinstance(found, Quantity)
        assert Fraction(found.milli, 1000) == exact
        again = parse_quantity(found.canonical)
        assert (again.milli, again.canonical) == (found.milli, found.canonical)
        assert CRD.match(found.canonical)


@given(st.text(alphabet="0123456789.+-eEkKMGTPmnui ", max_size=12) | st.text(max_size=8))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read(text)
    if isinstance(found, Quantity):
        assert CRD.match(text)
        assert 0 <= found.milli <= MAX_UNITS * 1000
    else:
        assert found in {"bad_value", "negative", "too_fine", "too_large"}
