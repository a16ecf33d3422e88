"""Two verdicts: the admission of a submission and the start of a gang (design, D5, D6).

Current usage never refuses a submission; it only decides whether a gang starts. All amounts are whole GPUs; -1 is
unlimited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pools.domain.errors import Fault, Violation, joined_messages
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount, Gpus, amount_text, as_json, gpu_words
from pools.domain.values.counting import counted
from scheduling.domain.flavor_choices import FlavorNeed, GangNeeds
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
class FlavorLimits:
    """What bounds a submission in one GPU flavor: the accounting quota of the leaf, the maximum of its pool, and the
    most that the cohort tree could ever give (None without a bound)."""

    quota: Gpus
    maximum: Gpus
    tree: TreeLimit | None = None


@dataclass(frozen=True, slots=True)
class LeafFacts:
    """The facts that a submission is judged by: the limits of the leaf by flavor (a pool without flavors has `default`
    alone; `parts` are those that count parts of shared GPUs), and the state of its pool. `observed` is the cluster of
    the pool if it is only observed."""

    pool: str
    limits: Mapping[str, FlavorLimits]
    parts: Collection[str] = ()
    state: SubpoolState | None = None
    archived: bool = False
    maintenance: bool = False
    observed: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionRefusal:
    """Why a submission is refused; work that may use several flavors has one violation for each. `is_by_quota` tells
    the client that a number refused it, not a rule of use."""

    message: str
    violations: tuple[Violation, ...]
    is_by_quota: bool = False


def submission_verdict(
    leaf: LeafFacts, *, priority: Priority, gangs: Sequence[GangNeeds], ignores_maintenance: bool
) -> SubmissionRefusal | None:
    """None if the submission is admitted, else the first broken rule: first the state of the pool, then the rules that
    decide whether the work could ever run. Every gang needs one choice of flavors that its leaf could ever hold."""
    if leaf.archived:
        return _closed_refusal(leaf, Fault.ARCHIVED, "It takes no work until an osmo-admin brings it back.")
    if leaf.state not in {None, SubpoolState.ACTIVE}:
        return _closed_refusal(
            leaf, str(leaf.state), "It takes no new work; submit to its parent or to another subpool."
        )
    if leaf.observed:
        message = (
            f"The cluster {leaf.observed} of {leaf.pool} is observed: its own scheduler decides, and OSMO Admin starts "
            "nothing there. Submit to that scheduler, or to a pool of another cluster."
        )
        return SubmissionRefusal(message, (Violation("pool", Fault.CLUSTER_OBSERVED, message),))
    if leaf.maintenance and not ignores_maintenance:
        return _closed_refusal(leaf, "in MAINTENANCE", "Only osmo-admin may submit until it is over.")
    for needs in sorted(gangs, key=_size, reverse=True):
        if not needs:
            return _no_flavor_refusal(leaf)
        faults = [_find_fault(leaf, priority, need, is_only=len(needs) == 1) for need in needs]
        if all(faults):
            return _too_large_refusal(leaf, priority, sorted(filter(None, faults), key=_missing))
    return None


def _size(needs: GangNeeds) -> int:
    return max((sum(need.values()) for need in needs), default=0)


def _closed_refusal(leaf: LeafFacts, state: str, advice: str) -> SubmissionRefusal:
    message = f"{leaf.pool} is {state}. {advice}"
    return SubmissionRefusal(message, (Violation("pool", Fault.POOL_CLOSED, message),))


def _no_flavor_refusal(leaf: LeafFacts) -> SubmissionRefusal:
    known = ", ".join(leaf.limits)
    message = f"{leaf.pool} has none of the GPU flavors that the work names. Name one of these: {known}."
    return SubmissionRefusal(message, (Violation("workflow", Fault.UNKNOWN_FLAVOR, message),))


def _too_large_refusal(leaf: LeafFacts, priority: Priority, faults: Sequence[Violation]) -> SubmissionRefusal:
    """The refusal of a gang none of whose choices fits, with one violation for each, the nearest first."""
    if len(faults) == 1:
        return SubmissionRefusal(faults[0].message, tuple(faults), is_by_quota=True)
    lines = joined_messages(faults)
    advice = "" if priority.is_preemptible else ", or submit with priority LOW, which may go over quota"
    message = f"The largest gang fits in no GPU flavor of {leaf.pool}. {lines} One of these is enough{advice}."
    return SubmissionRefusal(message, tuple(faults), is_by_quota=True)


def _missing(fault: Violation) -> float:
    numbers = dict(fault.numbers)
    return float(numbers["requested"]) - float(numbers["limit"])


def _find_fault(leaf: LeafFacts, priority: Priority, need: FlavorNeed, *, is_only: bool) -> Violation | None:
    """The first limit of a flavor that the gang could never stay within, or None. `is_only`: it has no other choice."""
    for flavor, requested in need.items():
        limits = leaf.limits.get(flavor)
        if limits is None:
            continue
        if requested > limits.maximum:
            found = "may never hold more than", limits.maximum, Fault.ABOVE_MAXIMUM
        elif not priority.is_preemptible and requested > limits.quota:
            found = f"guarantees {priority} work", limits.quota, Fault.ABOVE_QUOTA
        elif limits.tree is not None and requested > limits.tree.gpus:
            return _above_tree(leaf, flavor, requested, limits.tree, is_only=is_only)
        else:
            continue
        return _above(leaf, flavor, requested, *found, is_only=is_only)
    return None


def _above(
    leaf: LeafFacts, flavor: str, requested: int, phrase: str, limit: Gpus, code: Fault, *, is_only: bool
) -> Violation:
    advice = ", or submit with priority LOW, which may go over quota" if is_only and code == Fault.ABOVE_QUOTA else ""
    pool, asks = leaf.pool, _asks(leaf, flavor, requested, is_only=is_only)
    message = f"{asks}, {pool} {phrase} {limit}. Ask for at most {limit} at once{advice}."
    if not limit and code == Fault.ABOVE_QUOTA and flavor != DEFAULT_FLAVOR:
        other = " Name another flavor, or submit with priority LOW, which may go over quota." if is_only else ""
        message = f"{asks}, {pool} {phrase} none.{other}"
    numbers = (("requested", requested), ("limit", limit), *_flavor_number(flavor))
    return Violation("workflow", code, message, numbers=numbers)


def _above_tree(leaf: LeafFacts, flavor: str, requested: int, tree: TreeLimit, *, is_only: bool) -> Violation:
    most = amount_text(tree.gpus)
    message = (
        f"{_asks(leaf, flavor, requested, is_only=is_only)}, {leaf.pool} may never hold more than {most}: "
        f"{tree.explanation}. Ask for at most {most} at once."
    )
    numbers = (("requested", requested), ("limit", as_json(tree.gpus)), ("node", tree.node), ("node_limit", tree.limit))
    return Violation("workflow", Fault.ABOVE_TREE, message, numbers=(*numbers, *_flavor_number(flavor)))


def _asks(leaf: LeafFacts, flavor: str, requested: int, *, is_only: bool) -> str:
    """The beginning of a line: one of several stands below a sentence that names the gang."""
    if is_only:
        return f"The largest gang asks for {counted(requested, *gpu_words(flavor, leaf.parts))} at once"
    return f"{flavor}: it asks for {counted(requested, *gpu_words(flavor, leaf.parts, is_named=False))} at once"


def _flavor_number(flavor: str) -> tuple[tuple[str, str], ...]:
    return () if flavor == DEFAULT_FLAVOR else (("flavor", flavor),)


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
