"""Threads that run jobs, and hand their results to the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class Lane:
    """A queue of jobs with threads of its own, which take them in order of arrival.

    A thread is started when a job finds none idle, up to `threads`, because each thread that has served a request keeps
    a connection to the database. The jobs come from the thread of the event loop only.
    """

    def __init__(self, name: str, threads: int, loop: asyncio.AbstractEventLoop) -> None:
        self._jobs: SimpleQueue[tuple[asyncio.Future[Any], contextvars.Context, Callable[..., Any], tuple[Any, ...]]]
        self._jobs = SimpleQueue()
        self._loop = loop
        self._name = name
        self._most = threads
        self._started = 0
        self._guard = threading.Lock()
        self._untaken = 0
        """Jobs that no thread has taken yet."""
        self._idle = 0
        """Threads that wait for a job, or are about to. While there are not more jobs than these, each has a thread."""

    def waiting(self) -> int:
        """The number of jobs that no thread has taken yet."""
        return self._jobs.qsize()

    def run(self, context: contextvars.Context, job: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Run `job(*arguments)` in `context` in a thread."""
        done: asyncio.Future[Any] = self._loop.create_future()
        with self._guard:
            self._untaken += 1
            needs_thread = self._untaken > self._idle and self._started < self._most
            if needs_thread:
                self._started += 1
                self._idle += 1
        self._jobs.put((done, context, job, arguments))
        if needs_thread:
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        return done

    def _work(self) -> None:
        while True:
            done, context, job, arguments = self._jobs.get()
            with self._guard:
                self._untaken -= 1
                self._idle -= 1
            result, error = None, None
            try:
                result = context.run(job, *arguments)
            except Exception as problem:  # noqa: BLE001  (passed on to the event loop)
                error = problem
            with self._guard:
                self._idle += 1  # before the result is known: an answer may bring the next request at once
            with suppress(RuntimeError):  # the loop is closed when the process ends
                self._loop.call_soon_threadsafe(_finish, done, result, error)
            del done, context, job, arguments, result, error  # nothing of a request stays while the thread waits


def _finish(done: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
