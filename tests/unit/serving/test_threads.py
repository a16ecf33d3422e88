"""Threads of the web server start when jobs need them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from queue import Empty
from typing import Any

from osmo_admin.serving.threads import Lane
from tests.support import coroutines


def _name(gate: threading.Barrier | None = None) -> str:
    if gate is not None:
        gate.wait(30)
    return threading.current_thread().name


def _wait(gate: threading.Event) -> str:
    assert gate.wait(40)
    return threading.current_thread().name


def _run(lane_threads: int, *rounds: int) -> list[set[str]]:
    """The names of the threads that served each round of this number of jobs, which wait for each other."""

    async def serve() -> list[set[str]]:
        lane = Lane("request", lane_threads, asyncio.get_running_loop())
        found = []
        for jobs in rounds:
            gate = threading.Barrier(jobs)
            found.append(
                set(await asyncio.gather(*[lane.run(contextvars.Context(), _name, gate) for _ in range(jobs)]))
            )
            await asyncio.sleep(0.05)  # the threads become idle
        return found

    return coroutines.run(serve())


def test_requests_that_follow_each_other_need_one_thread() -> None:
    assert _run(8, 1, 1, 1, 1) == [{"request-1"}] * 4


def test_requests_at_the_same_time_have_a_thread_each() -> None:
    assert _run(8, 3, 3, 1)[:2] == [{"request-1", "request-2", "request-3"}] * 2


def test_no_more_threads_than_allowed_and_every_job_is_done() -> None:
    async def serve() -> list[str]:
        lane = Lane("request", 2, asyncio.get_running_loop())
        jobs = [lane.run(contextvars.Context(), _name) for _ in range(500)]
        return list(await asyncio.gather(*jobs))

    names = coroutines.run(serve())
    assert len(names) == 500
    assert set(names) <= {"request-1", "request-2"}


def test_a_thread_counts_as_idle_only_while_it_waits() -> None:
    """A job comes when the first thread has no other one and does not wait yet. Whether this thread or a new one takes
    the job, each of the next jobs has a thread."""

    async def serve() -> set[str]:
        loop, gate = asyncio.get_running_loop(), threading.Event()
        lane = Lane("request", 8, loop)
        jobs: Any = lane._jobs
        has_come, is_taken, second_waits = threading.Event(), threading.Event(), threading.Event()
        results: list[asyncio.Future[str]] = []

        def submit() -> None:
            results.append(lane.run(contextvars.Context(), _wait, gate))
            has_come.set()

        def wait_for_a_job() -> None:
            if not has_come.is_set() and not jobs.qsize():
                loop.call_soon_threadsafe(submit)
                assert has_come.wait(30)

        class Jobs:
            """The queue of the lane, with this order of events."""

            put, qsize = jobs.put, jobs.qsize

            def get(self) -> Any:
                if threading.current_thread().name == "request-2":
                    second_waits.set()
                else:
                    wait_for_a_job()
                found = jobs.get()
                if has_come.is_set():
                    is_taken.set()
                return found

            def get_nowait(self) -> Any:
                if threading.current_thread().name == "request-2":
                    assert is_taken.wait(30)
                try:
                    return jobs.get_nowait()
                except Empty:
                    wait_for_a_job()
                    raise

        lane._jobs = Jobs()  # type: ignore[assignment]
        await lane.run(contextvars.Context(), _name)
        await loop.run_in_executor(None, is_taken.wait, 30)
        if lane._started > 1:
            await loop.run_in_executor(None, second_waits.wait, 30)
        for _ in range(3):
            submit()
        while lane.waiting():  # each of the four gets a thread although none has ended
            await asyncio.sleep(0.001)
        gate.set()
        return set(await asyncio.gather(*results))

    assert len(coroutines.run(asyncio.wait_for(serve(), 10))) == 4


def test_a_failing_job_ends_no_thread() -> None:
    async def serve() -> list[object]:
        lane = Lane("request", 1, asyncio.get_running_loop())
        jobs = [lane.run(contextvars.Context(), int, text) for text in ("1", "x", "2")]
        return list(await asyncio.gather(*jobs, return_exceptions=True))

    first, fault, last = coroutines.run(serve())
    assert (first, type(fault), last) == (1, ValueError, 2)
