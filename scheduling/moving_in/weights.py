"""Weights of siblings as whole numbers: only their ratio counts, so all of one parent are multiplied alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

MAX_FACTOR: Final = 10**6


def whole_weights(weights: Mapping[str, Fraction]) -> tuple[dict[str, int], int, list[str]]:
    """The weights of siblings as whole numbers with the same ratios, the factor, and the names of those that had to be
    rounded, because no factor of at most a million makes them whole."""
    factor = math.lcm(*(weight.denominator for weight in weights.values())) if weights else 1
    factor = min(factor, MAX_FACTOR)
    found, rounded = {}, []
    for name, weight in weights.items():
        exact = weight * factor
        found[name] = round(exact)
        if exact.denominator != 1:
            rounded.append(name)
            found[name] = max(found[name], 1)
    return found, factor, rounded
