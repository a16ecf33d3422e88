"""Blockers: limits, quotas and nodes that keep a gang waiting, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pools.domain.amounts import UNLIMITED, Amount, Number
from scheduling.domain.engine.shortage import NodeShortage


@dataclass(frozen=True, slots=True)
class UnlentQuota:
    """A queue or cohort whose lending limit keeps idle quota from the others; `amount` for a message."""

    node: str
    amount: str


@dataclass(frozen=True, slots=True)
class Blocker:
    """One blocker. `limit` names the number of `node` that blocks: quota, limit, borrowing_limit, or nodes; `used` is
    the borrowed part of a borrowing limit."""

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
    unlent: tuple[UnlentQuota, ...] = ()


def limit_text(limit: str) -> str:
    """The name of a limit for a message."""
    return limit.replace("_", " ")
