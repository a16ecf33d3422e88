"""The place where traces of calls to a cluster are plugged in. Without a tracer, a call costs one comparison more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

_NO_HEADERS: Mapping[str, str] = {}


class CallTracer(Protocol):
    """Traces one call. The context manager gives the headers that carry the trace to the API server."""

    def __call__(self, verb: str, kind: str, method: str, path: str) -> AbstractContextManager[Mapping[str, str]]: ...


_tracer: CallTracer | None = None


def set_call_tracer(tracer: CallTracer | None) -> None:
    """Trace all calls of this process from now on; None ends it."""
    global _tracer  # noqa: PLW0603  (one for the process, set at its start)
    _tracer = tracer


def traced_call(verb: str, kind: str, method: str, path: str) -> AbstractContextManager[Mapping[str, str]]:
    """The trace of one call, if calls are traced."""
    return nullcontext(_NO_HEADERS) if _tracer is None else _tracer(verb, kind, method, path)
