"""Two verdicts: the admission of a submission and the start of a gang (design, D5, D6).

Current usage never refuses a submission; it only decides whether a gang starts. All amounts are whole GPUs; -1 is
unlimited.
"""

from __future__ import annotations

from dataclasses import dataclass

from pools.domain.errors import Fault, Violation
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import Amount, Gpus, amount_text, as_json
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode


@dataclass(frozen=True, slots=True)
class TreeLimit:
    """The most GPUs that the cohort tree could ever give a leaf, with the node and the limit that set this bound."""

    gpus: Amount
    node: str
    limit: str
    bound: Amount

    @property
    def explanation(self) -> str:
        """The number of the tree that sets the bound, in words."""
        if self.limit == "borrowing_limit":
            return f"the borrowing limit of {self.node} is {amount_text(self.bound)}"
        return f"no more than {amount_text(self.bound)} of everything under {self.node} can reach it"


@dataclass(frozen=True, slots=True)
class LeafFacts:
    """The facts that a submission is judged by: the accounting quota of the leaf, its pool, and the most that the
    cohort tree could ever give (None without a bound)."""

    pool: str
    quota: Gpus
    maximum: Gpus
    tree: TreeLimit | None = None
    state: SubpoolState | None = None
    archived: bool = False
    maintenance: bool = False


@dataclass(frozen=True, slots=True)
class SubmissionRefusal:
    """Why a submission is refused. `is_by_quota` tells the client that a number refused it, not a rule of use."""

    violation: Violation
    is_by_quota: bool = False


def submission_verdict(
    leaf: LeafFacts, *, priority: Priority, largest_gang: int, ignores_maintenance: bool
) -> SubmissionRefusal | None:
    """None if the submission is admitted, else the first broken rule: first the state of the pool, then the rules that
    decide whether the work could ever run."""
    if leaf.archived:
        return _closed_refusal(leaf, Fault.ARCHIVED, "It takes no work until an osmo-admin brings it back.")
    if leaf.state not in {None, SubpoolState.ACTIVE}:
        return _closed_refusal(
            leaf, str(leaf.state), "It takes no new work; submit to its parent or to another subpool."
        )
    if leaf.maintenance and not ignores_maintenance:
        return _closed_refusal(leaf, "in MAINTENANCE", "Only osmo-admin may submit until it is over.")
    if largest_gang > leaf.maximum:
        return _too_large_refusal(leaf, largest_gang, leaf.maximum, "may never hold more than", Fault.ABOVE_MAXIMUM)
    if not priority.is_preemptible and largest_gang > leaf.quota:
        return _too_large_refusal(leaf, largest_gang, leaf.quota, f"guarantees {priority} work", Fault.ABOVE_QUOTA)
    if leaf.tree is not None and largest_gang > leaf.tree.gpus:
        return _above_tree(leaf.pool, largest_gang, leaf.tree)
    return None


def _closed_refusal(leaf: LeafFacts, state: str, advice: str) -> SubmissionRefusal:
    return SubmissionRefusal(Violation("pool", Fault.POOL_CLOSED, f"{leaf.pool} is {state}. {advice}"))


def _too_large_refusal(leaf: LeafFacts, requested: int, limit: Gpus, phrase: str, code: Fault) -> SubmissionRefusal:
    message = (
        f"The largest gang asks for {requested} GPUs at once, {leaf.pool} {phrase} {limit}. "
        f"Ask for at most {limit} at once"
        + (", or submit with priority LOW, which may go over quota." if code == Fault.ABOVE_QUOTA else ".")
    )
    numbers = (("requested", requested), ("limit", limit))
    return SubmissionRefusal(Violation("workflow", code, message, numbers=numbers), is_by_quota=True)


def _above_tree(pool: str, requested: int, tree: TreeLimit) -> SubmissionRefusal:
    most = amount_text(tree.gpus)
    message = (
        f"The largest gang asks for {requested} GPUs at once, {pool} may never hold more than {most}: "
        f"{tree.explanation}. Ask for at most {most} at once."
    )
    numbers = (("requested", requested), ("limit", as_json(tree.gpus)), ("node", tree.node), ("node_limit", tree.limit))
    return SubmissionRefusal(Violation("workflow", Fault.ABOVE_TREE, message, numbers=numbers), is_by_quota=True)


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """Why a gang may not start now: whether a quota or a limit blocks, the node of the tree, its quota or limit, the
    requested and the free GPUs."""

    code: ReasonCode
    node: str
    limit: Gpus
    requested: int
    free: Gpus


@dataclass(frozen=True, slots=True)
class Gate:
    """The numbers of one node of the tree that bound a start: `quota` bounds HIGH/NORMAL usage, `maximum` all usage."""

    name: str
    quota: Gpus
    used: int
    maximum: Gpus
    total_usage: int


def start_verdict(path: tuple[Gate, ...], *, priority: Priority, gpus: int) -> StartRefusal | None:
    """None if quotas and limits let the gang start. `path` runs from the leaf to the root.

    HIGH/NORMAL must fit inside the quota of the leaf and of every node above it, counting HIGH/NORMAL use only; every
    priority must fit under each `maximum`, counting all use. Equality fits. A gang without GPUs always passes.
    """
    if gpus == 0:
        return None
    for gate in path:
        if not priority.is_preemptible and gate.used + gpus > gate.quota:
            return StartRefusal(ReasonCode.OVER_QUOTA, gate.name, gate.quota, gpus, max(0, gate.quota - gate.used))
        if gate.total_usage + gpus > gate.maximum:
            return StartRefusal(
                ReasonCode.OVER_LIMIT, gate.name, gate.maximum, gpus, max(0, gate.maximum - gate.total_usage)
            )
    return None
