"""The columns of a list, declared once for its page, its CSV file and the client.

    TOKEN_COLUMNS = list_columns(Column("name", cell="token_name"), "description", Column("gpus", "GPUs"))

The lists are in `pools/domain/list_columns.py` and `scheduling/domain/list_columns.py`. A page picks columns with the
tag `list_heads`, the client with :func:`pick`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.numbers import NamedNumber


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `key` is its name in the file, and `value` reads its cell there; None: the file does not have it.

    `label` is its heading on the page and in the client: None is the key as words, "" a column of the file only.
    `meaning` is the tooltip. `published` is the heading in the client where OSMO's own client has another one. `cell`
    is what the client shows of a row of the JSON answer: a key, a function, or "" for `key`; times are shown as local
    times. `field` sorts the list by it as `?sort=SORT`; an `is_extra` column is left out where the table is
    wider than its place; the client wraps the cells of one that `is_sentence`. `parts` names the numbers of one cell
    of the client, each a column of its file.
    """

    key: str
    label: str | None = None
    value: Callable[[Any], Any] | None = None
    field: Any = None
    sort: str = ""
    meaning: str = ""
    is_right: bool = False
    is_extra: bool = False
    cell: str | Callable[[Mapping[str, Any]], Any] = ""
    is_time: bool = False
    published: str = ""
    parts: str = ""
    is_sentence: bool = False

    @property
    def heading(self) -> str:
        """The label, from the key if none is given."""
        return self.key.replace("_", " ").capitalize() if self.label is None else self.label


def number_column(
    number: NamedNumber,
    value: Callable[[Any], Any] | None = None,
    field: Any = None,
    sort: str = "",
    *,
    is_extra: bool = False,
) -> Column:
    """The column of a number of :mod:`pools.domain.numbers`; its key is the label with underscores."""
    key = number.label.lower().replace(" ", "_")
    return Column(key, number.label, value, field, sort, number.meaning, is_right=True, is_extra=is_extra)


def list_columns(*columns: Column | str) -> dict[str, Column]:
    """The columns of a list, by their keys. A text is a column of which nothing but the key is said."""
    named = (Column(each) if isinstance(each, str) else each for each in columns)
    return {each.key: each for each in named}


def with_flavor(columns: Iterable[Column], rows: Iterable[Mapping[str, Any]]) -> list[Column]:
    """The columns without that of the flavors, unless a row has one."""
    is_named = any("flavor" in row for row in rows)
    return [each for each in columns if is_named or each.key != "flavor"]


def pick(columns: Mapping[str, Column], keys: str) -> list[Column]:
    """Some columns of a list in the order of `keys`, which have spaces between them."""
    return [columns[key] for key in keys.split()]
