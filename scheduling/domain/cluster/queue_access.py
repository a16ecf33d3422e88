"""Who may use a queue of ours: objects that the house dispatched, and accounts that an admin has let in.

A queue's guarantee is a promise to a pool, so work sent around the house would take GPUs that somebody was promised.
What is looked at is a claim: the queue a pod's labels or a PodGroup's spec name, or the gang of ours a pod wants to
join. A change that claims nothing new is nobody's business, or the scheduler could not update what we dispatched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pools.domain.errors import Violation
from scheduling.domain.cluster.naming import POD_GROUP_OF_POD
from scheduling.domain.kubernetes_json import ReadOnlyObject

QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")
FOREIGN_WORK = "foreign_work"


class WorkloadKind(StrEnum):
    """What can claim a queue."""

    POD = "Pod"
    POD_GROUP = "PodGroup"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks the API server, as it has found out."""

    username: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QueueAccessPolicy:
    """What is guarded on one cluster. `namespace` is the `{ns}` of our queue names; `accounts` are the users and groups
    that may use our queues, ourselves among them; `gangs` are the queues of those of our gangs that a pod could name,
    by PodGroup; `url` is where people submit."""

    namespace: str
    accounts: frozenset[str]
    gangs: Mapping[str, str]
    url: str = ""


@dataclass(frozen=True, slots=True)
class QueueUse:
    """A queue of ours that an object wants to use, and the field that says so."""

    path: str
    queue: str


def is_managed_queue(queue: str, namespace: str) -> bool:
    """Whether a queue's name is one that the house gives out (D2). The whole prefix is ours, also names of pools that
    do not exist yet: a pod may wait for them."""
    return queue == f"osmo-default-{namespace}" or queue.startswith(f"osmo-pool-{namespace}-")


def access_violations(
    kind: WorkloadKind,
    new_object: ReadOnlyObject,
    old_object: ReadOnlyObject | None,
    caller: Caller,
    policy: QueueAccessPolicy,
) -> list[Violation]:
    """Every claim of `new_object` that `old_object` (None when it is made) did not hold and that this caller may not
    make."""
    if policy.accounts & {caller.username, *caller.groups}:
        return []
    held = set(_queue_uses(kind, old_object, policy)) if old_object is not None else set()
    return [
        Violation(claim.path, FOREIGN_WORK, _message(claim, caller, policy))
        for claim in _queue_uses(kind, new_object, policy)
        if claim not in held
    ]


def joined_pod_groups(pod: ReadOnlyObject) -> tuple[str, ...]:
    """The PodGroup that a pod wants to join, to be looked up before :func:`violations` is asked."""
    name = _texts(pod, "annotations").get(POD_GROUP_OF_POD, "")
    return (name,) if name else ()


def _queue_uses(kind: WorkloadKind, item: ReadOnlyObject, guarded: QueueAccessPolicy) -> Iterator[QueueUse]:
    labels = _texts(item, "labels")
    named = [(f"metadata.labels[{key}]", labels[key]) for key in QUEUE_LABELS if key in labels]
    if kind is WorkloadKind.POD_GROUP:
        spec = item.get("spec")
        queue = spec.get("queue") if isinstance(spec, Mapping) else None
        named.insert(0, ("spec.queue", queue if isinstance(queue, str) else ""))
    for path, queue in named:
        if is_managed_queue(queue, guarded.namespace):
            yield QueueUse(path, queue)
    if kind is WorkloadKind.POD:
        for gang in joined_pod_groups(item):
            if gang in guarded.gangs:
                yield QueueUse(f"metadata.annotations[{POD_GROUP_OF_POD}]", guarded.gangs[gang])


def _texts(item: ReadOnlyObject, part: str) -> dict[str, str]:
    metadata = item.get("metadata")
    found = metadata.get(part) if isinstance(metadata, Mapping) else None
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, Mapping) else {}


def _message(claim: QueueUse, caller: Caller, guarded: QueueAccessPolicy) -> str:
    pool = claim.queue.removeprefix(f"osmo-pool-{guarded.namespace}-").replace("---shared", "")
    where = f" at {guarded.url}" if guarded.url else ""
    target = "POOL" if claim.queue.startswith("osmo-default-") else pool
    return (
        f"Queue {claim.queue} belongs to OSMO Admin; its GPUs are promised to the work submitted there, and "
        f"{caller.username or 'an unnamed user'} may not use it directly. Submit the work{where}: "
        f"osmo workflow submit FILE --pool {target}. An account that must use the queue directly can be allowed on "
        "the backend's webhook page."
    )
