"""Counts the SQL statements of a piece of work in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def counted_statements() -> Iterator[Callable[[], int]]:
    """Yields a function that gives the number of statements so far."""
    count = 0

    def counting(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal count
        count += 1
        return execute(*arguments)

    with connection.execute_wrapper(counting):
        yield lambda: count
