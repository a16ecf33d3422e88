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
from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL, OBSERVED_FINALIZER
from scheduling.domain.cluster.pod import GangContext, PodAttempt, files_secret_manifest, pod_manifest, service_manifest
from scheduling.domain.kubernetes_json import Object
from scheduling.kube import errors
from scheduling.kube.errors import ClusterError
from scheduling.kube.port import Cluster, ResourceKind
from scheduling.kube.resource_kinds import POD, POD_GROUP, SECRET, SERVICE


@dataclass(frozen=True, slots=True)
class GangManifest:
    """A gang to be made, or the part of it that is missing: its PodGroup, and the pods of `tasks`. `there` is the
    PodGroup as it was last seen, None if it was not."""

    group_id: UUID
    gang_context: GangContext
    pod_group: Object
    tasks: tuple[PodAttempt, ...] = ()
    current_pod_group: Object | None = None


@dataclass(frozen=True, slots=True)
class GangCreation:
    """What became of an order. `pods` are the tries whose pods are there now; `refused` says why the rest can never be
    made on this cluster, `fault` what kept it from being made this time."""

    group_id: UUID
    created_pods: tuple[UUID, ...] = ()
    refusal: str = ""
    error: ClusterError | None = None


class _Refused(Exception):
    """This cluster will not take it."""


def create_gang(cluster: Cluster, manifest: GangManifest) -> GangCreation:
    """Make what is missing: the PodGroup before its pods, so that KAI never sees a gang in part."""
    made: list[UUID] = []
    try:
        owner = _pod_group(cluster, manifest)
        for kind, body in _belongings(manifest, owner):
            _create(cluster, kind, body)
        for task in manifest.tasks:
            _create(cluster, POD, pod_manifest(manifest.gang_context, task))
            made.append(task.uuid)
    except _Refused as refusal:
        return GangCreation(manifest.group_id, tuple(made), refusal=str(refusal))
    except errors.InvalidObject as error:
        return GangCreation(manifest.group_id, tuple(made), refusal=f"The cluster refused it: {error}")
    except ClusterError as error:
        return GangCreation(manifest.group_id, tuple(made), error=error)
    return GangCreation(manifest.group_id, tuple(made))


def _belongings(order: GangManifest, owner: Object) -> Iterator[tuple[ResourceKind, Object]]:
    if (shared := service_manifest(order.gang_context, owner)) is not None:
        yield SERVICE, shared
    for task in order.tasks:
        if (secret := files_secret_manifest(order.gang_context, task, owner)) is not None:
            yield SECRET, secret


def _pod_group(cluster: Cluster, order: GangManifest) -> Object:
    """The PodGroup as it is there now: made, or brought to what the gang is today."""
    wanted, there = order.pod_group, order.current_pod_group
    if there is None:
        try:
            if pod_groups.may_be_dropped(wanted):
                _refuse_what_would_be_lost(
                    wanted, cluster.create(POD_GROUP, wanted, field_manager=FIELD_MANAGER, dry_run=True)
                )
            return cluster.create(POD_GROUP, wanted, field_manager=FIELD_MANAGER)
        except errors.AlreadyExists:
            there = _ours(cluster, POD_GROUP, wanted)
    if change := pod_groups.pod_group_patch(wanted, there):
        version = {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]} | change.pop("metadata", {})}
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        return cluster.merge(POD_GROUP, name, change | version, field_manager=FIELD_MANAGER, namespace=namespace)
    return there


def _refuse_what_would_be_lost(sent: Object, kept: Object) -> None:
    """An API server with an older PodGroup drops what it does not know, and KAI would start another gang than asked."""
    if lost := pod_groups.dropped_fields(sent, kept):
        raise _Refused(
            f"This cluster's PodGroup does not know {', '.join(lost)}: its KAI is older than elastic gangs. Ask its "
            "operators for a newer one, or submit the gang without minSubGroup."
        )


def _create(cluster: Cluster, kind: ResourceKind, body: Object) -> None:
    try:
        cluster.create(kind, body, field_manager=FIELD_MANAGER)
    except errors.AlreadyExists:
        _ours(cluster, kind, body)


def _ours(cluster: Cluster, kind: ResourceKind, body: Object) -> Object:
    """What is there under this name, if this house made it."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    there = cluster.get(kind, name, namespace=namespace)
    house = body["metadata"]["labels"][INSTALLATION_LABEL]
    if (there["metadata"].get("labels") or {}).get(INSTALLATION_LABEL) != house:
        raise _Refused(f"{kind.name} {name} is there already and was made by somebody else; it is left alone.")
    return there


def delete_pod_group(cluster: Cluster, current: Object) -> None:
    """Ask for the removal of a PodGroup. Without it KAI starts nothing more of the gang, so it goes before the pods."""
    _delete(cluster, POD_GROUP, current)


def delete_pod(cluster: Cluster, current: Object) -> None:
    """Ask for the removal of a pod whose end is known, and let go of it."""
    if not current["metadata"].get("deletionTimestamp"):
        _delete(cluster, POD, current)
    if OBSERVED_FINALIZER not in (current["metadata"].get("finalizers") or []):
        return
    name, namespace = current["metadata"]["name"], current["metadata"]["namespace"]
    with suppress(errors.ObjectNotFound):
        now = cluster.get(POD, name, namespace=namespace)  # the removal has moved its version
        if now["metadata"]["uid"] == current["metadata"]["uid"]:
            left = [each for each in now["metadata"].get("finalizers") or [] if each != OBSERVED_FINALIZER]
            # The list is replaced whole; with the version nobody's finalizer that came meanwhile is lost.
            change = {"metadata": {"finalizers": left, "resourceVersion": now["metadata"]["resourceVersion"]}}
            cluster.merge(POD, name, change, field_manager=FIELD_MANAGER, namespace=namespace)


def delete_auxiliary_objects(cluster: Cluster, objects: Sequence[tuple[ResourceKind, Object]]) -> None:
    """Secrets and Services whose gang is over; a cluster's garbage collector is often here first."""
    for kind, there in objects:
        _delete(cluster, kind, there)


def _delete(cluster: Cluster, kind: ResourceKind, there: Object) -> None:
    """Only if it is still that very one."""
    metadata = there["metadata"]
    with suppress(errors.ObjectNotFound, errors.WriteConflict):
        cluster.delete(kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
