"""An informer keeps the objects of one kind in memory by list and watch.

A watch that ends is resumed from its resource version. When that version has expired (410), or the watch cannot be
resumed, the informer lists again. It also lists at intervals, which repairs the effect of a lost event. An informer
never gives up: its pauses grow, and `error` is the current problem.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.port import ClusterReader, ResourceKind, WatchEventType

logger = logging.getLogger(__name__)
_STOP_CHECK_SECONDS = 0.5  # in a pause
_BRIEF_SECONDS = 1.0
MAX_DELETED = 5_000
"""The most last states of deleted objects that are kept, the newest."""
_UNFORESEEN = "An object or an answer of the cluster could not be read; the log of this process has the error."
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class InformerTiming:
    """Seconds: the duration of one watch, the interval between full lists, the first and the longest pause after a
    failure."""

    watch_seconds: float = 240.0
    relist_seconds: float = 300.0
    first_pause: float = 0.25
    max_pause: float = 30.0


class Informer(Generic[Key]):
    """The matching objects of one kind, indexed by name and by the key that `key_of` reads. `on_change` is called from
    the informer's thread with the key of each added, changed or deleted object. `connect` returns the current
    connection, None while there is none. `name_of` is the index by name (across namespaces a bare name is not unique),
    `transform` trims an object before it is stored. `keeps_deleted` says of the last state of a deleted object whether
    it stays among :meth:`deleted` until it is forgotten: what a list does not have any more is not there."""

    def __init__(
        self,
        kind: ResourceKind,
        *,
        connect: Callable[[], ClusterReader | None],
        key_of: Callable[[Object], Key],
        on_change: Callable[[Key], None],
        namespace: str | None = None,
        labels: str = "",
        timing: InformerTiming = InformerTiming(),
        name_of: Callable[[Object], str] = lambda item: str(item["metadata"]["name"]),
        transform: Callable[[Object], Object] | None = None,
        keeps_deleted: Callable[[Object], bool] | None = None,
    ) -> None:
        self.kind = kind
        self._name_of, self._transform = name_of, transform or _without_managed_fields
        self.error: ClusterError | None = None
        self._connect, self._key_of, self._on_change = connect, key_of, on_change
        self._namespace, self._labels, self._timing = namespace, labels, timing
        self._objects: dict[str, Object] = {}
        self._keeps_deleted, self._deleted = keeps_deleted, dict[str, Object]()
        self._names: dict[Key, set[str]] = {}
        self._lock = threading.Lock()
        self._listed_at: float | None = None
        self._retry = threading.Event()
        self._since = ""  # the resource version of the watch; empty: list first

    @property
    def has_synced(self) -> bool:
        """Whether everything was listed once."""
        return self._listed_at is not None

    def objects(self) -> Mapping[str, Object]:
        """All objects by name, as of now. The objects are shared and must not be changed."""
        with self._lock:
            return dict(self._objects)

    def deleted(self) -> Mapping[str, Object]:
        """The last states of deleted objects that are kept, by uid."""
        with self._lock:
            return dict(self._deleted)

    def forget_deleted(self, uids: Iterable[str]) -> None:
        """Keep these last states no longer."""
        with self._lock:
            for uid in uids:
                self._deleted.pop(uid, None)

    def get(self, name: str) -> Object | None:
        """The object of this name."""
        with self._lock:
            return self._objects.get(name)

    def by_key(self, key: Key) -> list[Object]:
        """The objects with this key, in the order of their names."""
        with self._lock:
            return [self._objects[name] for name in sorted(self._names.get(key, ()))]

    def keys(self) -> set[Key]:
        """The keys of all objects."""
        with self._lock:
            return set(self._names)

    def relist(self) -> None:
        """List everything now; a failure becomes `error`."""
        try:
            self._since = self._list(self._connected())
            self.error = None
        except ClusterError as error:
            self._record_error(error)

    def run(self, stop: threading.Event) -> None:
        """Follow the cluster until `stop` is set."""
        backoff = Backoff(self._timing.first_pause, self._timing.max_pause)
        while not stop.is_set():
            try:
                is_brief = self._follow_once(stop, backoff)
            except errors.SilentWatch:
                self._since = ""  # nothing happened, or the connection is dead: a list tells
            except ClusterError as error:
                # A first broken connection may lose nothing, so the watch is resumed, and the next call tells whether
                # the cluster answers. After anything else, list again.
                if backoff.failures or not self.has_synced or not isinstance(error, errors.Unreachable):
                    self._record_error(error)
                    self._since = ""
                self._pause(stop, backoff.next_pause(error.retry_after))
            except Exception:
                # Nobody would notice the end of this thread: what it knows would only grow old.
                logger.exception("%s cannot be followed", self.kind)
                self._record_error(ClusterError(_UNFORESEEN))
                self._since = ""
                self._pause(stop, backoff.next_pause())
            else:
                self.error = None
                if is_brief:  # as behind a proxy that ends every watch: lists tell what happens
                    self._since = ""
                    self._pause(stop, backoff.next_pause())
                else:
                    backoff.reset()

    def retry_now(self) -> None:
        """The cluster answers again: end a pause after a failure."""
        self._retry.set()

    def _pause(self, stop: threading.Event, seconds: float) -> None:
        self._retry.clear()
        end = time.monotonic() + seconds
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._retry.wait(min(left, _STOP_CHECK_SECONDS)):
                return

    def _follow_once(self, stop: threading.Event, backoff: Backoff) -> bool:
        """One list if it is due, then one watch. Each answer ends the error before it. Returns whether the watch ended
        at once and brought nothing."""
        cluster = self._connected()
        if not self._since or self._is_list_due():
            self._since = self._list(cluster)
            self.error = None
        events = cluster.watch(
            self.kind,
            resource_version=self._since,
            timeout_seconds=self._timing.watch_seconds,
            namespace=self._namespace,
            labels=self._labels,
        )
        began, is_empty = time.monotonic(), True
        for event in events:
            is_empty = False
            if event.type is not WatchEventType.BOOKMARK:
                self._apply_event(event.object, is_deleted=event.type is WatchEventType.DELETED)
            self._since = event.resource_version
            self.error = None
            backoff.reset()
            if stop.is_set():
                break
        return is_empty and time.monotonic() - began < min(_BRIEF_SECONDS, self._timing.watch_seconds / 2)

    def _connected(self) -> ClusterReader:
        cluster = self._connect()
        if cluster is None:
            raise errors.Unreachable("There is no connection yet.")
        return cluster

    def _is_list_due(self) -> bool:
        return self._listed_at is None or time.monotonic() - self._listed_at > self._timing.relist_seconds

    def _list(self, cluster: ClusterReader) -> str:
        listing = cluster.list(self.kind, namespace=self._namespace, labels=self._labels, transform=self._transform)
        listed = {self._name_of(item): item for item in listing.items}
        changed: set[Key] = set()
        with self._lock:
            for name in self._objects.keys() - listed.keys():
                changed |= self._drop(name)
            for name, item in listed.items():
                known = self._objects.get(name)
                if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                    changed |= self._put(name, item)
        self._listed_at = time.monotonic()
        for key in changed:
            self._on_change(key)
        return listing.resource_version

    def _apply_event(self, item: Object, *, is_deleted: bool) -> None:
        name = self._name_of(item)
        last = self._transform(item) if is_deleted and self._keeps_deleted is not None else None
        with self._lock:
            changed = self._drop(name) if is_deleted else self._put(name, self._transform(item))
            if last is not None and self._keeps_deleted is not None and self._keeps_deleted(last):
                self._deleted[str(last["metadata"]["uid"])] = last
                if len(self._deleted) > MAX_DELETED:  # nobody may look for long
                    del self._deleted[next(iter(self._deleted))]
        for key in changed:
            self._on_change(key)

    def _put(self, name: str, item: Object) -> set[Key]:
        """Store an object. Returns its key, and the key that it had before."""
        replaced, key = self._drop(name), self._key_of(item)
        self._objects[name] = item
        self._names.setdefault(key, set()).add(name)
        return replaced | {key}

    def _drop(self, name: str) -> set[Key]:
        item = self._objects.pop(name, None)
        if item is None:
            return set()
        key = self._key_of(item)
        self._names[key].discard(name)
        if not self._names[key]:
            del self._names[key]
        return {key}

    def _record_error(self, error: ClusterError) -> None:
        if isinstance(error, errors.ResourceVersionExpired):
            return
        if self.error is None or str(self.error) != str(error):
            logger.warning("%s cannot be followed: %s", self.kind, error)
        self.error = error


def _without_managed_fields(item: Object) -> Object:
    """The object without `managedFields`, which are most of an object and not needed here."""
    return item | {"metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}
