"""Quantities of an API server: `16`, `500m`, `64Gi`, `1e3`. Only for values that a server has checked."""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: dict[str, int] = {letter: 1024**power for power, letter in enumerate("KMGTPE", 1)}


def read_quantity(value: object) -> Fraction | None:
    """The exact number; None for a value that is not a quantity."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    suffix = match[2] or ""
    if suffix.endswith("i"):
        return Fraction(match[1]) * _BINARY[suffix[0]]
    power = suffix[1:] if len(suffix) > 1 else _DECIMAL.get(suffix, 0)
    return Fraction(f"{match[1]}e{power}")
