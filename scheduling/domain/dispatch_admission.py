"""May a gang be given to its cluster: what a cluster's scheduler cannot know of cohorts is kept by waiting here.

The queues of one cluster say quotas and limits of every level exactly (:mod:`scheduling.domain.queues.cohort_levels`). They
cannot say that an owner does not lend all he has, nor what the same tree holds on another cluster, nor that parents run
in a circle. In such trees the start verdict is asked before a gang is dispatched, and whatever was dispatched counts as
if it ran. Work inside the quota of its own leaf is never kept: what others borrowed of it the cluster takes back, which
it does only for work that it sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pools.domain.amounts import GPU, UNLIMITED, Amount, amount_text, as_json
from pools.domain.quota.forest import display_name
from pools.domain.quota.pool_balance import UNLIMITED_GPUS as NO_NUMBER
from pools.domain.quota.tree import QuotaTree, Shortfall
from scheduling.domain.admission import Gate, StartRefusal, WaitCode
from scheduling.domain.plan_units import Gates
from scheduling.domain.priorities import Priority
from scheduling.domain.tree_gates import TreeGates

BY_PLATFORM = "house"
"""Who says so, in the field `by` of the reason: the cluster has never heard of the gang."""

NOT_LENT = "not_lent"
"""The code of the reason where a lending limit is what keeps a gang."""

_CODES = {
    WaitCode.LEAF_QUOTA: ("over_quota", "quota"),
    WaitCode.POOL_QUOTA: ("over_quota", "quota"),
    WaitCode.POOL_MAXIMUM: ("over_limit", "limit"),
}
_TREE_CODES = {"quota": "nothing_to_borrow", "borrowing_limit": "over_borrowing_limit", "cycle": "cycle"}


def needs_dispatch_admission(tree: QuotaTree, backends: int) -> bool:
    """Whether queues cannot say all that these trees ask, whose pools stand on so many backends."""
    return backends > 1 or bool(tree.cyclic_indexes) or any(local > 0 for local in tree.columns[GPU].local)


def dispatch_verdict(
    gates: Gates, tree: TreeGates, leaf: int, priority: Priority, gpus: int
) -> StartRefusal | Shortfall | None:
    """Why so many GPUs may not be given to the cluster on this leaf; None if they may. `gates` are those of its pool,
    without the cohorts above, and like `tree` with everything that was dispatched."""
    wait = gates.verdict(leaf, priority, gpus)
    if wait is not None or gpus == 0:
        return wait
    short = tree.shortfall(leaf, gpus)
    if short is not None and short.limit != "cycle" and _is_within_leaf_quota(gates.path(leaf)[0], priority, gpus):
        return None
    return short


def _is_within_leaf_quota(leaf: Gate, priority: Priority, gpus: int) -> bool:
    """Whether the leaf's own quota has the room. LOW work may stand on what nobody firm claims, so all use counts."""
    held = leaf.total_usage if priority.is_preemptible else leaf.used
    return leaf.quota == NO_NUMBER or held + gpus <= leaf.quota


def idle_unlent_gpus(tree: QuotaTree, node: str) -> Amount:
    """GPUs that stand idle in the tree above this node, and that their owners do not lend."""
    column, x = tree.columns[GPU], tree.index[node]
    way = set()
    while x >= 0:
        way.add(x)
        x = column.parents[x]
    idle = [max(0, column.local[x] - column.usage[x]) for x in range(len(column.parents)) if x not in way]
    return UNLIMITED if UNLIMITED in idle else sum(idle)


@dataclass(frozen=True, slots=True)
class DispatchWait:
    """Why a gang is not given to its cluster yet, as it is kept and shown (`Group.waiting_reason`)."""

    code: str
    message: str
    node: str
    limit: str
    requested: Amount
    free: Amount

    def as_json(self) -> dict[str, Any]:
        """The numbers are GPUs."""
        return {
            "code": self.code,
            "message": self.message,
            "by": BY_PLATFORM,
            "queue": self.node,
            "limit": self.limit,
            "requested": as_json(self.requested),
            "free": as_json(self.free),
            "missing": as_json(max(0, self.requested - self.free)),
        }


def explain_dispatch_wait(verdict: StartRefusal | Shortfall, idle_gpus: Amount = 0) -> DispatchWait:
    """The verdict in words. `idle_gpus` are the GPUs of the tree that nobody uses and nobody lends."""
    asked = f"It asks for {_gpus(verdict.requested)}"
    if isinstance(verdict, StartRefusal):
        code, limit = _CODES[verdict.code]
        sentence = f"{asked}; the {limit} of {verdict.node} ({verdict.limit}) leaves {verdict.free}."
        return DispatchWait(code, f"{sentence} {_UNTIL}", verdict.node, limit, verdict.requested, verdict.free)
    code, node = _TREE_CODES[verdict.limit], display_name(verdict.node)
    if verdict.limit == "cycle":
        sentence = f"The parents of {node} run in a circle; nothing is given to the cluster there until it is broken."
        return DispatchWait(code, sentence, node, verdict.limit, verdict.requested, verdict.available)
    if idle_gpus and verdict.limit == "quota":
        code = NOT_LENT
        keeps = f"{amount_text(idle_gpus)} more {'stands' if idle_gpus == 1 else 'stand'} idle that their owners do not lend"
        sentence = f"{asked}; everything under {node} lends {_gpus(verdict.available)}, and {keeps} (lending limits)."
    elif verdict.limit == "quota":
        sentence = f"{asked}; everything under {node} leaves {_gpus(verdict.available)}."
    else:
        sentence = f"{asked}; the borrowing limit of {node} leaves {_gpus(verdict.available)}."
    return DispatchWait(code, f"{sentence} {_UNTIL}", node, verdict.limit, verdict.requested, verdict.available)


_UNTIL = "The house gives it to the cluster when they are free."


def _gpus(amount: Amount) -> str:
    text = amount_text(amount if amount == UNLIMITED else math.floor(amount))
    return "1 GPU" if text == "1" else f"{text} GPUs"
