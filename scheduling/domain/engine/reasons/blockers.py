"""Blockers: limits, quotas and nodes that keep a gang waiting, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pools.domain.values.amounts import UNLIMITED, Amount, Number
from scheduling.domain.engine.reasons.node_bars import NO_BARS, NodeBars
from scheduling.domain.engine.reasons.shortage import NodeShortage


@dataclass(frozen=True, slots=True)
class UnlentQuota:
    """A queue or cohort whose lending limit keeps idle quota from the others, for a message: the amount that it keeps,
    and the rise of the limit."""

    node: str
    idle: str
    """Empty where it keeps nothing yet, but would keep what a limit below it gives."""
    rise: str

    @property
    def keeps(self) -> str:
        """The amount that it keeps idle, for a message."""
        return f" (keeps {self.idle} idle)" if self.idle else ""


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
    largest: tuple[Mapping[str, Number], tuple[str, ...]] = field(default_factory=lambda: ({}, ()))
    """Of the nodes: the most that is free on one for the largest task, and on which."""
    barred: NodeBars = NO_BARS
    """Of the nodes: what keeps the tasks from nodes that would do, for ever or now."""
    size: str = ""
    """Of a gang that never fits: what the nodes have, as a sentence."""
    unlent: tuple[UnlentQuota, ...] = ()
    """The lending limits that would have to rise."""
    lendable: Amount = 0
    """The part of the missing amount that they would give."""


def limit_text(limit: str) -> str:
    """The name of a limit for a message."""
    return limit.replace("_", " ")
