"""The words of receipts: by which rule an attempt ended, what was lost, and why other work stayed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pools.domain.values.amounts import gpus_text
from scheduling.domain.engine.steps import SparedBy
from scheduling.domain.receipts.causes import EndCause

OTHER_POOL, OTHER_WORK = "another pool", "other work"
"""In place of names that the reader may not know."""

CAUSE_LABELS: Mapping[EndCause, str] = MappingProxyType(
    {
        EndCause.PRIORITY: "Priority",
        EndCause.RECLAIM: "Reclaim of quota",
        EndCause.FAIR_SHARE: "Fair share",
        EndCause.RESERVATION: "Start reservation",
        EndCause.CONSOLIDATION: "Consolidation",
        EndCause.LOWERED_QUOTA: "Lowered quota",
        EndCause.BELOW_MINIMUM: "Below its minimum",
        EndCause.NODE: "Node lost",
        EndCause.EVICTED: "Memory or storage",
        EndCause.PERSON: "A person",
        EndCause.NOT_KNOWN: "Not known",
    }
)
"""The rule of a receipt, in tables."""

PREEMPTED_BY_CLUSTER = "The scheduler of the cluster preempted it."
"""Of an attempt, in place of the words of the scheduler: they name workloads and queues of others, and all readers of
the attempt read its message. The receipt keeps them for those who may read them."""

CAUSE_VERBS: Mapping[EndCause, str] = MappingProxyType(
    {
        EndCause.CONSOLIDATION: "Moved",
        EndCause.NODE: "Lost",
        EndCause.EVICTED: "Evicted",
        EndCause.PERSON: "Cancelled",
    }
)
"""What happened to the work, where it is not *Preempted*."""

STAYED: Mapping[SparedBy, str] = MappingProxyType(
    {
        SparedBy.QUEUE: "its queue is later in the order of victims",
        SparedBy.PRIORITY: "it has a higher priority",
        SparedBy.AGE: "it was submitted earlier",
        SparedBy.ROOM: "its place alone was not enough, or not needed",
        SparedBy.LEAST_LOST: "the work that went loses less",
    }
)
"""Why work stayed that the rule also allowed to evict."""


@dataclass(frozen=True, slots=True)
class EndFacts:
    """What one interruption took. `by_leaf` and `by_user` are empty where nobody took it or the reader may not know
    them. `by_flavor` has the `gpus` of each flavor of a pool with flavors, of which `parts` count parts of shared
    GPUs."""

    cause: EndCause
    leaf: str
    gpus: int
    by_leaf: str = ""
    by_user: str = ""
    quota_at_start: int | None = None
    quota: object = None
    by_flavor: Mapping[str, int] = field(default_factory=dict)
    parts: Collection[str] = ()

    @property
    def gpus_text(self) -> str:
        """`8 GPUs`, and with flavors `8 h100 GPUs`."""
        return gpus_text(self.gpus, self.by_flavor, self.parts)


def end_cause_text(facts: EndFacts) -> str:
    """The rule and its numbers: `lab--a took back 8 GPUs that lab--b had borrowed`."""
    gpus, leaf = facts.gpus_text, facts.leaf
    taker = facts.by_leaf or OTHER_POOL
    match facts.cause:
        case EndCause.PRIORITY:
            return f"LOW work in {leaf} gave up {gpus}"
        case EndCause.RECLAIM:
            return f"{taker} took back {gpus} that {leaf} had borrowed"
        case EndCause.FAIR_SHARE:
            return f"{taker} took {gpus} of its fair share that {leaf} had borrowed"
        case EndCause.RESERVATION:
            return f"{gpus} in {leaf} were reserved for work that waited long"
        case EndCause.CONSOLIDATION:
            return f"it moved {gpus} to other nodes, so that the other work could start"
        case EndCause.LOWERED_QUOTA:
            lowered = f"the quota of {leaf} was lowered from {facts.quota_at_start} to {facts.quota}"
            return f"{lowered}, and {taker} took {gpus} that it no longer covers"
        case EndCause.BELOW_MINIMUM:
            return f"its gang fell below its minimum and gave up {gpus} in {leaf}"
        case EndCause.NODE:
            return f"its node was lost, with {gpus} in {leaf}"
        case EndCause.EVICTED:
            return f"it was stopped for memory or storage, with {gpus} in {leaf}"
        case EndCause.PERSON:
            return f"it held {gpus} in {leaf}"
        case EndCause.NOT_KNOWN:
            return f"it took {gpus} in {leaf}"
