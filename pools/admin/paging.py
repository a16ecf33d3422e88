"""Pages of long lists. Rows are not counted, so a list of millions opens as fast as one of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

from pools.selectors.list_order import read_part

ROWS_PER_PAGE = 50
MAX_PAGE_NUMBER = 10_000

ModelRow = TypeVar("ModelRow", bound=Model)


@dataclass(frozen=True, slots=True)
class ListPage(Generic[ModelRow]):
    """One page of a list. `number` counts from 1; `previous` and `next` are 0 if there is no such page."""

    rows: Sequence[ModelRow]
    number: int
    next: int

    @property
    def previous(self) -> int:
        """The page before this one."""
        return self.number - 1


def parse_page_number(value: Any) -> int:
    """The page number in an address; 1 for an invalid one."""
    text = str(value or "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
    return min(max(number, 1), MAX_PAGE_NUMBER)


def paginate(rows: QuerySet[ModelRow], page: Any) -> ListPage[ModelRow]:
    """The requested page; the first for an invalid number. One query."""
    number = parse_page_number(page)
    page_rows, has_next = read_part(rows, limit=ROWS_PER_PAGE, offset=(number - 1) * ROWS_PER_PAGE)
    return ListPage(page_rows, number, number + 1 if has_next else 0)
