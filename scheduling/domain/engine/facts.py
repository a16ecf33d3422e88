"""The input of the engine. Plain values; amounts are `{"flavor/resource": number}`; times are any numbers, small is
old."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pools.domain.configuration.backend_config import VictimRule
from pools.domain.values.amounts import Amount, Number, flavor_of, is_gpu
from scheduling.domain.gang import DEFAULT_SUB_GROUP, GangTree

HIGH, NORMAL, LOW = 125, 100, 50
NON_PREEMPTIBLE_FROM = 100
"""Work of this priority or a higher one is not preemptible, unless the gang says otherwise."""


class TaskState(StrEnum):
    """`releasing`: the task is ending, keeps its node until then, and counts for nothing else. `finished`: it holds
    nothing."""

    PENDING = "pending"
    RUNNING = "running"
    RELEASING = "releasing"
    FINISHED = "finished"


class WhenCanBorrow(StrEnum):
    """Work that may use several flavors, where an earlier one has room beyond the quota of its queue only: it borrows
    there, or tries the next flavors inside their quota first."""

    BORROW = "borrow"
    NEXT = "next"


class WhenCanPreempt(StrEnum):
    """Work that may use several flavors, where other work would have to leave an earlier one: it makes room there, or
    tries the next flavors first."""

    PREEMPT = "preempt"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node and its capacity. `labels` choose it in a what-if, and decide nothing else. `parts` are the parts of
    shared GPUs that it advertises and that are no capacity; only reasons read them."""

    name: str
    resources: Mapping[str, Number]
    labels: Mapping[str, str] = field(default_factory=dict)
    parts: int = 0


@dataclass(frozen=True, slots=True)
class StartHold:
    """Why a queue or a gang may not start work now, however much is free: a closed pool, or a limit that the cluster or
    this engine cannot express. `unblock` is the message of the remedy without its full stop; empty where none is known.
    `node` and `limit` name the blocker where it is not the queue itself."""

    code: str
    message: str
    unblock: str = ""
    node: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue; with children it runs nothing itself. Missing keys: quota 0, limits unlimited.

    `quota` None means the sum of the children's; on a leaf it means 0. `is_external`: a queue of another cluster. Its
    work holds quota in the cohort tree and can be reclaimed for a lender here, but it starts nothing and gets no share
    of the nodes. `borrows_by_limit`: its borrowing limit is nothing but its `limit` less its quota, so that one setting
    raises both. `when_can_borrow`, `when_can_preempt`: of a top queue, for all work below it that may use several
    flavors. `later_quota`: what the quota grows to by itself, once siblings return theirs."""

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
    borrows_by_limit: bool = False
    when_can_borrow: str = WhenCanBorrow.BORROW
    when_can_preempt: str = WhenCanPreempt.NEXT
    later_quota: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CohortFacts:
    """A node above the queues that lends and borrows; `quota` is its own, in addition to its children's."""

    name: str
    parent: str | None = None
    quota: Mapping[str, Amount] = field(default_factory=dict)
    borrowing_limit: Mapping[str, Amount] = field(default_factory=dict)
    lending_limit: Mapping[str, Amount] = field(default_factory=dict)
    weight: Number = 1


@dataclass(frozen=True, slots=True)
class NodeBar:
    """One thing that keeps a task from `nodes`: its `cause` (*its platform a100*), and by what it may use them."""

    cause: str
    lever: str
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopologyNeed:
    """Tasks (by name) that a cluster places only on nodes of one of these `domains`, by a required topology level. Only
    reasons read it."""

    cause: str
    lever: str
    tasks: frozenset[str]
    domains: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One pod. `node`: None when it waits or when the facts have no nodes. `allowed_nodes`: the only nodes that it may
    use; None for all. Tasks with equal sets should share one set object. `bars` say what keeps it from the other
    nodes; only reasons read them."""

    name: str
    request: Mapping[str, Number]
    group: str = DEFAULT_SUB_GROUP
    state: TaskState = TaskState.PENDING
    node: str | None = None
    allowed_nodes: frozenset[str] | None = None
    bars: tuple[NodeBar, ...] = ()


@dataclass(frozen=True, slots=True)
class GangFacts:
    """Tasks that start together as far as `tree` requires; None requires all of them. Names are unique in the facts.

    The times are seconds, and only a policy reads them: `waiting_since` (None: `submitted`), `started` of a running
    gang, `moved` if tasks of it began again on other nodes since, `time_limit` after which it certainly ends,
    `expected_time` that it probably runs, `checkpoint_every`: the seconds after which its tasks have saved their
    state, from the start of its work and from each save on. Only a what-if about nodes reads these two: `restarts`,
    whether it waits again after it has lost its place with a node, and the task `lead`, which it cannot lose alone.

    `alternatives`: the same tasks (names, groups, order) with the requests, allowed nodes and bars of other flavors, in
    order of preference. `tasks` is the choice that it has, or, where nothing of it runs or is ending, one of those that
    it may take; it stands at the place `choice` among the alternatives. All tasks start in one of them."""

    name: str
    queue: str
    tasks: tuple[TaskFacts, ...]
    priority: int = NORMAL
    preemptible: bool = False
    submitted: Number = 0
    tree: GangTree | None = None
    hold: StartHold | None = None
    waiting_since: Number | None = None
    started: Number | None = None
    time_limit: Number | None = None
    expected_time: Number | None = None
    topology: tuple[TopologyNeed, ...] = ()
    restarts: bool = True
    lead: str = ""
    checkpoint_every: Number | None = None
    alternatives: tuple[tuple[TaskFacts, ...], ...] = ()
    choice: int = 0
    moved: Number | None = None

    @property
    def choices(self) -> tuple[tuple[TaskFacts, ...], ...]:
        """Its tasks in each flavor that it may use, in order of preference."""
        return (*self.alternatives[: self.choice], self.tasks, *self.alternatives[self.choice :])

    def without(self, flavors: Collection[str]) -> GangFacts | None:
        """The gang, waiting, with those of its choices that use none of these flavors; None if there is no such one."""
        if not flavors:
            return self
        left = [
            tasks for tasks in self.choices
            if not any(is_gpu(key) and flavor_of(key) in flavors for task in tasks for key in task.request)
        ]  # fmt: skip
        return replace(self, tasks=left[0], alternatives=tuple(left[1:]), choice=0) if left else None


@dataclass(frozen=True, slots=True)
class StartReservationFacts:
    """A start reservation that was made earlier, at the time `since`. `nodes` are the amounts that the gang will use on
    each node, chosen at the time `placed`; None while quotas and limits do not let it start on any. `choice`: the place
    among the choices of the gang of the one that it is for."""

    gang: str
    since: Number
    nodes: Mapping[str, Mapping[str, Number]] | None = None
    placed: Number | None = None
    choice: int = 0


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """The policy of a backend at the time `now`, in seconds: against endless waiting
    (`rules/reservation.py`), and which victims go (`rules/least_loss.py`).

    A gang that heads its leaf gets a start reservation after `reserve_after` seconds; None: never. `ageing`: the
    seconds by which NORMAL work has to be older to come before HIGH work of its leaf; None: always after.
    `submitted_per_second`: the growth of `submitted` in a second. `are_totals`: the facts have running work as
    totals only, from which no reservation follows: the given ones stay, and hold their nodes."""

    now: Number = 0
    reserve_after: Number | None = None
    ageing: Number | None = None
    submitted_per_second: Number = 1
    reservations: tuple[StartReservationFacts, ...] = ()
    are_totals: bool = False
    victims: VictimRule = VictimRule.YOUNGEST


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """How a message writes a resource: 1000 millicores are 1 `core` (`singular`), 2500 are 2.5 `cores` (`plural`)."""

    size: int
    singular: str
    plural: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A snapshot of a cluster. `nodes` None: only quota decides. `capacity`: the amounts that fair share divides, by
    default those of the nodes.

    `usage` is held by unlisted work (counted as LOW, never evicted); `demand` is requested by unlisted work, which
    never starts. A gang may name a queue that does not exist: its running tasks keep their nodes, the others wait.
    `units`: how messages write secondary resources (`state/amount_text.py`); `parts`: the GPU flavors that count parts
    of shared GPUs, for messages alone. `policy` None: the
    order and the phases of the engine alone decide, and work that needs more room may be passed forever."""

    queues: tuple[QueueFacts, ...] = ()
    cohorts: tuple[CohortFacts, ...] = ()
    gangs: tuple[GangFacts, ...] = ()
    nodes: tuple[NodeFacts, ...] | None = None
    capacity: Mapping[str, Amount] | None = None
    usage: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    demand: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    units: Mapping[str, DisplayUnit] = field(default_factory=dict)
    policy: PolicyFacts | None = None
    parts: frozenset[str] = frozenset()
