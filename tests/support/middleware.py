"""The middleware, built once in each process of the tests, as in a served process. Each `Client()` builds it anew, in
2 ms, and in longer than many a request takes with the list of a few hundred static files from the disk."""

from __future__ import annotations

from operator import is_
from typing import Any

from django.conf import settings
from django.test.client import ClientHandler


def build_middleware_once() -> None:
    """From now on each new client takes the middleware of the last one that had the same settings."""
    build: Any = ClientHandler.load_middleware
    last: tuple[list[Any], dict[str, Any]] = [], {}

    def take_built(self: ClientHandler, is_async: bool = False) -> None:
        nonlocal last
        current = [settings._wrapped, *vars(settings._wrapped).values()]
        if len(current) != len(last[0]) or not all(map(is_, current, last[0])):
            before = set(vars(self))
            build(self, is_async)
            last = current, {name: value for name, value in vars(self).items() if name not in before}
        vars(self).update(last[1])

    ClientHandler.load_middleware = take_built
