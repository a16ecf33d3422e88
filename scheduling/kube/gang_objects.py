"""Creates the objects of a gang in a cluster and deletes them: network only, no database.

Every call may be repeated, after a crash or by a second agent: names derive from ids, so an existing object is found
and not created twice. An object of such a name without this installation's label is left alone.
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
    """The missing objects of a gang: its PodGroup, and the pods of `tasks`. `current_pod_group` is the last known
    PodGroup, None if there is none."""

    group_id: UUID
    gang_context: GangContext
    pod_group: Object
    tasks: tuple[PodAttempt, ...] = ()
    current_pod_group: Object | None = None


@dataclass(frozen=True, slots=True)
class GangCreation:
    """The result of creating a gang's objects. `created_pods` are the attempts whose pods exist now; `refusal` says why
    the others can never be created in this cluster, `error` why the creation failed this time."""

    group_id: UUID
    created_pods: tuple[UUID, ...] = ()
    refusal: str = ""
    error: ClusterError | None = None


class _GangRefusedError(Exception):
    """This cluster can never run the gang."""


def create_gang(cluster: Cluster, manifest: GangManifest) -> GangCreation:
    """Create the missing objects: the PodGroup before its pods, so that KAI never sees a part of a gang."""
    created: list[UUID] = []
    try:
        owner = _pod_group(cluster, manifest)
        for kind, body in _auxiliary_objects(manifest, owner):
            _create(cluster, kind, body)
        for task in manifest.tasks:
            _create(cluster, POD, pod_manifest(manifest.gang_context, task))
            created.append(task.uuid)
    except _GangRefusedError as refusal:
        return GangCreation(manifest.group_id, tuple(created), refusal=str(refusal))
    except errors.InvalidObject as error:
        return GangCreation(manifest.group_id, tuple(created), refusal=f"The cluster refused the gang: {error}")
    except ClusterError as error:
        return GangCreation(manifest.group_id, tuple(created), error=error)
    return GangCreation(manifest.group_id, tuple(created))


def _auxiliary_objects(manifest: GangManifest, owner: Object) -> Iterator[tuple[ResourceKind, Object]]:
    if (shared := service_manifest(manifest.gang_context, owner)) is not None:
        yield SERVICE, shared
    for task in manifest.tasks:
        if (secret := files_secret_manifest(manifest.gang_context, task, owner)) is not None:
            yield SECRET, secret


def _pod_group(cluster: Cluster, manifest: GangManifest) -> Object:
    """The PodGroup after it was created, or updated to the gang's current shape."""
    desired, current = manifest.pod_group, manifest.current_pod_group
    if current is None:
        try:
            if pod_groups.may_be_dropped(desired):
                _refuse_if_fields_are_dropped(
                    desired, cluster.create(POD_GROUP, desired, field_manager=FIELD_MANAGER, dry_run=True)
                )
            return cluster.create(POD_GROUP, desired, field_manager=FIELD_MANAGER)
        except errors.AlreadyExists:
            current = _read_own(cluster, POD_GROUP, desired)
    if change := pod_groups.pod_group_patch(desired, current):
        version = {"metadata": {"resourceVersion": current["metadata"]["resourceVersion"]} | change.pop("metadata", {})}
        name, namespace = desired["metadata"]["name"], desired["metadata"]["namespace"]
        return cluster.merge(POD_GROUP, name, change | version, field_manager=FIELD_MANAGER, namespace=namespace)
    return current


def _refuse_if_fields_are_dropped(sent: Object, stored: Object) -> None:
    """An API server with an older PodGroup drops unknown fields, and KAI would start a gang of another shape."""
    if dropped := pod_groups.dropped_fields(sent, stored):
        raise _GangRefusedError(
            f"This cluster's PodGroup does not know {', '.join(dropped)}: its KAI is older than elastic gangs. Ask the "
            "operators for a newer one, or submit the gang without minSubGroup."
        )


def _create(cluster: Cluster, kind: ResourceKind, body: Object) -> None:
    try:
        cluster.create(kind, body, field_manager=FIELD_MANAGER)
    except errors.AlreadyExists:
        _read_own(cluster, kind, body)


def _read_own(cluster: Cluster, kind: ResourceKind, body: Object) -> Object:
    """The existing object of this name. Raises when it is not of this installation."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    current = cluster.get(kind, name, namespace=namespace)
    installation = body["metadata"]["labels"][INSTALLATION_LABEL]
    if (current["metadata"].get("labels") or {}).get(INSTALLATION_LABEL) != installation:
        raise _GangRefusedError(
            f"{kind.name} {name} exists already and does not belong to OSMO Admin; it is left alone."
        )
    return current


def delete_pod_group(cluster: Cluster, current: Object) -> None:
    """Delete a PodGroup. KAI starts no pod of a gang without its PodGroup, so the PodGroup is deleted before the
    pods."""
    _delete(cluster, POD_GROUP, current)


def delete_pod(cluster: Cluster, current: Object) -> None:
    """Delete a pod whose end is known, and remove our finalizer."""
    if not current["metadata"].get("deletionTimestamp"):
        _delete(cluster, POD, current)
    if OBSERVED_FINALIZER not in (current["metadata"].get("finalizers") or []):
        return
    name, namespace = current["metadata"]["name"], current["metadata"]["namespace"]
    with suppress(errors.ObjectNotFound):
        now = cluster.get(POD, name, namespace=namespace)  # the deletion changed its version
        if now["metadata"]["uid"] == current["metadata"]["uid"]:
            finalizers = [each for each in now["metadata"].get("finalizers") or [] if each != OBSERVED_FINALIZER]
            # The patch replaces the whole list; the version keeps a finalizer that was added meanwhile.
            change = {"metadata": {"finalizers": finalizers, "resourceVersion": now["metadata"]["resourceVersion"]}}
            cluster.merge(POD, name, change, field_manager=FIELD_MANAGER, namespace=namespace)


def delete_auxiliary_objects(cluster: Cluster, objects: Sequence[tuple[ResourceKind, Object]]) -> None:
    """Delete Secrets and Services of ended gangs; often the cluster's garbage collector has deleted them before."""
    for kind, current in objects:
        _delete(cluster, kind, current)


def _delete(cluster: Cluster, kind: ResourceKind, current: Object) -> None:
    """Delete the object, if it is still the same one."""
    metadata = current["metadata"]
    with suppress(errors.ObjectNotFound, errors.WriteConflict):
        cluster.delete(kind, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
