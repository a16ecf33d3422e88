"""Work on many rows, of which one may meet an error that nobody foresaw: the others go on.

Where the connection to the database is lost, every row would meet the same error; then the run ends, and the next one
begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from django.db import connection
from prometheus_client import Counter

from pools.database.driver import is_in_transaction
from pools.database.errors import is_database_away
from pools.domain.errors import Busy

logger = logging.getLogger(__name__)

Row = TypeVar("Row")

_FAULTS = Counter(
    "osmo_row_faults", "Rows that background work left out for an unforeseen error, while it went on.", ["work"]
)


@contextmanager
def left_out_on_error(work: str, row: object = "") -> Iterator[None]:
    """Let an error of the block concern this row alone: it is logged with its stack trace, and counted by `work`. A row
    that is busy is neither, because it is tried again anyway. Raises the error where the database connection is lost.
    Not for use inside a transaction, which an error of the database would end."""
    try:
        yield
    except Exception as error:
        if (isinstance(error, Busy) or is_database_away(error)) and _is_connection_lost():
            raise
        if isinstance(error, Busy):
            logger.info("%s waits: %s", _title(work, row), error.message)
        else:
            note_left_out(work, row, error)


def note_left_out(work: str, row: object, error: Exception) -> None:
    """Log the error for which a row was left out, with its stack trace, and count it by `work`."""
    _FAULTS.labels(work).inc()
    logger.error("%s is left out for an unforeseen error; the others go on", _title(work, row), exc_info=error)


def _title(work: str, row: object) -> str:
    return f"{work}: {row}" if row else work


def work_in_batch(work: str, rows: Sequence[Row], operation: Callable[[Sequence[Row]], int]) -> int:
    """Call `operation` with all rows at once, as one transaction; where that fails, with each row alone, so that one of
    them does not stop the others. Returns the sum of the results."""
    try:
        return operation(rows)
    except Exception:
        if _is_connection_lost():
            raise
    total = 0
    for row in rows:
        with left_out_on_error(work, row):
            total += operation([row])
    return total


def _is_connection_lost() -> bool:
    return not is_in_transaction() and not connection.is_usable()
