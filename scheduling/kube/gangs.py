"""Making the objects of a gang in a cluster and taking them away again: network only, no database.

Every call here may be repeated, by us after a crash or by somebody who thinks he is us: names derive from ids, so what
is there already is met and not made twice. An object of such a name that is not this house's is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from scheduling.domain.cluster import pod_group as pod_groups
from scheduling.domain.cluster.naming import HOUSE, OWNER, SEEN
from scheduling.domain.cluster.pod import Surroundings, Try, files, pod, service
from scheduling.kube import errors
from scheduling.kube.errors import ClusterError
from scheduling.kube.kinds import POD, POD_GROUP, SECRET, SERVICE
from scheduling.kube.port import Cluster, Kind, Object


@dataclass(frozen=True, slots=True)
class Order:
    """A gang to be made, or the part of it that is missing: its PodGroup, and the pods of `tasks`. `there` is the
    PodGroup as it was last seen, None if it was not."""

    group: UUID
    around: Surroundings
    pod_group: Object
    tasks: tuple[Try, ...] = ()
    there: Object | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What became of an order. `pods` are the tries whose pods are there now; `refused` says why the rest can never be
    made on this cluster, `fault` what kept it from being made this time."""

    group: UUID
    pods: tuple[UUID, ...] = ()
    refused: str = ""
    fault: ClusterError | None = None


class _Refused(Exception):
    """This cluster will not take it."""


def make(cluster: Cluster, order: Order) -> Made:
    """Make what is missing: the PodGroup before its pods, so that KAI never sees a gang in part."""
    made: list[UUID] = []
    try:
        owner = _pod_group(cluster, order)
        for kind, body in _belongings(order, owner):
            _create(cluster, kind, body)
        for task in order.tasks:
            _create(cluster, POD, pod(order.around, task))
            made.append(task.uuid)
    except _Refused as refusal:
        return Made(order.group, tuple(made), refused=str(refusal))
    except errors.Invalid as error:
        return Made(order.group, tuple(made), refused=f"The cluster refused it: {error}")
    except ClusterError as error:
        return Made(order.group, tuple(made), fault=error)
    return Made(order.group, tuple(made))


def _belongings(order: Order, owner: Object) -> Iterator[tuple[Kind, Object]]:
    if (shared := service(order.around, owner)) is not None:
        yield SERVICE, shared
    for task in order.tasks:
        if (secret := files(order.around, task, owner)) is not None:
            yield SECRET, secret


def _pod_group(cluster: Cluster, order: Order) -> Object:
    """The PodGroup as it is there now: made, or brought to what the gang is today."""
    wanted, there = order.pod_group, order.there
    if there is None:
        try:
            if pod_groups.may_be_lost(wanted):
                _refuse_what_would_be_lost(wanted, cluster.create(POD_GROUP, wanted, owner=OWNER, dry_run=True))
            return cluster.create(POD_GROUP, wanted, owner=OWNER)
        except errors.AlreadyExists:
            there = _ours(cluster, POD_GROUP, wanted)
    if change := pod_groups.difference(wanted, there):
        version = {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]} | change.pop("metadata", {})}
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        return cluster.merge(POD_GROUP, name, change | version, owner=OWNER, namespace=namespace)
    return there


def _refuse_what_would_be_lost(sent: Object, kept: Object) -> None:
    """An API server with an older PodGroup drops what it does not know, and KAI would start another gang than asked."""
    if lost := pod_groups.lost_fields(sent, kept):
        raise _Refused(
            f"This cluster's PodGroup does not know {', '.join(lost)}: its KAI is older than elastic gangs. Ask its "
            "operators for a newer one, or submit the gang without minSubGroup."
        )


def _create(cluster: Cluster, kind: Kind, body: Object) -> None:
    try:
        cluster.create(kind, body, owner=OWNER)
    except errors.AlreadyExists:
        _ours(cluster, kind, body)


def _ours(cluster: Cluster, kind: Kind, body: Object) -> Object:
    """What is there under this name, if this house made it."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    there = cluster.get(kind, name, namespace=namespace)
    house = body["metadata"]["labels"][HOUSE]
    if (there["metadata"].get("labels") or {}).get(HOUSE) != house:
        raise _Refused(f"{kind.name} {name} is there already and was made by somebody else; it is left alone.")
    return there


def remove_pod_group(cluster: Cluster, there: Object) -> None:
    """Ask for the removal of a PodGroup. Without it KAI starts nothing more of the gang, so it goes before the pods."""
    _delete(cluster, POD_GROUP, there)


def remove_pod(cluster: Cluster, there: Object) -> None:
    """Ask for the removal of a pod whose end is known, and let go of it."""
    if not there["metadata"].get("deletionTimestamp"):
        _delete(cluster, POD, there)
    if SEEN not in (there["metadata"].get("finalizers") or []):
        return
    name, namespace = there["metadata"]["name"], there["metadata"]["namespace"]
    with suppress(errors.NotFound):
        now = cluster.get(POD, name, namespace=namespace)  # the removal has moved its version
        if now["metadata"]["uid"] == there["metadata"]["uid"]:
            left = [each for each in now["metadata"].get("finalizers") or [] if each != SEEN]
            # The list is replaced whole; with the version nobody's finalizer that came meanwhile is lost.
            change = {"metadata": {"finalizers": left, "resourceVersion": now["metadata"]["resourceVersion"]}}
            cluster.merge(POD, name, change, owner=OWNER, namespace=namespace)


def remove_belongings(cluster: Cluster, things: Sequence[tuple[Kind, Object]]) -> None:
    """Secrets and Services whose gang is over; a cluster's garbage collector is often here first."""
    for kind, there in things:
        _delete(cluster, kind, there)


def _delete(cluster: Cluster, kind: Kind, there: Object) -> None:
    """Only if it is still that very one."""
    metadata = there["metadata"]
    with suppress(errors.NotFound, errors.Conflict):
        cluster.delete(kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
