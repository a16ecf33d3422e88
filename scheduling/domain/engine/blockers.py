"""One thing that stands in the way of a gang, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pools.domain.amounts import UNLIMITED, Amount, Number
from scheduling.domain.engine.shortage import NodeShortage


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing in the way. `limit` says which number of `node` it is: quota, limit, borrowing_limit, or nodes; `used`
    how much of a borrowing limit is borrowed already."""

    code: str
    node: str | None
    limit: str
    requested: Mapping[str, Number]
    free: Mapping[str, Number]
    missing: Mapping[str, Number]
    bound: Amount = UNLIMITED
    used: Amount = 0
    is_permanent: bool = False
    node_shortages: tuple[NodeShortage, ...] = ()


def limit_text(limit: str) -> str:
    """The name of a limit for a sentence."""
    return limit.replace("_", " ")
