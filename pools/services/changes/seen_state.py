"""The state that a person saw before they confirmed, compared once more by the service when it holds its locks: of two
people who confirm at the same moment, the second one is shown what the first one changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pools.domain.errors import Stale

_is_as_seen: ContextVar[Callable[[], bool] | None] = ContextVar("is_as_seen", default=None)


def mark_of(state: object) -> str:
    """A short text that is another one where these values of JSON differ."""
    text = json.dumps(state, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@contextmanager
def confirming_seen(seen: str, read_mark: Callable[[], str]) -> Iterator[None]:
    """Inside, a person who saw the state of the mark `seen` changes it; `read_mark` reads the present mark."""
    token = _is_as_seen.set(lambda: read_mark() == seen)
    try:
        yield
    finally:
        _is_as_seen.reset(token)


def require_as_seen() -> None:
    """Raise Stale if the state is not the one that was seen. A service calls this when it holds its locks, before it
    writes; the services that it calls itself compare no more."""
    is_as_seen = _is_as_seen.get()
    _is_as_seen.set(None)
    if is_as_seen is not None and not is_as_seen():
        raise Stale("This was changed meanwhile. Read the preview again.")
