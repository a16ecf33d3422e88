"""Reading requests (design, A1): bodies, queries, versions. Every fault is a domain error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.http import HttpRequest
from rest_framework import parsers
from rest_framework.request import Request

from pools.domain.errors import BadInput, Fault, Stale, Violation
from pools.domain.structured_input import Faults, FieldReader, join_words, shorten
from pools.domain.values.query_values import (
    BOOLEAN_RULE,
    parse_boolean,
)
from pools.domain.values.stored_text import are_storable

Value = TypeVar("Value")
Unwrapped = tuple[dict[str, Any], str, list[str] | None]
Unwrap = Callable[[Request, list[Violation]], Unwrapped]
"""The keys, the reason and the tags of a request; faults of the last two are noted."""


class JSONParser(parsers.BaseParser):
    """The body as JSON whatever the content type says (clients send `application/json` even without a body); an empty
    body counts as none. NaN, infinities, duplicate keys and depth bombs are refused like any other bad JSON."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        # Reading through `body` keeps the bytes: the check of an Idempotency-Key needs them again.
        return parse_json(stream.body if isinstance(stream, HttpRequest) else stream.read())


def parse_json(text: bytes) -> Any:
    """A body as JSON; raises BadInput."""
    if not text.strip():
        return {}
    try:
        decoded = text.decode("utf-8")
        data = json.loads(decoded, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        if _SUSPECT.search(decoded):
            _refuse_unstorable(data)
    except (ValueError, RecursionError) as error:
        fault = _PLAIN_FAULTS.get(type(error), str(error))
        raise BadInput(f"The body is not valid JSON: {fault}", [Violation("", Fault.BAD_JSON, fault)]) from None
    else:
        return data


_SUSPECT = re.compile(
    r"\\u(0000|d[89a-f])", re.IGNORECASE
)  # PostgreSQL cannot store these characters; JSON can write them only as these escapes


_PLAIN_FAULTS: dict[type[Exception], str] = {
    RecursionError: "objects and lists are nested too deeply",
    UnicodeDecodeError: "the bytes are not UTF-8",
}


def _refuse_unstorable(data: Any) -> None:
    if not are_storable(data):
        raise ValueError("a text holds a NUL character or half of a surrogate pair")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return found


def query_boolean(request: Request, name: str) -> bool:
    """The boolean of a query parameter."""
    return bool(_query_value(request, name, parse_boolean, BOOLEAN_RULE))


def _query_value(request: Request, name: str, parse: Callable[[str], Value | None], rule: str) -> Value | None:
    text = request.query_params.get(name)
    if not text:
        return None
    found = parse(text)
    if found is None:
        raise BadInput.of([Violation(name, Fault.BAD_QUERY, f"{name}: give {rule}.")])
    return found


def unknown_parameters(given: Iterable[str], known: Collection[str]) -> list[Violation]:
    """A fault for each name of a query that is not among the known ones; values are not shown."""
    faults = Faults()
    for name in given:
        if name not in known:
            allowed = f"Allowed are {join_words(known)}." if known else "It has no parameters: leave it out."
            subject = f"{shorten(name)} is not a parameter of this address."
            faults.add(shorten(name), Fault.UNKNOWN_PARAMETER, f"{subject}{faults.suggestion(name, known)} {allowed}")
    return faults.violations


def repeated_parameters(given: Iterable[tuple[str, Sequence[str]]], single: Collection[str]) -> list[Violation]:
    """A fault for each name of a query that is given more than once and read only once (`single`)."""
    return [
        Violation(
            name, Fault.REPEATED_PARAMETER, f"{name} is given {len(texts)} times, and this address reads it once."
        )
        for name, texts in given
        if name in single and len(texts) > 1
    ]


def keep_last_texts(request: Request, names: Iterable[str]) -> None:
    """Let every reader of the query find the same text of a name that is given more than once: the last one that is
    not empty."""
    query = request.query_params.copy()
    for name in names:
        texts = query.getlist(name)
        query[name] = next((text for text in reversed(texts) if text), "")
    request._request.GET = query  # type: ignore[assignment]


def body_object(request: Request) -> dict[str, Any]:
    """The body, which must be an object (an absent one is empty)."""
    if not isinstance(request.data, dict):
        raise BadInput(
            "The body must be a JSON object.", [Violation("", Fault.BAD_VALUE, "The body must be a JSON object.")]
        )
    return dict(request.data)


class BodyReader(FieldReader):
    """An object in the body of a request. Every change takes `description` and `tags` in addition to its own keys."""

    def __init__(self, body: Mapping[str, Any], path: str = "", faults: Faults | list[Violation] | None = None) -> None:
        super().__init__(body, path, [] if faults is None else faults)

    def reject_unknown_keys(self, known: Collection[str], ignored: Collection[str] = ("description", "tags")) -> None:
        super().reject_unknown_keys(known, ignored)

    def any_text(self, key: str) -> str:
        """A text of any length, for keys whose length is checked elsewhere."""
        return self.field(key).text() or "" if self.is_given(key) else ""

    @property
    def description(self) -> str:
        """The reason for the change."""
        return self.any_text("description")

    def raise_faults(self, **options: Any) -> None:
        """Raise BadInput with all faults, if there are any."""
        if self.faults.violations:
            raise BadInput.of(self.faults.violations, **options)


def unwrap_body(
    request: Request, faults: list[Violation] | None = None, *, wrappers: Iterable[str] = ("configs", "configs_dict")
) -> tuple[dict[str, Any], str, list[str] | None]:
    """(keys, description, tags) of a configuration write: plain, or inside `configs` / `configs_dict`. Faults of
    description and tags are noted in `faults`, for those who read the keys, or else raised."""
    body = body_object(request)
    notes = BodyReader({"description": body.pop("description", None), "tags": body.pop("tags", None)}, faults=faults)
    description, tags = notes.description, notes.read_texts("tags") if notes.is_given("tags") else None
    if wrapper := next((name for name in wrappers if name in body), None):
        outer = BodyReader(body, faults=notes.faults)
        outer.reject_unknown_keys((wrapper,))
        inner = outer.nested(wrapper)
        if inner is None and not outer.is_given(wrapper):
            outer.add_fault(wrapper, Fault.BAD_VALUE, "must be an object.")
        if inner is None:
            notes.raise_faults()
        body = {} if inner is None else dict(inner.body)
    if faults is None:
        notes.raise_faults()
    return body, description, tags


def unwrap_as(field: str, read: Unwrap = unwrap_body) -> Unwrap:
    """The reader of a body that is the value of one field of its change."""

    def unwrap(request: Request, faults: list[Violation]) -> Unwrapped:
        body, description, tags = read(request, faults)
        return {field: body}, description, tags

    return unwrap


def unwrap_without(*keys: str) -> Unwrap:
    """The reader of a body that may be an answer of GET, which has these keys, too."""

    def unwrap(request: Request, faults: list[Violation]) -> Unwrapped:
        body, description, tags = unwrap_body(request, faults)
        return {key: given for key, given in body.items() if key not in keys}, description, tags

    return unwrap


def reject_unknown_keys(body: dict[str, Any], *known: str) -> None:
    """Refuse keys that this endpoint does not know, all at once."""
    reader = BodyReader(body)
    reader.reject_unknown_keys(known, ())
    reader.raise_faults()


def expected_version(request: Request) -> int | None:
    """The version of `If-Match` (quoted, or `*`); None if any version will do. Raises Stale for a text that is not a
    version."""
    value = request.headers.get("If-Match", "").strip()
    if value in {"", "*"}:
        return None
    inner = value.removeprefix("W/").strip('"')
    if not (value.startswith(('"', "W/")) and inner.isascii() and inner.isdigit() and len(inner) < 10):
        message = "If-Match is not a version of this object. Read the object again and send its ETag."
        raise Stale(message, [Violation("If-Match", Fault.STALE, message)])
    return int(inner)


def etag_header(version: int) -> dict[str, str]:
    """The header that carries a version."""
    return {"ETag": f'"{version}"'}
