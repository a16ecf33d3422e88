"""Creates the objects of a gang in a cluster and deletes them: network only, no database.

Every call may be repeated, after a crash or by a second agent: names derive from ids, so an existing object is found
and not created twice. An object of such a name without this installation's label is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from scheduling.domain.cluster.drift import FieldDrift, find_drift, repair_patch
from scheduling.domain.cluster.naming import FIELD_MANAGER, INSTALLATION_LABEL, OBSERVED_FINALIZER
from scheduling.domain.cluster.pods import pod_group as pod_groups
from scheduling.domain.cluster.pods.pod import (
    GangContext,
    PodAttempt,
    files_secret_manifest,
    pod_manifest,
    service_manifest,
)
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import Cluster, ResourceKind
from scheduling.kube.connection.resource_kinds import POD, POD_GROUP, SECRET, SERVICE


@dataclass(frozen=True, slots=True)
class GangManifest:
    """The missing objects of a gang: its PodGroup, and the pods of `tasks`. `current_pod_group` is the last known
    PodGroup, None if there is none; `created_tasks` are the other open attempts, whose pods were created before."""

    group_id: UUID
    gang_context: GangContext
    pod_group: Object
    tasks: tuple[PodAttempt, ...] = ()
    current_pod_group: Object | None = None
    created_tasks: tuple[PodAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class GangCreation:
    """The result of creating a gang's objects. `created_pods` are the attempts whose pods exist now; `refusal` says why
    the others can never be created in this cluster, `error` why the creation failed this time. `pod_group` and `pods`
    are the objects that this call wrote, as the API server returned them."""

    group_id: UUID
    created_pods: tuple[UUID, ...] = ()
    refusal: str = ""
    error: ClusterError | None = None
    pod_group: Object | None = None
    pods: tuple[Object, ...] = ()


class _GangRefusedError(Exception):
    """This cluster can never run the gang."""


def create_gang(cluster: Cluster, manifest: GangManifest) -> GangCreation:
    """Create the missing objects: the PodGroup before its pods, so that KAI never sees a part of a gang."""
    created: list[UUID] = []
    pods: list[Object] = []
    owner: Object | None = None
    refusal, failure = "", None
    try:
        owner = _pod_group(cluster, manifest)
        for kind, body in _auxiliary_objects(manifest, owner):
            _create(cluster, kind, body)
        for task in manifest.tasks:
            pod = _create(cluster, POD, pod_manifest(manifest.gang_context, task))
            pods += [] if pod is None else [pod]
            created.append(task.uuid)
    except _GangRefusedError as error:
        refusal = str(error)
    except errors.InvalidObject as error:
        refusal = f"The cluster refused the gang: {error}"
    except ClusterError as error:
        failure = error
    return GangCreation(manifest.group_id, tuple(created), refusal, failure, owner, tuple(pods))


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
            # Pods are created after the PodGroup, so where there are pods of ours the PodGroup is ours.
            current = _read_own(cluster, POD_GROUP, desired, is_known=bool(manifest.created_tasks))
    if drift := find_drift(desired, current, shard_key=manifest.gang_context.target.shard_key):
        return put_back(cluster, POD_GROUP, current, drift)
    return current


def put_back(cluster: Cluster, kind: ResourceKind, observed: Object, drift: Sequence[FieldDrift]) -> Object:
    """The object after these fields were put back. Raises WriteConflict if it changed since it was observed."""
    patch, metadata = repair_patch(drift), observed["metadata"]
    patch.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
    return cluster.merge(kind, metadata["name"], patch, field_manager=FIELD_MANAGER, namespace=metadata["namespace"])


def _refuse_if_fields_are_dropped(sent: Object, stored: Object) -> None:
    """An API server with an older PodGroup drops unknown fields, and KAI would start a gang of another shape."""
    if dropped := pod_groups.dropped_fields(sent, stored):
        raise _GangRefusedError(
            f"This cluster's PodGroup does not know {', '.join(dropped)}: its KAI is older than elastic gangs. Ask the "
            "operators for a newer one, or submit the gang without minSubGroup."
        )


def _create(cluster: Cluster, kind: ResourceKind, body: Object) -> Object | None:
    """The new object; None if an earlier call had created it."""
    try:
        return cluster.create(kind, body, field_manager=FIELD_MANAGER)
    except errors.AlreadyExists:
        _read_own(cluster, kind, body)
        return None


def _read_own(cluster: Cluster, kind: ResourceKind, body: Object, *, is_known: bool = False) -> Object:
    """The existing object of this name. Raises when it is not of this installation. An object that we created
    (`is_known`, or as the API server knows) and whose label another client changed is ours."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    current = cluster.get(kind, name, namespace=namespace)
    installation = body["metadata"]["labels"][INSTALLATION_LABEL]
    label = (current["metadata"].get("labels") or {}).get(INSTALLATION_LABEL)
    if label != installation and not is_known and not _is_label_lost(current):
        raise _GangRefusedError(
            f"{kind.name} {name} exists already and does not belong to OSMO Admin; it is left alone."
        )
    return current


def _is_label_lost(current: Object) -> bool:
    """Whether we (or an installation like ours) wrote the object, and our label in it is gone or by somebody else."""
    mine = [
        (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        for entry in current["metadata"].get("managedFields") or []
        if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")
    ]
    return bool(mine) and not any(f"f:{INSTALLATION_LABEL}" in (fields.get("f:labels") or {}) for fields in mine)


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
