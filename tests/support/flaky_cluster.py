"""A connection to a cluster that fails on purpose, and records the objects created and deleted through it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import EVENT

WRITES = frozenset({"create", "merge", "apply", "delete"})
RECORDED_CALLS = frozenset({"create", "merge", "apply", "delete", "get", "list", "version", "watch"})


class ProcessKilled(BaseException):
    """The process that made this call is gone."""


@dataclass
class FlakyCluster:
    """Passes calls on to `real`. `failure` gets the name of each call and its number among all calls so far (from 1);
    a returned exception is raised before the call, or, if `fails_after`, after it (then only the answer is lost)."""

    real: Cluster
    failure: Callable[[str, int], BaseException | None] = lambda call, number: None
    fails_after: bool = False
    created: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(plural, name) -> how often it was created."""
    deleted: Counter[tuple[str, str]] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    fails_events: bool = False
    """Counts and failures leave out Kubernetes Events: a thread of the writer makes those calls at its own times."""
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.real, name)
        if name not in RECORDED_CALLS:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            if EVENT in args and not self.fails_events:
                return real(*args, **kwargs)
            with self._lock:
                self._count += 1
                number = self._count
                self.calls[name] += 1
            problem = self.failure(name, number)
            if problem is not None and not self.fails_after:
                raise problem
            found = real(*args, **kwargs)
            self._record_object(name, args, kwargs)
            if problem is not None:
                raise problem
            return found

        return call

    def _record_object(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with self._lock:
            if name == "create" and not kwargs.get("dry_run"):
                self.created[args[0].plural, args[1]["metadata"]["name"]] += 1
            elif name == "delete":
                self.deleted[args[0].plural, args[1]] += 1


def fail_nth_write(number: int, error: Callable[[], BaseException]) -> Callable[[str, int], BaseException | None]:
    """A failure of the n-th write, once."""
    seen = Counter[str]()
    lock = threading.Lock()

    def problem(call: str, _: int) -> BaseException | None:
        if call not in WRITES:
            return None
        with lock:
            seen["writes"] += 1
            return error() if seen["writes"] == number else None

    return problem
