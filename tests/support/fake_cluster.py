"""A fake cluster in memory that implements the port.

It implements resource versions, watches that resume and expire, field ownership by server-side apply, preconditions,
finalizers, namespaces and kinds that are not installed. It has no schemas and no admission. The same contract tests run
on it and on a real API server (`tests/integration/kube/test_port_contract.py`).
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
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import PAGE_SIZE, ObjectList, ResourceKind, WatchEvent, WatchEventType
from tests.support import field_ownership, object_selectors
from tests.support.field_ownership import FieldOwner

KAI_KINDS = (resource_kinds.QUEUE, resource_kinds.POD_GROUP, resource_kinds.TOPOLOGY)
BUILT_IN_KINDS = (
    resource_kinds.NAMESPACE,
    resource_kinds.NODE,
    resource_kinds.POD,
    resource_kinds.SECRET,
    resource_kinds.SERVICE,
    resource_kinds.PRIORITY_CLASS,
    resource_kinds.VALIDATING_WEBHOOK,
    resource_kinds.EVENT,
    resource_kinds.LEASE,
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class _Change:
    """One change: the object before and after; None means that there was none."""

    version: int
    kind: ResourceKind
    before: Object | None
    after: Object | None


class FakeCluster:
    """:class:`scheduling.kube.connection.port.Cluster`, in memory."""

    def __init__(
        self,
        *,
        served_kinds: Collection[ResourceKind] = (*BUILT_IN_KINDS, *KAI_KINDS),
        namespaces: Collection[str] = ("default",),
    ) -> None:
        self._serves = set(served_kinds)
        self._objects: dict[tuple[ResourceKind, str, str], Object] = {}
        self._owners: dict[tuple[ResourceKind, str, str], field_ownership.FieldOwners] = {}
        self._history: list[_Change] = []
        self._logs: dict[tuple[str, str, str], bytes] = {}
        self._version = 1
        self._events = 0
        self._expired = 0
        self._changed = threading.Condition(threading.RLock())
        for name in namespaces:
            self.create(resource_kinds.NAMESPACE, {"metadata": {"name": name}}, field_manager="fake")

    @property
    def changes(self) -> int:
        """How often an object was changed, Events aside, which the agent's writer creates at its own times."""
        return self._version - self._events

    def version(self) -> str:
        """See the port."""
        return "v1.36.4"

    def install_kinds(self, *serves: ResourceKind) -> None:
        """Serve these kinds, too."""
        self._serves.update(serves)

    def uninstall_kinds(self, *kinds_gone: ResourceKind) -> None:
        """Stop serving these kinds and delete their objects."""
        with self._changed:
            self._serves.difference_update(kinds_gone)
            for key in [key for key in self._objects if key[0] in kinds_gone]:
                del self._objects[key]

    def expire_history(self) -> None:
        """Let all earlier resource versions expire: no watch can resume from them."""
        with self._changed:
            self._expired = self._version
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
        with self._changed:
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
            with self._changed:
                if place < self._expired:
                    raise errors.ResourceVersionExpired("The resource version is too old.", status=410)
                changes = [change for change in self._history if change.version > place]
                if not changes:
                    remaining = end - time.monotonic()
                    if remaining > 0:
                        self._changed.wait(remaining)
                        continue
                place = self._version
            for change in changes:
                event = _watch_event(change, kind, namespace, labels, fields)
                if event is not None:
                    yield event
            if time.monotonic() >= end:
                yield WatchEvent(WatchEventType.BOOKMARK, {"metadata": {"resourceVersion": str(place)}}, str(place))
                return

    def get(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> Object:
        """See the port."""
        with self._changed:
            return copy.deepcopy(self._find(kind, namespace, name))

    def read_log(
        self, pod: str, *, namespace: str, container: str, tail_lines: int, limit_bytes: int
    ) -> Iterator[bytes]:
        """See the port."""
        with self._changed:
            self._find(resource_kinds.POD, namespace, pod)
            printed = self._logs.get((namespace, pod, container))
        if printed is None:
            raise errors.InvalidObject(f'container "{container}" in pod "{pod}" is waiting to start', status=400)
        yield b"".join(printed.splitlines(keepends=True)[-tail_lines:])[:limit_bytes]

    def print_log(self, pod: str, text: bytes, *, namespace: str, container: str) -> None:
        """A container prints this text."""
        key = namespace, pod, container
        self._logs[key] = self._logs.get(key, b"") + text

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
        with self._changed:
            key = self._key(kind, body)
            current = self._objects.get(key)
            if current is None and status:
                self._find(*_place(key))
            _check_version(current, body["metadata"])
            desired = _part(body, status=status)
            owners = copy.deepcopy(self._owners.get(key, {}))
            me = FieldOwner(field_manager, "Apply", "status" if status else "")
            base = current if current is not None else _new_object(kind, body)
            after, clashes = field_ownership.apply_fields(base, desired, owners, me, force=force)
            if clashes:
                raise errors.WriteConflict(
                    f"Apply failed with {len(clashes)} conflicts.",
                    status=409,
                    field_errors=[
                        errors.FieldError("." + ".".join(path), "FieldManagerConflict", f'conflict with "{other}"')
                        for path, other in clashes
                    ],
                )
            return self._put(key, current, after, owners, dry_run=dry_run)

    def create(self, kind: ResourceKind, body: Object, *, field_manager: str, dry_run: bool = False) -> Object:
        """See the port."""
        with self._changed:
            key = self._key(kind, body)
            if key in self._objects:
                raise errors.AlreadyExists(f'{kind.plural} "{key[2]}" already exists', status=409)
            owners: field_ownership.FieldOwners = {}
            after = field_ownership.merge_fields(
                _new_object(kind, body), _part(body, status=False), owners, FieldOwner(field_manager, "Update")
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
        with self._changed:
            current = self._find(kind, namespace, name)
            _check_version(current, patch.get("metadata") or {})
            key = (kind, namespace or "", name)
            owners = copy.deepcopy(self._owners[key])
            me = FieldOwner(field_manager, "Update", "status" if status else "")
            after = field_ownership.merge_fields(current, _part(dict(patch), status=status), owners, me)
            return self._put(key, current, after, owners, dry_run=False)

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
        with self._changed:
            current = self._find(kind, namespace, name)
            if uid not in {None, current["metadata"]["uid"]}:
                raise errors.WriteConflict("Precondition failed: UID.", status=409)
            if resource_version not in {None, current["metadata"]["resourceVersion"]}:
                raise errors.WriteConflict("Precondition failed: resourceVersion.", status=409)
            key = (kind, namespace or "", name)
            if current["metadata"].get("finalizers"):
                if "deletionTimestamp" not in current["metadata"]:
                    going = copy.deepcopy(current)
                    going["metadata"]["deletionTimestamp"] = _now()
                    self._put(key, current, going, self._owners[key], dry_run=False)
                return
            self._remove(key, current)

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
        """The key of this body's object. Raises when name or namespace are not valid."""
        self._check(kind)
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace") or ""
        if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH:
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
        """Store a changed object and notify the watches. A write without a change has no effect."""
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
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):  # the last finalizer is gone
            self._remove(key, after)
            return after
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self._objects[key], self._owners[key] = after, owners
        self._append(_Change(self._version, key[0], before, copy.deepcopy(after)))
        return copy.deepcopy(after)

    def _remove(self, key: tuple[ResourceKind, str, str], current: Object) -> None:
        self._version += 1
        last = copy.deepcopy(current)
        last["metadata"]["resourceVersion"] = str(self._version)
        del self._objects[key]
        self._append(_Change(self._version, key[0], last, None))

    def _append(self, change: _Change) -> None:
        self._events += change.kind == resource_kinds.EVENT
        self._history.append(change)
        self._changed.notify_all()


def _place(key: tuple[ResourceKind, str, str]) -> tuple[ResourceKind, str | None, str]:
    return key[0], key[1] or None, key[2]


def _new_object(kind: ResourceKind, body: Object) -> Object:
    """A new object with the fields that the server sets."""
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
    """The fields that a write may change: the status through its subresource, all others through the main resource."""
    return {key: value for key, value in body.items() if (key == "status") == status and key != "kind"}


def _spec(item: Object) -> Object:
    return {key: value for key, value in item.items() if key not in {"metadata", "status"}}


def _check_version(current: Object | None, metadata: Mapping[str, Any]) -> None:
    expected = metadata.get("resourceVersion")
    if expected is not None and (current is None or current["metadata"]["resourceVersion"] != expected):
        raise errors.WriteConflict(
            "The object has been modified; please apply your changes to the latest one.", status=409
        )


def _matches(item: Object | None, labels: str, fields: str) -> bool:
    return item is not None and object_selectors.matches_selectors(item, labels=labels, fields=fields)


def _watch_event(
    change: _Change, kind: ResourceKind, namespace: str | None, labels: str, fields: str
) -> WatchEvent | None:
    """A change as one watch sees it: an object that enters the selection is added, one that leaves it is deleted."""
    one = change.after or change.before
    assert one is not None, "a change has an object before or after it"
    if change.kind != kind or namespace not in {None, one["metadata"].get("namespace", "")}:
        return None
    was, now = _matches(change.before, labels, fields), _matches(change.after, labels, fields)
    if not was and not now:
        return None
    what = WatchEventType.MODIFIED if was and now else WatchEventType.ADDED if now else WatchEventType.DELETED
    return WatchEvent(what, copy.deepcopy(one), str(change.version))
