"""Several writers at once, each with its own database connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

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
