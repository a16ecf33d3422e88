"""A cluster in memory that keeps the promises of the port: for unit tests, never for production.

It knows resource versions, watches with resume and a history that can be forgotten, field ownership by server-side
apply, preconditions, finalizers, namespaces and kinds that are not installed. It knows no schemas and no admission. The
same contract tests run on it and on a real API server (`tests/integration/kube/test_port_contract.py`).
"""

from __future__ import annotations

import copy
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scheduling.domain.kubernetes_json import Object
from scheduling.kube import errors, field_ownership, object_selectors, resource_kinds
from scheduling.kube.field_ownership import FieldOwner
from scheduling.kube.port import PAGE_SIZE, ObjectList, ResourceKind, WatchEvent, WatchEventType

KAI_KINDS = (resource_kinds.QUEUE, resource_kinds.POD_GROUP, resource_kinds.TOPOLOGY)
BUILT_IN_KINDS = (
    resource_kinds.NAMESPACE,
    resource_kinds.NODE,
    resource_kinds.POD,
    resource_kinds.SECRET,
    resource_kinds.SERVICE,
    resource_kinds.PRIORITY_CLASS,
    resource_kinds.VALIDATING_WEBHOOK,
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class _Step:
    """One change: what was there before and after; None is nothing."""

    version: int
    kind: ResourceKind
    before: Object | None
    after: Object | None


class FakeCluster:
    """:class:`scheduling.kube.port.Cluster`, in memory."""

    def __init__(
        self,
        *,
        served_kinds: Collection[ResourceKind] = (*BUILT_IN_KINDS, *KAI_KINDS),
        namespaces: Collection[str] = ("default",),
    ) -> None:
        self._serves = set(served_kinds)
        self._objects: dict[tuple[ResourceKind, str, str], Object] = {}
        self._owners: dict[tuple[ResourceKind, str, str], field_ownership.FieldOwners] = {}
        self._history: list[_Step] = []
        self._version = 1
        self._forgotten = 0
        self._moved = threading.Condition(threading.RLock())
        for name in namespaces:
            self.create(resource_kinds.NAMESPACE, {"metadata": {"name": name}}, field_manager="twin")

    def version(self) -> str:
        """See the port."""
        return "v1.36.4"

    def install_kinds(self, *serves: ResourceKind) -> None:
        """Serve these kinds too."""
        self._serves.update(serves)

    def uninstall_kinds(self, *kinds_gone: ResourceKind) -> None:
        """Serve these kinds no more; their objects go with them."""
        with self._moved:
            self._serves.difference_update(kinds_gone)
            for key in [key for key in self._objects if key[0] in kinds_gone]:
                del self._objects[key]

    def expire_history(self) -> None:
        """No watch can go on from before now."""
        with self._moved:
            self._forgotten = self._version
            self._history.clear()

    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page_size: int = PAGE_SIZE,
        transform: Callable[[Object], Any] | None = None,
    ) -> ObjectList:
        """See the port."""
        with self._moved:
            self._check(kind)
            found = [
                copy.deepcopy(item)
                for (of, place, _), item in sorted(self._objects.items(), key=lambda pair: pair[0][1:])
                if of == kind and namespace in {None, place} and _matches(item, labels, fields)
            ]
            return ObjectList(found if transform is None else [transform(item) for item in found], str(self._version))

    def watch(
        self,
        kind: ResourceKind,
        *,
        resource_version: str,
        timeout_seconds: float,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Iterator[WatchEvent]:
        """See the port."""
        self._check(kind)
        place, end = int(resource_version), time.monotonic() + timeout_seconds
        while True:
            with self._moved:
                if place < self._forgotten:
                    raise errors.ResourceVersionExpired("The place is too old.", status=410)
                steps = [step for step in self._history if step.version > place]
                if not steps:
                    left = end - time.monotonic()
                    if left > 0:
                        self._moved.wait(left)
                        continue
                place = self._version
            for step in steps:
                event = _seen(step, kind, namespace, labels, fields)
                if event is not None:
                    yield event
            if time.monotonic() >= end:
                yield WatchEvent(WatchEventType.BOOKMARK, {"metadata": {"resourceVersion": str(place)}}, str(place))
                return

    def get(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> Object:
        """See the port."""
        with self._moved:
            return copy.deepcopy(self._find(kind, namespace, name))

    def apply(
        self,
        kind: ResourceKind,
        body: Object,
        *,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
        status: bool = False,
    ) -> Object:
        """See the port."""
        with self._moved:
            key = self._key(kind, body)
            there = self._objects.get(key)
            if there is None and status:
                self._find(*_place(key))
            _check_version(there, body["metadata"])
            wanted = _part(body, status=status)
            owners = copy.deepcopy(self._owners.get(key, {}))
            me = FieldOwner(field_manager, "Apply", "status" if status else "")
            base = there if there is not None else _fresh(kind, body)
            after, clashes = field_ownership.apply_fields(base, wanted, owners, me, force=force)
            if clashes:
                raise errors.WriteConflict(
                    f"Apply failed with {len(clashes)} conflicts.",
                    status=409,
                    field_errors=[
                        errors.FieldError("." + ".".join(path), "FieldManagerConflict", f'conflict with "{other}"')
                        for path, other in clashes
                    ],
                )
            return self._put(key, there, after, owners, dry_run=dry_run)

    def create(self, kind: ResourceKind, body: Object, *, field_manager: str, dry_run: bool = False) -> Object:
        """See the port."""
        with self._moved:
            key = self._key(kind, body)
            if key in self._objects:
                raise errors.AlreadyExists(f'{kind.plural} "{key[2]}" already exists', status=409)
            owners: field_ownership.FieldOwners = {}
            after = field_ownership.merge_fields(
                _fresh(kind, body), _part(body, status=False), owners, FieldOwner(field_manager, "Update")
            )
            return self._put(key, None, after, owners, dry_run=dry_run)

    def merge(
        self,
        kind: ResourceKind,
        name: str,
        patch: Mapping[str, Any],
        *,
        field_manager: str,
        namespace: str | None = None,
        status: bool = False,
    ) -> Object:
        """See the port."""
        with self._moved:
            there = self._find(kind, namespace, name)
            _check_version(there, patch.get("metadata") or {})
            key = (kind, namespace or "", name)
            owners = copy.deepcopy(self._owners[key])
            me = FieldOwner(field_manager, "Update", "status" if status else "")
            after = field_ownership.merge_fields(there, _part(dict(patch), status=status), owners, me)
            return self._put(key, there, after, owners, dry_run=False)

    def delete(
        self,
        kind: ResourceKind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """See the port."""
        with self._moved:
            there = self._find(kind, namespace, name)
            if uid not in {None, there["metadata"]["uid"]}:
                raise errors.WriteConflict("Precondition failed: UID.", status=409)
            if resource_version not in {None, there["metadata"]["resourceVersion"]}:
                raise errors.WriteConflict("Precondition failed: resourceVersion.", status=409)
            key = (kind, namespace or "", name)
            if there["metadata"].get("finalizers"):
                if "deletionTimestamp" not in there["metadata"]:
                    going = copy.deepcopy(there)
                    going["metadata"]["deletionTimestamp"] = _now()
                    self._put(key, there, going, self._owners[key], dry_run=False)
                return
            self._remove(key, there)

    def close(self) -> None:
        """See the port."""

    def _check(self, kind: ResourceKind) -> None:
        if kind not in self._serves:
            raise errors.KindMissing(f"The server does not serve {kind}.", status=404)

    def _find(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        self._check(kind)
        found = self._objects.get((kind, namespace or "", name))
        if found is None:
            raise errors.ObjectNotFound(f'{kind.plural} "{name}" not found', status=404)
        return found

    def _key(self, kind: ResourceKind, body: Object) -> tuple[ResourceKind, str, str]:
        """Where the object of this body stands, if it may stand there."""
        self._check(kind)
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace") or ""
        if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            fault = errors.FieldError("metadata.name", "FieldValueInvalid", f"Invalid value: {name!r}")
            raise errors.InvalidObject(
                f'{kind.name} "{name}" is invalid: metadata.name', status=422, field_errors=[fault]
            )
        if kind.namespaced and (resource_kinds.NAMESPACE, "", namespace) not in self._objects:
            raise errors.ObjectNotFound(f'namespaces "{namespace}" not found', status=404)
        return kind, namespace, name

    def _put(
        self,
        key: tuple[ResourceKind, str, str],
        before: Object | None,
        after: Object,
        owners: field_ownership.FieldOwners,
        *,
        dry_run: bool,
    ) -> Object:
        """Store what differs, and tell the watches. A write that changes nothing leaves no trace."""
        if before is not None and field_ownership.comparable_content(before) == field_ownership.comparable_content(
            after
        ):
            if not dry_run:
                self._owners[key] = owners
                before["metadata"]["managedFields"] = field_ownership.managed_fields_json(owners, key[0].api_version)
            return copy.deepcopy(before)
        after = copy.deepcopy(after)
        metadata = after["metadata"]
        metadata["managedFields"] = field_ownership.managed_fields_json(owners, key[0].api_version)
        if before is not None and _spec(before) != _spec(after):
            metadata["generation"] = before["metadata"]["generation"] + 1
        if dry_run:
            return after
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):  # the last one has let go
            self._remove(key, after)
            return after
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self._objects[key], self._owners[key] = after, owners
        self._note(_Step(self._version, key[0], before, copy.deepcopy(after)))
        return copy.deepcopy(after)

    def _remove(self, key: tuple[ResourceKind, str, str], there: Object) -> None:
        self._version += 1
        last = copy.deepcopy(there)
        last["metadata"]["resourceVersion"] = str(self._version)
        del self._objects[key]
        self._note(_Step(self._version, key[0], last, None))

    def _note(self, step: _Step) -> None:
        self._history.append(step)
        self._moved.notify_all()


def _place(key: tuple[ResourceKind, str, str]) -> tuple[ResourceKind, str | None, str]:
    return key[0], key[1] or None, key[2]


def _fresh(kind: ResourceKind, body: Object) -> Object:
    """What the server itself puts on a new object."""
    metadata = {key: body["metadata"][key] for key in ("name", "namespace") if body["metadata"].get(key)}
    metadata |= {
        "uid": str(uuid.uuid4()),
        "generation": 1,
        "creationTimestamp": _now(),
    }
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _part(body: Object, *, status: bool) -> Object:
    """What a write may touch: the status through its own door, everything else through the main one."""
    return {key: value for key, value in body.items() if (key == "status") == status and key != "kind"}


def _spec(item: Object) -> Object:
    return {key: value for key, value in item.items() if key not in {"metadata", "status"}}


def _check_version(there: Object | None, metadata: Mapping[str, Any]) -> None:
    wanted = metadata.get("resourceVersion")
    if wanted is not None and (there is None or there["metadata"]["resourceVersion"] != wanted):
        raise errors.WriteConflict(
            "The object has been modified; please apply your changes to the latest one.", status=409
        )


def _matches(item: Object | None, labels: str, fields: str) -> bool:
    return item is not None and object_selectors.matches_selectors(item, labels=labels, fields=fields)


def _seen(step: _Step, kind: ResourceKind, namespace: str | None, labels: str, fields: str) -> WatchEvent | None:
    """A change as one watch sees it: what comes into its selection is added, what leaves it is deleted."""
    one = step.after or step.before
    assert one is not None, "a step changes something"
    if step.kind != kind or namespace not in {None, one["metadata"].get("namespace", "")}:
        return None
    was, now = _matches(step.before, labels, fields), _matches(step.after, labels, fields)
    if not was and not now:
        return None
    what = WatchEventType.MODIFIED if was and now else WatchEventType.ADDED if now else WatchEventType.DELETED
    return WatchEvent(what, copy.deepcopy(one), str(step.version))
