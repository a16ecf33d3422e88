"""Access to our queues: for objects that we dispatched, and for accounts that an admin has allowed.

The quota of a queue belongs to a pool, so work that bypasses OSMO Admin would use GPUs of others. The rule looks at
the queues that an object names: by the labels of a pod, by the spec of a PodGroup, or by the gang that a pod joins; and
at the label that marks our own objects. A change that claims nothing new always passes, so that the scheduler can
update the objects that we dispatched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pools.domain.errors import Fault, Violation
from scheduling.domain.cluster.naming import INSTALLATION_LABEL, POD_GROUP_OF_POD, root_queue_name
from scheduling.domain.kubernetes_json import ReadOnlyObject, read_texts

QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")


class WorkloadKind(StrEnum):
    """The kinds of objects that can name a queue."""

    POD = "Pod"
    POD_GROUP = "PodGroup"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller as the API server has authenticated it."""

    username: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QueueAccessPolicy:
    """The policy of one cluster. `namespace` is the `{ns}` of our queue names. `accounts` are the users and groups that
    may use our queues, our own among them. `gangs` are the queues of our gangs by PodGroup. `url` is the address for
    submissions. `installation` is our mark on objects of this cluster, `shard_key` the label by which a shard of KAI
    selects its objects."""

    namespace: str
    accounts: frozenset[str]
    gangs: Mapping[str, str]
    url: str = ""
    installation: str = ""
    shard_key: str = ""


@dataclass(frozen=True, slots=True)
class QueueUse:
    """A queue of ours that an object names, and the field that names it. Without a queue the field is our mark, by
    which an object counts as dispatched by us."""

    path: str
    queue: str


def is_managed_queue(queue: str, namespace: str) -> bool:
    """Whether a queue name is one of ours (design, D2). The whole prefix is ours, also for pools that do not exist yet:
    a pod may wait for them."""
    return queue == root_queue_name(namespace) or queue.startswith(f"osmo-pool-{namespace}-")


def names_managed_queue(pod_group: ReadOnlyObject, namespace: str) -> bool:
    """Whether the spec of a PodGroup names a queue of ours."""
    spec = pod_group.get("spec")
    queue = spec.get("queue") if isinstance(spec, Mapping) else None
    return isinstance(queue, str) and is_managed_queue(queue, namespace)


def access_violations(
    kind: WorkloadKind,
    new_object: ReadOnlyObject,
    old_object: ReadOnlyObject | None,
    caller: Caller,
    policy: QueueAccessPolicy,
) -> list[Violation]:
    """Every queue that `new_object` names, that `old_object` (None for a creation) did not name, and that this caller
    may not use."""
    if policy.accounts & {caller.username, *caller.groups}:
        return []
    known = set(_queue_uses(kind, old_object, policy)) if old_object is not None else set()
    return [
        Violation(use.path, Fault.FOREIGN_WORK, _message(use, caller, policy))
        for use in _queue_uses(kind, new_object, policy)
        if use not in known
    ]


def joined_pod_groups(pod: ReadOnlyObject) -> tuple[str, ...]:
    """The PodGroup that a pod joins; the caller looks up its queue for :func:`access_violations`."""
    name = read_texts(pod, "annotations").get(POD_GROUP_OF_POD, "")
    return (name,) if name else ()


def carries_mark(item: ReadOnlyObject) -> bool:
    """Whether an object has a label of the form of our mark; the caller looks up our mark for
    :func:`access_violations`."""
    return INSTALLATION_LABEL in read_texts(item, "labels")


def _queue_uses(kind: WorkloadKind, item: ReadOnlyObject, policy: QueueAccessPolicy) -> Iterator[QueueUse]:
    labels = read_texts(item, "labels")
    named = [(f"metadata.labels[{key}]", labels[key]) for key in QUEUE_LABELS if key in labels]
    if kind is WorkloadKind.POD_GROUP:
        spec = item.get("spec")
        queue = spec.get("queue") if isinstance(spec, Mapping) else None
        named.insert(0, ("spec.queue", queue if isinstance(queue, str) else ""))
    for path, queue in named:
        if is_managed_queue(queue, policy.namespace):
            yield QueueUse(path, queue)
    if kind is WorkloadKind.POD:
        for gang in joined_pod_groups(item):
            if gang in policy.gangs:
                yield QueueUse(f"metadata.annotations[{POD_GROUP_OF_POD}]", policy.gangs[gang])
    if policy.installation and labels.get(INSTALLATION_LABEL) == policy.installation:
        yield QueueUse(f"metadata.labels[{INSTALLATION_LABEL}]", "")


def _message(use: QueueUse, caller: Caller, policy: QueueAccessPolicy) -> str:
    pool = use.queue.removeprefix(f"osmo-pool-{policy.namespace}-").replace("---shared", "")
    where = f" at {policy.url}" if policy.url else ""
    if not use.queue:
        return (
            f"Label {INSTALLATION_LABEL} with this value marks the objects that OSMO Admin created, and "
            f"{caller.username or 'an unnamed user'} may not set it. Leave the label out."
        )
    target = "POOL" if use.queue.startswith("osmo-default-") else pool
    return (
        f"Queue {use.queue} belongs to OSMO Admin; its quota is for work submitted there, and "
        f"{caller.username or 'an unnamed user'} may not use it directly. Submit the work{where}: "
        f"osmo workflow submit FILE --pool {target}. An account that must use the queue directly can be allowed on "
        "the backend's webhook page."
    )
