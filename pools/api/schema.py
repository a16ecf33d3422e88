"""What a view says of itself for the OpenAPI file, beside the code it speaks of.

    @documented("Cut a new slice.", query=[DRY_RUN], body={"subpool_name": TEXT, "quota": QUOTA}, answer=SUBPOOL)
    def post(self, request: Request, parent: str) -> Response: ...

Refusals, headers and path parameters are the same for everybody and added by :mod:`osmo_admin.schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Schema = Mapping[str, Any]
Handler = TypeVar("Handler", bound=Callable[..., Any])

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "description": "UTC without a zone, as 2026-11-20T11:33:25.000000."}
NULL: Schema = {"nullable": True, "enum": [None]}
ANYTHING: Schema = {}
OBJECT: Schema = {"type": "object", "additionalProperties": True}


def nullable(schema: Schema) -> Schema:
    """The schema, or null."""
    return {**schema, "nullable": True}


def array(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def fields(properties: Mapping[str, Schema], *, required: Sequence[str] | None = None, more: bool = False) -> Schema:
    """An object with these keys, all there unless `required` names fewer; `more` keys may follow."""
    needed = list(properties) if required is None else list(required)
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": more}
    return {**schema, "required": needed} if needed else schema


@dataclass(frozen=True, slots=True)
class Query:
    """One parameter of the query; `many` may be repeated."""

    name: str
    schema: Schema
    about: str
    many: bool = False
    required: bool = False


DRY_RUN = Query("dry_run", BOOLEAN, "Answer the effect and write nothing.")
LIMIT = Query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "How many at most.")
OFFSET = Query("offset", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "How many to leave out first.")
INCLUDE_ARCHIVED = Query("include_archived", BOOLEAN, "Show what is archived, too.")
DRY_RUN_ANSWER = fields(
    {
        "dry_run": BOOLEAN,
        "before": ANYTHING,
        "after": ANYTHING,
        "violations": array(OBJECT),
        "draining": array(TEXT),
        "may_be_reclaimed": array(TEXT),
        "may_be_reclaimed_elsewhere": WHOLE,
        "could_start": array(TEXT),
        "could_start_elsewhere": WHOLE,
        "could_no_longer_start": array(TEXT),
        "could_no_longer_start_elsewhere": WHOLE,
    },
    more=True,  # a pool's and a cohort's tell the debts, too
)


@dataclass(frozen=True, slots=True)
class Documentation:
    """What :func:`documented` keeps on a handler. `media` is the type of the answer, `anonymous` needs no login;
    `unlike` names statuses of the house that this operation never gives."""

    summary: str
    query: tuple[Query, ...] = ()
    body: Schema | None = None
    answer: Schema | None = None
    media: str = "application/json"
    anonymous: bool = False
    unlike: tuple[int, ...] = ()
    more: tuple[int, ...] = ()


def documented(
    summary: str,
    *,
    query: Sequence[Query] = (),
    body: Schema | None = None,
    answer: Schema | None = None,
    media: str = "application/json",
    anonymous: bool = False,
    unlike: Sequence[int] = (),
    more: Sequence[int] = (),
) -> Callable[[Handler], Handler]:
    """Put a description on a handler method. `body` and `answer` are JSON schemas; none means any JSON."""

    def mark(handler: Handler) -> Handler:
        handler.documentation = Documentation(  # type: ignore[attr-defined]  # read by the schema generator
            summary, tuple(query), body, answer, media, anonymous, tuple(unlike), tuple(more)
        )
        return handler

    return mark
