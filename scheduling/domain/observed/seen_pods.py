"""The work of an observed cluster as values: pods, and the pieces of work that they make up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod: whole GPUs, cores and bytes. `status` is that of a task; an ended pod has `message` and `exit_code`. One
    that `is_leaving` is being deleted."""

    uid: str
    name: str
    gpus: int
    cpu: int
    memory_bytes: int
    storage_bytes: int
    status: TaskStatus
    node: str = ""
    started: datetime | None = None
    message: str = ""
    exit_code: int | None = None
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class SeenWork:
    """A piece of work that the scheduler of the cluster starts together. `queue` is what its pool is found by, before
    it `local_queue` (`NAMESPACE/NAME`, of Kueue), `owner` the user name in its label, `minimum` the number of pods that
    start together (None: all), `notes` name what it asks for and nothing counts.
    `expected` is the number of pods that it will have at least; it may have none for a while. `taken_away` says why its
    scheduler took its pods, which are gone by then. `outcome` is the end that its object reports, with the message:
    work of Kueue has none while more of its pods may come. Work that `is_gone` was deleted, and this is the last that
    is known of it."""

    kind: str
    uid: str
    namespace: str
    name: str
    queue: str
    priority: Priority
    created: datetime
    pods: tuple[SeenPod, ...]
    minimum: int | None = None
    notes: tuple[str, ...] = ()
    expected: int = 0
    taken_away: str = ""
    outcome: TaskStatus | None = None
    outcome_message: str = ""
    local_queue: str = ""
    owner: str = ""
    is_gone: bool = False

    @property
    def is_live(self) -> bool:
        """Whether a pod has not ended."""
        return any(not pod.status.is_finished for pod in self.pods)

    @property
    def may_be_new(self) -> bool:
        """Whether it becomes work here when it is seen for the first time: what is being deleted does not, such as the
        pods that a deleted PodGroup leaves."""
        return not self.is_gone and any(not pod.status.is_finished and not pod.is_leaving for pod in self.pods)


@dataclass(frozen=True, slots=True)
class UnreadObject:
    """An object that cannot count, with the sentence why. One that `is_malformed` has a form that nobody expected, so
    not even its requests are known."""

    kind: str
    uid: str
    namespace: str
    name: str
    problem: str
    is_malformed: bool = False


@dataclass(frozen=True, slots=True)
class FoundWork:
    """The work of a cluster, the oldest first, and the objects that cannot count."""

    works: tuple[SeenWork, ...]
    unread: tuple[UnreadObject, ...] = ()
