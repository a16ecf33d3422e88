"""Draws that belong to the thing that they are about, and not to the round that makes them.

A number is drawn by the names of its future and of its gang, batch or queue. So two rounds draw the same for the same
gang, and an event does not draw anew what it has nothing to do with.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from statistics import NormalDist

NORMAL = NormalDist()

SPREAD = 7
"""Futures over which the draws of a gang are spread: a prime number, so that each order of parts is a step in it."""


def chance(*of: object) -> float:
    """A number between 0 and 1, the same for the same names, in each process."""
    digest = blake2b("\0".join(map(str, of)).encode(), digest_size=7).digest()
    return (int.from_bytes(digest) + 0.5) / 2**56


def spread_chance(future: int, *of: object) -> float:
    """A number between 0 and 1 for each future. Those of any `SPREAD` futures in a row are one in each of as many equal
    parts of that range, in an order that belongs to the names (Latin hypercube sampling, McKay 1979): so few futures
    say more of the middle than as many independent draws."""
    step, first = divmod(int(chance(*of) * SPREAD * (SPREAD - 1)), SPREAD)
    part = ((step + 1) * future + first) % SPREAD
    return (part + chance(future, *of)) / SPREAD


def exponential(*of: object) -> float:
    """A number with mean 1."""
    return -math.log(chance(*of))


def normal(*of: object) -> float:
    """A number with mean 0 and variance 1."""
    return NORMAL.inv_cdf(chance(*of))
