"""The recorded history of one simulated backend: what people and time did, and what the scheduler decided.

Times are microseconds since 1970, UTC. What people did stays at its time in every replay: submissions, cancellations,
changes of nodes and of quotas. Starts, preemptions and ends follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.domain.engine.facts import CohortFacts, DisplayUnit, NodeFacts, PolicyFacts, QueueFacts, TaskFacts
from scheduling.domain.gang import GangTree
from scheduling.domain.priorities import Priority
from scheduling.history.replay.seen_order import RecordedCycle


class Ending(StrEnum):
    """How the record ended a job. `stopped`: by a person, at this time in any replay; `worked`: its work was done or
    failed; the other two are its time limits."""

    OPEN = "open"
    STOPPED = "stopped"
    WORKED = "worked"
    EXEC_TIMEOUT = "exec_timeout"
    QUEUE_TIMEOUT = "queue_timeout"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The queues and nodes from `since` on. Nothing starts while the backend `is_offline`. `draining` names the
    queues of subpools that drain, with their last quotas by key: they keep what their active work needs. `shared`: by
    container, the leaf that has the quota that no subpool has. `flavors`: by leaf, those of its pool, where it has
    some; `flavors_there`: those of the nodes of each platform."""

    since: int
    queues: tuple[QueueFacts, ...]
    nodes: tuple[NodeFacts, ...]
    platforms: Mapping[str, frozenset[str]]
    cohorts: tuple[CohortFacts, ...] = ()
    policy: PolicyFacts | None = None
    units: Mapping[str, DisplayUnit] = field(default_factory=dict)
    is_offline: bool = False
    draining: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)
    flavors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flavors_there: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """One task of a job. Its nodes are those of its platform that it does not exclude. The GPUs of `facts` have no
    flavor; `named` are the flavors that its file names."""

    facts: TaskFacts
    platform: str
    excluded: frozenset[str] = frozenset()
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """One gang. `name` is the name that users know; `after` are the gangs of its workflow that it waits for.

    `rank` orders submissions. `run_time`: how long an attempt runs by itself; None: until somebody stops it.
    `running`: the nodes of its tasks at the beginning of the window, and `held` their flavors, since `started`; where
    tasks have moved since, it `began` earlier. The first job of a workflow that began earlier brings
    `workflow_started`. `simulated`: how long an attempt runs where nobody ends it; `declared`: as its file says.
    `ended` is the recorded end, of an attempt that began at `last_start` or of a wait that began at `last_ready`. The
    work of one that `fails` does not let its successors start."""

    name: str
    workflow: str
    user: str
    queue: str
    priority: Priority
    rank: int
    submitted: int
    ready: int
    tasks: tuple[RecordedTask, ...]
    gpus: int
    tree: GangTree | None = None
    after: tuple[str, ...] = ()
    run_time: int | None = None
    simulated: int | None = None
    declared: int | None = None
    exec_timeout: int | None = None
    queue_timeout: int | None = None
    running: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    started: int | None = None
    began: int | None = None
    workflow_started: int | None = None
    ending: Ending = Ending.OPEN
    fails: bool = False
    ended: int | None = None
    last_start: int | None = None
    last_ready: int | None = None
    checkpoint_every: int | None = None
    transaction: int | None = None
    """The one that submitted it."""
    ready_seen: int = 0
    ended_seen: int = 0
    """From when on the cycles saw that it was submitted, and that it had ended; 0: at once."""


@dataclass(frozen=True, slots=True, order=True)
class RecordedStep:
    """One step of a plan at one time."""

    time: int
    action: str
    gang: str
    tasks: tuple[str, ...]
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """A window of the history of one backend. `configurations` are in the order of time, the first one from `since`;
    `jobs` in the order of submission, with those that were active at `since`; `steps` in the order of time."""

    since: int
    until: int
    configurations: Sequence[Configuration]
    jobs: Sequence[RecordedJob]
    steps: Sequence[RecordedStep]
    cycles: Sequence[RecordedCycle] = ()
    exact_since: int | None = None
    """Since when each decision has its cycle, where the record has decisions without one."""
