"""The reader of a declared query (:mod:`pools.domain.questions`), and its words in the API document."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from rest_framework.request import Request

from pools.api.schema import QueryParameter
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.structured_input.declared_values import DeclaredValue, ValueKind, query_fields

QueryT = TypeVar("QueryT")
_OF_JSON_ALONE = ("description", "nullable")


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
            faults.append(Violation(name, Fault.MISSING, f"{name} {about.missing}"))
    if faults:
        raise BadInput.of(faults)
    return {name: found[name] for name in about_query}


def _read(name: str, kind: ValueKind, texts: list[str], faults: list[Violation]) -> Any:
    if not kind.is_list:  # as Django reads a name that is given twice, the last text counts
        value = kind.parse(texts[-1])
        if value is None:
            faults.append(Violation(name, Fault.BAD_QUERY, f"{name}: give {kind.rule}."))
        return value
    if kind.max_values is not None and len(texts) > kind.max_values:
        message = f"{name} is given {len(texts)} times: give at most {kind.max_values}."
        faults.append(Violation(name, Fault.BAD_QUERY, message))
    return texts


def parameters_of(kind: type[Any]) -> tuple[QueryParameter, ...]:
    """What stands in the query of a question or a change, for the API document."""
    return tuple(_parameter(name, about) for name, about in query_fields(kind).items())


def _parameter(name: str, about: DeclaredValue) -> QueryParameter:
    schema, is_list = about.kind.schema, about.kind.is_list
    shown = schema["items"] if is_list else {key: schema[key] for key in schema if key not in _OF_JSON_ALONE}
    sentence = f"{about.sentence} In UTC." if about.kind.looks == "time" else about.sentence
    return QueryParameter(name, shown, sentence, is_list, about.is_required)
