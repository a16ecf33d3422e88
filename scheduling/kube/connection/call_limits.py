"""Limits of our own calls to one cluster: a rate, with urgent calls before others, and pauses that the API server asks
for. Each process has limits of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import IntEnum

from scheduling.kube.connection import errors, metrics
from scheduling.kube.connection.port import ResourceKind
from scheduling.kube.connection.resource_kinds import EVENT, GPU_RESOURCE_QUOTA, LEASE, POD, POD_GROUP, SECRET, SERVICE
from scheduling.kube.connection.token_bucket import TokenBucket

DEFAULT_RATE = 50.0  # calls a second
MAX_WAIT_SECONDS = 10.0  # after which a call goes out anyway: no class of calls starves
MAX_PAUSE_SECONDS = 60.0
_SHORTEST_SLEEP = 0.001  # a sum of rounded numbers may lack the least bit of a token
_OBJECTS_OF_WORK = frozenset({POD, POD_GROUP, SECRET, SERVICE, LEASE})
_READS = frozenset({"list", "watch", "log"})


class CallClass(IntEnum):
    """The urgency of a call, the most urgent first: dispatch and deletion of work, and the calls that keep us at work;
    other writes and reads of single objects (queues, webhooks); statuses; lists and watches; Events."""

    WORK = 0
    WRITE = 1
    STATUS = 2
    LIST = 3
    EVENT = 4


_RESERVED = {
    CallClass.WORK: 0.0,
    CallClass.WRITE: 0.1,
    CallClass.STATUS: 0.3,
    CallClass.LIST: 0.5,
    CallClass.EVENT: 0.7,
}
"""The part of the bucket that a class leaves to more urgent ones."""


def call_class(verb: str, kind: ResourceKind | None) -> CallClass:
    """The class of a call; without a kind it asks the API server whether it lives."""
    if kind is None:
        return CallClass.WORK
    if verb in _READS:
        return CallClass.LIST
    if kind == EVENT:
        return CallClass.EVENT
    if kind == GPU_RESOURCE_QUOTA:
        return CallClass.STATUS
    return CallClass.WORK if kind in _OBJECTS_OF_WORK else CallClass.WRITE


class CallLimiter:
    """The limits of the calls to one cluster; `label` names it in metrics. Safe to use from several threads."""

    def __init__(
        self,
        label: str = "",
        rate: float = DEFAULT_RATE,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._label, self._burst = label, 2 * rate
        self._bucket = TokenBucket(rate, self._burst, clock)
        self._clock, self._sleep = clock, sleep
        self._paused_until: dict[CallClass, float] = {}
        self._lock = threading.Lock()

    def wait(self, of: CallClass) -> None:
        """Wait for the turn of a call. Raises TooManyRequests, without a call, during a pause that the API server
        demanded for in an answer to a call that was as urgent or more."""
        began = self._clock()
        with self._lock:
            left = self._paused_until.get(of, 0.0) - began
        if left > 0:
            message = f"The API server demanded a pause; {left:.0f} s of it are left."
            raise errors.TooManyRequests(message, status=429, retry_after=left)
        reserved = _RESERVED[of] * self._burst
        while (pause := self._bucket.try_take(reserved)) and self._clock() - began < MAX_WAIT_SECONDS:
            self._sleep(max(pause, _SHORTEST_SLEEP))
        metrics.count_wait(self._label, of.name.lower(), self._clock() - began)

    def count(self, verb: str, kind: ResourceKind | None, code: str) -> None:
        """Count an answer; `code` is its status, or the reason why there was none."""
        metrics.count_call(self._label, verb, kind.plural if kind is not None else "version", code)

    def pause(self, of: CallClass, seconds: float | None) -> None:
        """The API server answered 429: calls of this class and of less urgent ones make a pause."""
        until = self._clock() + min(1.0 if seconds is None else seconds, MAX_PAUSE_SECONDS)
        metrics.count_pause(self._label, of.name.lower())
        with self._lock:
            for each in CallClass:
                if each >= of:
                    self._paused_until[each] = max(until, self._paused_until.get(each, 0.0))
