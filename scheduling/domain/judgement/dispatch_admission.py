"""The gate before dispatch: rules of cohorts that the scheduler of a cluster cannot know keep a gang waiting here.

The queues of one cluster express the quotas and limits of every level exactly
(:mod:`scheduling.domain.queues.cohort_levels`). They cannot express a lending limit, the usage of the same tree on
another cluster, or a cycle of parents. In such trees a gang needs a start verdict before it is dispatched, and all
dispatched work counts as running. Work inside the quota of its own leaf always passes: the cluster reclaims what others
borrowed of that quota, but only for work that the cluster sees.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pools.domain.quota.forest import display_name
from pools.domain.quota.tree import QuotaTree, Shortfall
from pools.domain.values.amounts import (
    DEFAULT_FLAVOR,
    UNLIMITED,
    Amount,
    amount_text,
    amounts_text,
    as_json,
    gpu_key,
    is_gpu,
)
from scheduling.domain.judgement.admission import Gate, StartRefusal
from scheduling.domain.judgement.plan_units import Gates
from scheduling.domain.judgement.tree_gates import TreeGates
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import LIMIT_OF, ReasonCode

BY_PLATFORM = "house"
"""The value of the field `by` of a reason that comes from us: the cluster does not know the gang yet."""

_TREE_CODES = {
    "quota": ReasonCode.NOTHING_TO_BORROW,
    "borrowing_limit": ReasonCode.OVER_BORROWING_LIMIT,
    "cycle": ReasonCode.CYCLE,
}


def needs_dispatch_admission(tree: QuotaTree, backends: int) -> bool:
    """Whether queues cannot express every rule of this tree. `backends` is the number of backends that its pools
    use."""
    return backends > 1 or bool(tree.cyclic_indexes) or _has_lending_limit(tree)


def _has_lending_limit(tree: QuotaTree) -> bool:
    return any(local > 0 for key, column in tree.columns.items() if is_gpu(key) for local in column.local)


def dispatch_verdict(
    gates: Gates, tree: TreeGates, leaf: int, priority: Priority, gpus: int, flavor: str = DEFAULT_FLAVOR
) -> StartRefusal | Shortfall | None:
    """Why a gang with these GPUs of a flavor may not be dispatched on this leaf; None if it may.

    `gates` are the gates of its pool without the cohorts above. `gates` and `tree` count all dispatched work.
    """
    wait = gates.verdict(leaf, priority, gpus, flavor)
    if wait is not None or gpus == 0:
        return wait
    short = tree.shortfall(leaf, gpus, flavor)
    if short is None or short.limit == "cycle":
        return short
    return None if is_within_leaf_quota(gates.path(leaf, flavor)[0], priority, gpus) else short


def is_within_leaf_quota(leaf: Gate, priority: Priority, gpus: int) -> bool:
    """Whether the gang fits into the quota of its own leaf. LOW work uses quota that HIGH and NORMAL work leaves free,
    so for LOW work all usage counts."""
    held = leaf.total_usage if priority.is_preemptible else leaf.used
    return held + gpus <= leaf.quota


def idle_unlent_gpus(tree: QuotaTree, node: str, flavor: str = DEFAULT_FLAVOR) -> Amount:
    """Idle GPUs of a flavor in the tree outside the path of this node that their owners do not lend."""
    column, x = tree.columns[gpu_key(flavor)], tree.index[node]
    path = set()
    while x >= 0:
        path.add(x)
        x = column.parents[x]
    idle = [max(0, column.local[x] - column.usage[x]) for x in range(len(column.parents)) if x not in path]
    return UNLIMITED if UNLIMITED in idle else sum(idle)


@dataclass(frozen=True, slots=True)
class DispatchWait:
    """Why a gang is not dispatched yet, as `Group.waiting_reason` stores it: `why`, and what has to happen."""

    code: ReasonCode
    why: str
    node: str
    limit: str
    requested: Amount
    free: Amount
    idle: Amount = 0
    """Idle GPUs that their owners do not lend."""
    flavor: str = DEFAULT_FLAVOR
    until: str = ""

    @property
    def why_passed(self) -> str:
        """Why a gang got another flavor, in a few words."""
        if self.limit == "cycle":
            return "its cohorts form a cycle"
        return f"the {self.limit.replace('_', ' ')} of {self.node} left {amount_text(max(0, self.free))}"

    @property
    def message(self) -> str:
        """Both sentences."""
        return f"{self.why} {self.until}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """The stored reason. The numbers are GPUs."""
        return {
            "code": self.code,
            "message": self.message,
            "by": BY_PLATFORM,
            "queue": self.node,
            "limit": self.limit,
            "requested": as_json(self.requested),
            "free": as_json(self.free),
            "missing": as_json(max(0, self.requested - self.free)),
            **({"idle": as_json(self.idle)} if self.idle else {}),
            **({} if self.flavor == DEFAULT_FLAVOR else {"flavor": self.flavor}),
        }


def explain_dispatch_wait(
    verdict: StartRefusal | Shortfall,
    idle_gpus: Amount = 0,
    flavor: str = DEFAULT_FLAVOR,
    parts: Collection[str] = (),
) -> DispatchWait:
    """The verdict as a reason with a message. `idle_gpus` are idle GPUs of the tree that their owners do not lend;
    `parts` the flavors that count parts of shared GPUs."""
    request_text, until = f"It asks for {_gpus(verdict.requested, flavor, parts)}", _until(flavor, parts)
    if isinstance(verdict, StartRefusal):
        limit = LIMIT_OF[verdict.code]
        why = f"{request_text}; the {limit} of {verdict.node} ({verdict.limit}) leaves {verdict.free}."
        return DispatchWait(
            verdict.code, why, verdict.node, limit, verdict.requested, verdict.free, flavor=flavor, until=until
        )
    code, node = _TREE_CODES[verdict.limit], display_name(verdict.node)
    numbers = (node, verdict.limit, verdict.requested, verdict.available)
    free = _gpus(verdict.available, flavor, parts)
    if verdict.limit == "cycle":
        why = f"The parents of {node} form a cycle; nothing is dispatched there until one of them changes."
        return DispatchWait(code, why, *numbers, flavor=flavor)
    if idle_gpus and verdict.limit == "quota":
        verb = "is" if idle_gpus == 1 else "are"
        unlent = f"{amount_text(idle_gpus)} more {verb} idle but not lent by their owners"
        why = f"{request_text}; everything under {node} lends {free}, and {unlent} (lending limits)."
        return DispatchWait(ReasonCode.NOT_LENT, why, *numbers, idle_gpus, flavor, until)
    if verdict.limit == "quota":
        why = f"{request_text}; everything under {node} leaves {free}."
    else:
        why = f"{request_text}; the borrowing limit of {node} leaves {free}."
    return DispatchWait(code, why, *numbers, flavor=flavor, until=until)


def _until(flavor: str, parts: Collection[str]) -> str:
    return f"It is dispatched when enough {'parts of ' if flavor in parts else ''}GPUs are free."


def _gpus(amount: Amount, flavor: str, parts: Collection[str]) -> str:
    return amounts_text({gpu_key(flavor): amount if amount == UNLIMITED else math.floor(amount)}, parts)
