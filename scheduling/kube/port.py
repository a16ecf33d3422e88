"""The port: what the house asks of a Kubernetes cluster, in its own words.

Objects are plain JSON (`dict`), as the API server shows them. Every call has a time limit and raises
:mod:`scheduling.kube.errors` and nothing else. No call may be made while a database lock is held.
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
    """A kind of object: where the API server keeps it and what its manifests are called."""

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
    """What a watch tells. A bookmark carries no object, only how far the watch has come."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One step of a watch. `resource_version` is the place to resume behind it."""

    type: WatchEventType
    object: Object
    resource_version: str


@dataclass(frozen=True, slots=True)
class ObjectList:
    """Everything that was asked for, over all pages, and the place from which a watch goes on. The items are objects,
    or what the caller chose to keep of each."""

    items: list[Any]
    resource_version: str


class Cluster(Protocol):
    """One cluster as one identity sees it. Safe to use from several threads."""

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
        """All objects that match, page by page, from one moment. `labels` and `fields` are selectors (`a=b,!c`); `transform`
        says what to keep of each, so that a long list need not be held whole.

        Without a namespace: of all namespaces. Pages that grew too old while reading are begun again; Gone only when
        that keeps happening.
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
        """Changes behind the place `resource_version`, as they come, for about `timeout_seconds`; then it ends without an error.

        Bookmarks come now and then when nothing else does. A connection that says nothing for longer than it should
        live ends as Unreachable. Gone when the place is forgotten: list again.
        """
        ...

    def get(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> Object:
        """One object. NotFound, or KindMissing."""
        ...

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
        """Server-side apply by the field manager `field_manager`: the fields in `body` become so, those it applied before and
        left out now go, all others stay. Makes the object if there is none.

        `body.metadata` names it. A field that somebody else owns with another value: Conflict, or with `force` taken
        over. `status` applies to the status subresource.
        """
        ...

    def create(self, kind: ResourceKind, body: Object, *, field_manager: str, dry_run: bool = False) -> Object:
        """Make it. AlreadyExists when the name is taken."""
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
        """A merge patch: the keys in `patch` become so, null takes a key away. `metadata.resourceVersion` in it is a
        condition (Conflict). `status` patches the status subresource."""
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
        """Ask for its removal. With `uid` or `resource_version` only if it is still that one (Conflict)."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
