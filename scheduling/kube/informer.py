"""What a cluster holds of one kind, kept up in memory by list and watch.

A watch that ends is resumed from its place; one whose place is forgotten (410), or that cannot be resumed, begins again
with a list. Now and then it lists without any need, which heals what a lost event broke. Nothing here gives up: it
waits longer each time and says what is wrong meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from scheduling.domain.kubernetes_json import Object
from scheduling.kube import errors
from scheduling.kube.backoff import Backoff
from scheduling.kube.errors import ClusterError
from scheduling.kube.port import Cluster, ResourceKind, WatchEventType

logger = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class InformerTiming:
    """Seconds: how long one watch lasts, after how long everything is listed anew, and the first and longest pause
    after a failure."""

    watch_seconds: float = 240.0
    relist_seconds: float = 300.0
    first_pause: float = 0.25
    max_pause: float = 30.0


class Informer(Generic[Key]):
    """The objects of one kind that match, found by name and by what `key` reads from each. `changed` is called, from
    the thread that follows, with the key of each object that came, moved or went; `connect` hands out the connection of
    the moment, None while there is none. `named` is what they are found by (in several namespaces a bare name is not
    enough), `keep` what is held of each."""

    def __init__(
        self,
        kind: ResourceKind,
        *,
        connect: Callable[[], Cluster | None],
        key_of: Callable[[Object], Key],
        on_change: Callable[[Key], None],
        namespace: str | None = None,
        labels: str = "",
        timing: InformerTiming = InformerTiming(),
        name_of: Callable[[Object], str] = lambda item: str(item["metadata"]["name"]),
        transform: Callable[[Object], Object] | None = None,
    ) -> None:
        self.kind = kind
        self._named, self._keep = name_of, transform or _slim
        self.error: ClusterError | None = None
        self._connect, self._key, self._changed = connect, key_of, on_change
        self._namespace, self._labels, self._pace = namespace, labels, timing
        self._objects: dict[str, Object] = {}
        self._names: dict[Key, set[str]] = {}
        self._lock = threading.Lock()
        self._listed_at: float | None = None
        self._since = ""  # the place that the watch has come to; empty: list first

    @property
    def has_synced(self) -> bool:
        """Everything was listed once."""
        return self._listed_at is not None

    def objects(self) -> Mapping[str, Object]:
        """All of them by name, as of now. They are shared: nobody may change them."""
        with self._lock:
            return dict(self._objects)

    def get(self, name: str) -> Object | None:
        """One of them."""
        with self._lock:
            return self._objects.get(name)

    def by_key(self, key: Key) -> list[Object]:
        """Those with this key, by name."""
        with self._lock:
            return [self._objects[name] for name in sorted(self._names.get(key, ()))]

    def keys(self) -> set[Key]:
        """Every key that an object has."""
        with self._lock:
            return set(self._names)

    def relist(self) -> None:
        """List everything now; what is wrong with that is the fault."""
        try:
            self._since = self._list(self._connected())
            self.error = None
        except ClusterError as error:
            self._note(error)

    def run(self, stop: threading.Event) -> None:
        """Keep up until told to stop."""
        backoff = Backoff(self._pace.first_pause, self._pace.max_pause)
        while not stop.is_set():
            try:
                self._follow_once(stop)
            except ClusterError as error:
                self._note(error)
                # Once it may be a connection that broke, and what was missed is still to be had; then nothing is sure.
                if backoff.failures or not isinstance(error, errors.Unreachable):
                    self._since = ""
                stop.wait(backoff.next_pause(error.retry_after))
            else:
                self.error = None
                backoff.reset()

    def _follow_once(self, stop: threading.Event) -> None:
        """One list if it is due, and one watch."""
        cluster = self._connected()
        if not self._since or self._is_old():
            self._since = self._list(cluster)
            self.error = None
        events = cluster.watch(
            self.kind,
            resource_version=self._since,
            timeout_seconds=self._pace.watch_seconds,
            namespace=self._namespace,
            labels=self._labels,
        )
        for event in events:
            if event.type is not WatchEventType.BOOKMARK:
                self._take(event.object, gone=event.type is WatchEventType.DELETED)
            self._since = event.resource_version
            if stop.is_set():
                break

    def _connected(self) -> Cluster:
        cluster = self._connect()
        if cluster is None:
            raise errors.Unreachable("There is no connection yet.")
        return cluster

    def _is_old(self) -> bool:
        return self._listed_at is None or time.monotonic() - self._listed_at > self._pace.relist_seconds

    def _list(self, cluster: Cluster) -> str:
        listing = cluster.list(self.kind, namespace=self._namespace, labels=self._labels, transform=self._keep)
        there = {self._named(item): item for item in listing.items}
        moved: set[Key] = set()
        with self._lock:
            for name in self._objects.keys() - there.keys():
                moved |= self._drop(name)
            for name, item in there.items():
                known = self._objects.get(name)
                if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                    moved |= self._put(name, item)
        self._listed_at = time.monotonic()
        for key in moved:
            self._changed(key)
        return listing.resource_version

    def _take(self, item: Object, *, gone: bool) -> None:
        name = self._named(item)
        with self._lock:
            moved = self._drop(name) if gone else self._put(name, self._keep(item))
        for key in moved:
            self._changed(key)

    def _put(self, name: str, item: Object) -> set[Key]:
        """Keep it; its key, and the one it had before if that was another."""
        moved, key = self._drop(name), self._key(item)
        self._objects[name] = item
        self._names.setdefault(key, set()).add(name)
        return moved | {key}

    def _drop(self, name: str) -> set[Key]:
        item = self._objects.pop(name, None)
        if item is None:
            return set()
        key = self._key(item)
        self._names[key].discard(name)
        if not self._names[key]:
            del self._names[key]
        return {key}

    def _note(self, error: ClusterError) -> None:
        if isinstance(error, errors.ResourceVersionExpired):
            return
        if self.error is None or str(self.error) != str(error):
            logger.warning("%s cannot be followed: %s", self.kind, error)
        self.error = error


def _slim(item: Object) -> Object:
    """Without the record of who wrote which field, which is most of an object and of no use here."""
    return item | {"metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}
