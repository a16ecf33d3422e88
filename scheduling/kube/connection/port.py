"""The port: the calls that we make to a Kubernetes cluster.

Objects are plain JSON (`dict`), as the API server sends them. Every call has a time limit and raises only
:mod:`scheduling.kube.connection.errors`. No call may be made while a database lock is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from scheduling.domain.kubernetes_json import Object

PAGE_SIZE = 500
CALL_TIMEOUT_SECONDS = 15.0
CONNECT_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of object, with its path at the API server and the name in its manifests."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` for the core group, else `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.name} ({self.api_version})"


class WatchEventType(StrEnum):
    """The events of a watch. A bookmark carries no object, only the position of the watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch. A watch resumes after it with its `resource_version`."""

    type: WatchEventType
    object: Object
    resource_version: str


@dataclass(frozen=True, slots=True)
class ObjectList:
    """All selected objects, over all pages, and the resource version from which a watch continues. The items are
    objects, or the results of the caller's `transform`."""

    items: list[Any]
    resource_version: str


class ClusterReader(Protocol):
    """One cluster, as one identity sees it: the calls that change nothing there. An observed cluster has no other. Safe
    to use from several threads."""

    def version(self) -> str:
        """The API server's version, as `v1.36.4`."""
        ...

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
        """All matching objects, read page by page, as of one time. `labels` and `fields` are selectors (`a=b,!c`).
        `transform` is applied to each object, so that a long list is never in memory as a whole.

        Without a namespace the list covers all namespaces. When the pages expire during the read, the list starts
        again; ResourceVersionExpired only after several such starts.
        """
        ...

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
        """Changes after `resource_version`, as they come, for about `timeout_seconds`; then the watch ends without an
        error.

        The API server sends bookmarks when there are no changes, but not all do. A connection that is silent for too
        long raises SilentWatch. It and ResourceVersionExpired mean: list again.
        """
        ...

    def get(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> Object:
        """One object. Raises ObjectNotFound, or KindMissing."""
        ...

    def read_log(
        self, pod: str, *, namespace: str, container: str, tail_lines: int, limit_bytes: int
    ) -> Iterator[bytes]:
        """The last lines that a container has printed, in pieces of any size, at most `limit_bytes`. The log is not
        followed.

        Raises ObjectNotFound for a pod that is gone, and InvalidObject for a container that has not begun.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class Cluster(ClusterReader, Protocol):
    """The same with the calls that write. It is never made for an observed cluster."""

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
        """Server-side apply by `field_manager`: sets the fields in `body`, removes fields that the manager applied
        before and omits now, leaves all others. Creates the object if it is missing.

        `body.metadata` holds the name. A field that another manager owns with another value raises WriteConflict; with
        `force` the field is taken over. `status` applies to the status subresource.
        """
        ...

    def create(self, kind: ResourceKind, body: Object, *, field_manager: str, dry_run: bool = False) -> Object:
        """Create an object. Raises AlreadyExists when an object has that name."""
        ...

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
        """A merge patch: sets the keys in `patch`, null removes a key. `metadata.resourceVersion` in it is a
        precondition (WriteConflict). `status` patches the status subresource."""
        ...

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
        """Request the deletion. `uid` and `resource_version` are preconditions (WriteConflict)."""
        ...
