"""The parameters of a list, declared once: for the reader, the API document, the filters of the page and the
options of the client.

    @dataclass(frozen=True, slots=True)
    class AuditQuery(Page):
        actor: str = parameter(TEXT, "Only what this user did.", label="User", hint="exact name")

The lists are in `pools/domain/lists.py` and `scheduling/domain/lists.py`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pools.domain.structured_input.declared_values import TEXT, TEXTS, ValueKind, value, whole_number
from pools.domain.values.query_values import MAX_FILTER_VALUES, MAX_INTEGER, ORDER_RULE, parse_descending

MAX_ROWS = 1000
FILTER_TEXTS = dataclasses.replace(TEXTS, max_values=MAX_FILTER_VALUES)
"""The values of a filter of which every one costs a search."""
ORDER = dataclasses.replace(
    TEXT, schema={"type": "string", "enum": ["ASC", "DESC"]}, parse=parse_descending, rule=ORDER_RULE
)
"""Whether an order is descending."""


def any_of(kind: type[StrEnum]) -> ValueKind:
    """Any of several members, in any case."""
    members = {str(each): each for each in kind}
    in_any_case = {text.lower(): each for text, each in members.items()}
    schema = {"type": "array", "items": {"type": "string", "enum": list(members)}}
    rule = f"one of {', '.join(members)}"
    return dataclasses.replace(TEXTS, schema=schema, parse=lambda text: in_any_case.get(text.lower()), rule=rule)


def parameter(
    kind: ValueKind,
    help: str,  # noqa: A002  # as in `value`
    *,
    default: Any = None,
    **words: Any,
) -> Any:
    """A value of the query; `dataclasses.MISSING` as its default makes it required. `words` are further ones of
    `DeclaredValue`: `label` and `hint` on the page, `option`, `short` and `metavar` in the client."""
    return value(kind, words.pop("label", ""), help, default=default, in_query=True, **words)


def page_limit(default: int, **words: Any) -> Any:
    """The number of rows of a page."""
    words = {"option": "--limit --count", "short": "-c", **words}
    return parameter(whole_number(1, MAX_ROWS), "The largest number of rows.", default=default, **words)


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a list that the query names."""

    limit: int = page_limit(20)
    offset: int = parameter(
        whole_number(0, MAX_INTEGER), "The number of rows to leave out first.", default=0, short="-f"
    )
