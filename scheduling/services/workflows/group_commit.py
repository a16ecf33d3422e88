"""Group commit: requests of one process that wait for the same lock anyway share one transaction.

The first request with a key leads: it begins its transaction at once, whether others come or not. Requests with the
same key that arrive meanwhile wait. Once the leader holds its locks, it takes those that wait by then, makes
the changes of all of them, and hands each its own outcome after the commit. Then the next one that waits leads.

Nothing is kept beyond these requests: if the process dies, the transaction is rolled back for all of them.
"""

from __future__ import annotations

import copy
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from pools.domain.errors import Busy, DomainError

Request = TypeVar("Request")
Result = TypeVar("Result")

Take = Callable[[int], Sequence[Request]]
"""Takes the requests that wait, up to this total size."""


class _Call(Generic[Request, Result]):
    """A request that waits in its own thread until it leads, is answered, or has to be tried alone."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.outcome: Result | DomainError | None = None
        self.is_alone = False
        self.goes_on = threading.Event()


class GroupCommit(Generic[Request, Result]):
    """The requests of this process that share transactions.

    `together` makes the changes of a first request and of those that it takes, in one transaction, and returns an
    outcome for each, in order: its result, or its refusal. `alone` makes the change of one request; `size` is how
    much of a transaction it takes. When `together` fails, for whatever reason, nothing was changed and each request is
    tried alone, so that no request fails by the fault of another one.
    But Busy is the error of all of them, and of those that wait if the leader did not get its lock: they would wait for
    the same lock again, and a commit whose outcome is unknown must not be repeated.
    """

    def __init__(
        self,
        *,
        together: Callable[[Request, Take[Request]], Sequence[Result | DomainError]],
        alone: Callable[[Request], Result],
        size: Callable[[Request], int],
    ) -> None:
        self._together = together
        self._alone = alone
        self._size = size
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, deque[_Call[Request, Result]]] = {}

    def run(self, key: Hashable, request: Request) -> Result:
        """The result of this request, whose transaction others with an equal key may share."""
        call: _Call[Request, Result] = _Call(request)
        with self._guard:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = deque()
            else:
                queue.append(call)
        if queue is not None:
            call.goes_on.wait()
            if call.is_alone:
                return self._alone(request)
            if call.outcome is not None:
                return _result(call.outcome)
        try:
            return self._lead(key, request)
        finally:
            self._pass_on(key)

    def waiting(self, key: Hashable) -> int:
        """The number of requests that wait for the leader of this key."""
        with self._guard:
            return len(self._waiting.get(key, ()))

    def _lead(self, key: Hashable, request: Request) -> Result:
        taken: list[_Call[Request, Result]] = []

        def take(room: float) -> Sequence[Request]:
            before = len(taken)
            with self._guard:
                queue = self._waiting[key]
                while queue and (needed := self._size(queue[0].request)) <= room:
                    taken.append(queue.popleft())
                    room -= needed
            return [call.request for call in taken[before:]]

        outcomes: Sequence[Result | DomainError] = ()
        try:
            own, *outcomes = self._together(request, take)
        except Busy as busy:
            if not taken:
                take(math.inf)  # else they would wait for the same lock one after the other
            outcomes = [copy.copy(busy) for _ in taken]
            raise
        except Exception:
            if not taken:
                raise
        else:
            return _result(own)
        finally:
            for index, call in enumerate(taken):
                call.is_alone = not outcomes
                call.outcome = outcomes[index] if outcomes else None
                call.goes_on.set()
        return self._alone(request)

    def _pass_on(self, key: Hashable) -> None:
        with self._guard:
            queue = self._waiting[key]
            if queue:
                queue.popleft().goes_on.set()
            else:
                del self._waiting[key]


def _result(outcome: Result | DomainError) -> Result:
    if isinstance(outcome, DomainError):
        raise outcome
    return outcome
