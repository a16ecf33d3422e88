"""What the engine is told. Plain values; amounts are `{"flavor/resource": number}`, times any numbers, small is old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pools.domain.amounts import Amount, Number
from scheduling.domain.gang import DEFAULT_SUB_GROUP, GangTree

HIGH, NORMAL, LOW = 125, 100, 50
NON_PREEMPTIBLE_FROM = 100
"""A priority from here on cannot be taken, unless the gang says otherwise."""


class TaskState(StrEnum):
    """`releasing`: on its way out, holds its place to the end, counts for nothing else. `finished`: holds nothing."""

    PENDING = "pending"
    RUNNING = "running"
    RELEASING = "releasing"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A machine and all it has."""

    name: str
    resources: Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class StartHold:
    """Why nothing starts in a queue, or a gang does not, for now, whatever is free: a closed pool, a limit that the
    cluster or this engine cannot express. `unblock` is the sentence that says what would open it, without its full
    stop; empty where nobody can know. `node` and `limit` name what blocks where that is not the queue itself."""

    code: str
    message: str
    unblock: str = ""
    node: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue; with children it runs nothing itself. Missing keys: quota 0, limits unlimited.

    `quota` None means the sum of the children's; on a leaf it means 0. `outside`: on another cluster; its work holds
    quota in the tree of cohorts and can be taken for a lender here, but it starts nothing and takes no share of nodes.
    """

    name: str
    parent: str | None = None
    quota: Mapping[str, Amount] | None = None
    limit: Mapping[str, Amount] = field(default_factory=dict)
    borrowing_limit: Mapping[str, Amount] = field(default_factory=dict)
    lending_limit: Mapping[str, Amount] = field(default_factory=dict)
    weight: Number = 1
    priority: Number = 100
    created: Number = 0
    hold: StartHold | None = None
    is_external: bool = False


@dataclass(frozen=True, slots=True)
class CohortFacts:
    """A node above the queues that lends and borrows; `quota` is its own, on top of its children's."""

    name: str
    parent: str | None = None
    quota: Mapping[str, Amount] = field(default_factory=dict)
    borrowing_limit: Mapping[str, Amount] = field(default_factory=dict)
    lending_limit: Mapping[str, Amount] = field(default_factory=dict)
    weight: Number = 1


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One pod. `node` where it stands, None when it waits or when the facts have no nodes. `allowed`: the only nodes it
    may stand on (its platform, what it excludes); None for all. Share one set among tasks that are alike."""

    name: str
    request: Mapping[str, Number]
    group: str = DEFAULT_SUB_GROUP
    state: TaskState = TaskState.PENDING
    node: str | None = None
    allowed_nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class GangFacts:
    """Tasks that start together as far as `tree` asks; None asks for all of them. Names are unique over the facts."""

    name: str
    queue: str
    tasks: tuple[TaskFacts, ...]
    priority: int = NORMAL
    preemptible: bool = False
    submitted: Number = 0
    tree: GangTree | None = None
    hold: StartHold | None = None


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """How a sentence writes a resource: 1000 millicores are 1 `core` (`one`), 2500 are 2.5 `cores` (`many`)."""

    size: int
    singular: str
    plural: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything at one moment. `nodes` None: only quota decides. `capacity`: what fair share divides, else the nodes.

    `usage` is held by work that is not listed (as LOW, cannot be taken); `demand` is wanted by such work, never starts.
    A gang may name a queue that does not exist: its running tasks keep their nodes, the others wait.
    `units` say how sentences write the resources that go beside the one people ask for (:mod:`.words`).
    """

    queues: tuple[QueueFacts, ...] = ()
    cohorts: tuple[CohortFacts, ...] = ()
    gangs: tuple[GangFacts, ...] = ()
    nodes: tuple[NodeFacts, ...] | None = None
    capacity: Mapping[str, Amount] | None = None
    usage: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    demand: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    units: Mapping[str, DisplayUnit] = field(default_factory=dict)
