"""The query of a request, declared once: for the reader, which finds all faults at once, and for the API document.

@dataclass(frozen=True, slots=True)
class UsageQuery(Page):
    since: datetime | None = asked(TIME, "From this time on (UTC).")
    by: UsageKey = asked(choice(UsageKey), "What a row is about; by default pool.", default=UsageKey.POOL)

@describe_operation("Show what was used.", query_parameters=parameters_of(UsageQuery), answer=UsageAnswer)
def get(self, request: Request) -> Response:
    query = read_query(UsageQuery, request)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

from rest_framework.request import Request

from pools.api.schema import LIMIT, OFFSET, QueryParameter
from pools.domain.changes.command import TEXTS, ChangeField, ValueKind, query_fields, whole_number
from pools.domain.errors import BadInput, Violation
from pools.domain.query_values import MAX_FILTER_VALUES, MAX_INTEGER

QueryT = TypeVar("QueryT")
MAX_ROWS = 1000
FILTER_TEXTS = dataclasses.replace(TEXTS, max_values=MAX_FILTER_VALUES)
"""The values of a filter of which every one costs a search."""
_OF_JSON_ALONE = ("description", "nullable")


def asked(kind: ValueKind, help: str, *, default: Any = None) -> Any:  # noqa: A002  # as in `command.value`
    """A value of the query; `dataclasses.MISSING` as its default makes it required."""
    about = ChangeField(kind, "", help, in_query=True, is_required=default is dataclasses.MISSING)
    return dataclasses.field(default=default, metadata={"about": about})


def page_limit(default: int) -> Any:
    """The number of rows of a page."""
    return asked(whole_number(1, MAX_ROWS), LIMIT.description, default=default)


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that is asked for."""

    limit: int = page_limit(20)
    offset: int = asked(whole_number(0, MAX_INTEGER), OFFSET.description, default=0)


def read_query(kind: type[QueryT], request: Request) -> QueryT:
    """The question of a request. Raises BadInput with every fault."""
    return kind(**read_values(kind, request))


def read_values(kind: type[Any], request: Request, **defaults: Any) -> dict[str, Any]:
    """What the query of a question or a change holds; `defaults` count before those of the declaration. Raises BadInput
    with every fault."""
    faults: list[Violation] = []
    found = {each.name: each.default for each in dataclasses.fields(kind)} | defaults
    about_query = query_fields(kind)
    for name, about in about_query.items():
        texts = [text for text in request.query_params.getlist(name) if text]
        if texts:
            found[name] = _read(name, about.kind, texts, faults)
        elif about.is_required:
            faults.append(Violation(name, "missing", f"{name} {about.missing}"))
    if faults:
        raise BadInput.of(faults)
    return {name: found[name] for name in about_query}


def _read(name: str, kind: ValueKind, texts: list[str], faults: list[Violation]) -> Any:
    if kind.schema.get("type") != "array":  # as Django reads a name that is given twice, the last text counts
        value = kind.parse(texts[-1])
        if value is None:
            faults.append(Violation(name, "bad_query", f"{name}: give {kind.rule}."))
        return value
    if kind.max_values is not None and len(texts) > kind.max_values:
        message = f"{name} is given {len(texts)} times: give at most {kind.max_values}."
        faults.append(Violation(name, "bad_query", message))
    return texts


def parameters_of(kind: type[Any]) -> tuple[QueryParameter, ...]:
    """What stands in the query of a question or a change, for the API document."""
    return tuple(_parameter(name, about) for name, about in query_fields(kind).items())


def _parameter(name: str, about: ChangeField) -> QueryParameter:
    schema = about.kind.schema
    is_list = schema.get("type") == "array"
    shown = schema["items"] if is_list else {key: schema[key] for key in schema if key not in _OF_JSON_ALONE}
    return QueryParameter(name, shown, about.sentence, is_list, about.is_required)
