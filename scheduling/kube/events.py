"""Kubernetes Events on objects: what OSMO Admin did with them and why, for `kubectl describe`.

Events are best effort: :meth:`EventWriter.record` returns at once, and a thread of the writer does the calls. Equal
Events are one object with a count; Events beyond the rate, or while the cluster does not take them, are dropped and
counted. The Events are of the core group (`v1`), which every API server stores together with `events.k8s.io`.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.kubernetes_json import Object, ReadOnlyObject
from scheduling.kube.connection import errors, metrics
from scheduling.kube.connection.backoff import Backoff
from scheduling.kube.connection.port import Cluster, ResourceKind
from scheduling.kube.connection.resource_kinds import EVENT
from scheduling.kube.connection.token_bucket import TokenBucket

logger = logging.getLogger(__name__)

MAX_MESSAGE_LENGTH = 1024  # the API server refuses longer messages
_MAX_NAME_LENGTH = 200
_NAMESPACE_OF_WIDE_OBJECTS = "default"  # of Events on objects without a namespace
_UNSAFE_IN_NAMES = str.maketrans(dict.fromkeys("_/: ", "-"))


class EventReason(StrEnum):
    """What happened to the object."""

    DISPATCHED = "Dispatched"
    PREEMPTED = "Preempted"
    REFUSED = "Refused"
    REPAIRED = "Repaired"
    STOPPED = "Stopped"


_WARNINGS = frozenset({EventReason.PREEMPTED, EventReason.REFUSED, EventReason.REPAIRED})


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object of an Event. `uid` is empty for an object that was refused and so does not exist; `name` may then be
    the beginning of a generated name. An object without a namespace has the namespace ""."""

    kind: ResourceKind
    name: str
    namespace: str = ""
    uid: str = ""

    @classmethod
    def of(cls, kind: ResourceKind, item: ReadOnlyObject) -> EventSubject:
        """The subject of an object as the API server returned it."""
        metadata = item["metadata"]
        return cls(kind, metadata["name"], metadata.get("namespace") or "", metadata.get("uid") or "")


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Events a second on average and at once, the number of Events that wait, and the seconds for which equal Events
    are one. A repetition is written at most every `repeat` seconds."""

    rate: float = 5.0
    burst: float = 50.0
    waiting: int = 500
    same: float = 600.0
    repeat: float = 30.0


_Key = tuple[EventSubject, EventReason, str]


@dataclass(slots=True)
class _SentEvent:
    """An Event and how often it was recorded; `written_at` is the time of the last write (monotonic)."""

    name: str
    first_at: datetime
    created_at: float
    count: int = 1
    written_at: float | None = None
    is_waiting: bool = True


@dataclass
class EventWriter:
    """Writes the Events of one cluster. `connect` is called in the writer's thread and may return None or raise
    ClusterError; `label` names the cluster in metrics."""

    connect: Callable[[], Cluster | None]
    label: str = ""
    limits: EventLimits = field(default_factory=EventLimits)

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(self.limits.rate, self.limits.burst)
        self._backoff = Backoff(1.0, 60.0)
        self._paused_until = 0.0
        self._entries: OrderedDict[_Key, _SentEvent] = OrderedDict()
        self._waiting: deque[_Key] = deque()
        self._is_writing = False
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def record(self, subject: EventSubject, reason: EventReason, message: str) -> None:
        """Write an Event soon. Never waits for the cluster, and never raises."""
        key = (subject, reason, _shorten(message))
        now = time.monotonic()
        with self._changed:
            entry = self._entries.get(key)
            if entry is not None and now - entry.created_at < self.limits.same:
                entry.count += 1
                is_due = entry.written_at is not None and now - entry.written_at >= self.limits.repeat
                if entry.is_waiting or not is_due:
                    return
            elif len(self._waiting) >= self.limits.waiting or now < self._paused_until:
                metrics.count_event(self.label, "dropped")
                return
            else:
                entry = self._entries[key] = _SentEvent(_event_name(subject), datetime.now(UTC), now)
                self._entries.move_to_end(key)
                while len(self._entries) > 2 * self.limits.waiting:
                    self._entries.popitem(last=False)
            entry.is_waiting = True
            self._waiting.append(key)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=f"events-{self.label}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is left to write; whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_writing, seconds)

    def close(self, seconds: float = 1.0) -> None:
        """Write what is left, for a little time, and end the thread."""
        self.flush(seconds)
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                if not self._waiting:
                    self._changed.wait()
                    continue
                key = self._waiting.popleft()
                entry = self._entries.get(key)
                self._is_writing = True
            try:
                if entry is not None:
                    entry.is_waiting = False
                    self._write_in_turn(key, entry)
            finally:
                with self._changed:
                    self._is_writing = False
                    self._changed.notify_all()

    def _write_in_turn(self, key: _Key, entry: _SentEvent) -> None:
        """Write one Event within the rate. While the cluster takes no Events, they are dropped."""
        if time.monotonic() < self._paused_until:
            self._drop(key)
            return
        while pause := self._bucket.try_take():
            if self._stop.wait(pause):
                return
        try:
            cluster = self.connect()
            if cluster is None:
                self._drop(key)
                return
            self._write(cluster, key, entry)
        except errors.ClusterError as error:
            self._drop(key)
            self._pause(error)
        except Exception:
            self._drop(key)
            logger.exception("an Event of %s was not written", self.label)
        else:
            self._backoff.reset()
            metrics.count_event(self.label, "written")

    def _write(self, cluster: Cluster, key: _Key, entry: _SentEvent) -> None:
        subject, reason, message = key
        namespace = subject.namespace or _NAMESPACE_OF_WIDE_OBJECTS
        count, last = entry.count, _format_time(datetime.now(UTC))
        if entry.written_at is not None:
            patch = {"count": count, "lastTimestamp": last}
            try:
                cluster.merge(EVENT, entry.name, patch, field_manager=FIELD_MANAGER, namespace=namespace)
            except errors.ObjectNotFound:  # the cluster forgets Events after an hour; the next one is a new Event
                self._forget(key)
                return
        else:
            cluster.create(EVENT, _event_body(subject, reason, message, entry, last), field_manager=FIELD_MANAGER)
        entry.written_at = time.monotonic()

    def _drop(self, key: _Key) -> None:
        metrics.count_event(self.label, "dropped")
        self._forget(key)

    def _forget(self, key: _Key) -> None:
        with self._changed:
            self._entries.pop(key, None)

    def _pause(self, error: errors.ClusterError) -> None:
        """An error of one object (its namespace is gone, for example) concerns no other Event."""
        if isinstance(error, errors.ObjectNotFound | errors.InvalidObject) and not isinstance(
            error, errors.KindMissing
        ):
            logger.info("an Event was not written: %s", error)
            return
        if not self._backoff.failures:
            logger.warning("no Events are written to %s for now: %s", self.label, error)
        self._paused_until = time.monotonic() + self._backoff.next_pause(error.retry_after)


def _event_body(subject: EventSubject, reason: EventReason, message: str, entry: _SentEvent, last: str) -> Object:
    regarding = {"apiVersion": subject.kind.api_version, "kind": subject.kind.name, "name": subject.name}
    regarding |= {key: text for key, text in (("namespace", subject.namespace), ("uid", subject.uid)) if text}
    return {
        "metadata": {"name": entry.name, "namespace": subject.namespace or _NAMESPACE_OF_WIDE_OBJECTS},
        "involvedObject": regarding,
        "reason": reason.value,
        "message": message,
        "type": "Warning" if reason in _WARNINGS else "Normal",
        "count": entry.count,
        "firstTimestamp": _format_time(entry.first_at),
        "lastTimestamp": last,
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": f"{socket.gethostname()}-{os.getpid()}",
    }


def _event_name(subject: EventSubject) -> str:
    """A name that no other Event has; it begins with the name of the object, as is usual."""
    base = (subject.name or subject.kind.name).lower().translate(_UNSAFE_IN_NAMES)[:_MAX_NAME_LENGTH].strip("-.")
    return f"{base or 'object'}.{uuid.uuid4().hex[:16]}"


def _shorten(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"


def _format_time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
