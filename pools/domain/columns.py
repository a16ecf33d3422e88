"""The columns of a list, declared once for its page and its CSV file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pools.domain.numbers import NamedNumber

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One column. `key` is its name in the file, and `value` reads its cell there; None: only the page has it.

    `label` is its heading on the page, with `meaning` as the tooltip; an empty label: only the file has it. `field`, a
    field or an expression of the database, sorts the list by it as `?sort=SORT`; an `is_extra` column is left out at
    first where the window is narrow.
    """

    key: str
    label: str
    value: Callable[[RowT], Any] | None = None
    field: Any = None
    sort: str = ""
    meaning: str = ""
    is_right: bool = False
    is_extra: bool = False


def number_column(number: NamedNumber, value: Callable[[RowT], Any], field: Any = None, sort: str = "") -> Column[RowT]:
    """The column of a number of :mod:`pools.domain.numbers`; its key is the label with underscores."""
    return Column(number.term.replace(" ", "_"), number.label, value, field, sort, number.meaning, is_right=True)
