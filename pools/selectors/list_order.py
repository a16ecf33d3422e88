"""The order of a list, from `?sort=COLUMN` (ascending) or `?sort=-COLUMN` (descending) in its address, and the part of
it that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import F, QuerySet
from django.db.models.expressions import OrderBy

from pools.domain.columns import Column
from pools.representations.page_parameters import read_choice

SORT_PARAMETER = "sort"
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ListOrder:
    """The sorted column of a list, by its key in the address, and the expressions for `QuerySet.order_by`."""

    key: str
    is_descending: bool
    expressions: tuple[OrderBy | str, ...]


def read_list_order(
    parameters: Mapping[str, str], columns: Mapping[str, Column], *, default: str, **orders: Any
) -> ListOrder:
    """The order that the parameters of an address ask for (`request.GET`). `default` is the `sort` of a column,
    with `-` in front for descending; `orders` are the expressions of columns that are not fields, by their `sort`. An
    unknown key counts as the default, and the page says so. Missing values come last, and rows with equal values are in
    the order of their primary keys, so that pages do not overlap.
    """
    fields = {column.sort: column.field for column in columns.values() if column.sort} | orders
    sort = read_choice(parameters, SORT_PARAMETER, [*fields, *(f"-{field}" for field in fields)], default)
    key, is_descending = sort.removeprefix("-"), sort.startswith("-")
    field = fields[key]
    expression = F(field) if isinstance(field, str) else field
    ordered = OrderBy(expression, descending=is_descending, nulls_last=True)
    return ListOrder(key, is_descending, (ordered, "-pk" if is_descending else "pk"))


def read_part(rows: QuerySet[Any, Row], *, limit: int, offset: int) -> tuple[list[Row], bool]:
    """At most `limit` of these rows, and whether more follow. One query, which counts nothing."""
    found = list(rows[offset : offset + limit + 1])
    return found[:limit], len(found) > limit
