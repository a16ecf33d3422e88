"""Several writers at once, each with its own database connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from django.db import connections

from scheduling.services.kubernetes.leased_loop import LeasedLoop

Result = TypeVar("Result")


def run_concurrently(operations: Sequence[Callable[[], Result]], *, seconds: float = 60) -> list[Result | Exception]:
    """Run all calls at the same moment. Returns, in order, what each returned or raised."""
    gate = threading.Barrier(len(operations))

    def run(call: Callable[[], Result]) -> Result | Exception:
        try:
            gate.wait(seconds)
            return call()
        except Exception as problem:  # noqa: BLE001  (the caller judges each outcome)
            return problem
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(operations)) as pool:
        return [future.result(seconds) for future in [pool.submit(run, call) for call in operations]]


@contextmanager
def held_elsewhere(context: AbstractContextManager[object], *, seconds: float = 60) -> Iterator[Callable[[], None]]:
    """Another thread, with a connection of its own, is inside this context until the block ends, or until the block
    calls what it gets."""
    is_inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with context:
                is_inside.set()
                assert leave.wait(seconds)
        finally:
            connections.close_all()

    def end() -> None:
        leave.set()
        thread.join(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_inside.wait(seconds)
        yield end
    finally:
        end()


@contextmanager
def run_loops(*loops: LeasedLoop) -> Iterator[list[threading.Event]]:
    """These loops run; each stops when its event is set."""
    stops = [threading.Event() for _ in loops]

    def live(loop: LeasedLoop, stop: threading.Event) -> None:
        try:
            loop.run(stop)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=live, args=pair, daemon=True) for pair in zip(loops, stops, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield stops
    finally:
        for stop, loop in zip(stops, loops, strict=True):
            stop.set()
            loop.wake()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
