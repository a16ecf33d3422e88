"""Descriptions of operations for the OpenAPI file, next to the code of the views.

    @describe_operation("Create a subpool.", query_parameters=[DRY_RUN], body=SUBPOOL_BODY, answer=SUBPOOL)
    def post(self, request: Request, parent: str) -> Response: ...

An answer is a `TypedDict` next to the function that builds it: the builder returns a literal of it, so the type checker
compares the two key by key, and the file gets its schema from the same class
(:mod:`osmo_admin.api_document.answer_schema`). Where a dataclass of a selector has what the answer shows, no more and
under the same names, it is the answer itself.

    class SubpoolAnswer(TypedDict):
        "A subpool with its quota."  # the docstring: the description in the file

        name: str
        quota: Annotated[int, "GPUs that are guaranteed to it."]  # a note, where the name does not say it
        state: Annotated[str, SubpoolState]  # a text, one of these values
        quota_until: UtcText | None
        labels: dict[str, Any]
        spec: Annotated[dict[str, Any], spec_schema]  # a schema, or a function that makes one from a table of keys
        warnings: NotRequired[list[str]]  # not always there

    @describe_operation("Show a subpool.", answer=SubpoolAnswer)  # or list[SubpoolAnswer], or a schema

Errors, headers and path parameters are the same for all operations and added by :mod:`osmo_admin.api_document.openapi`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, TypeVar

Schema = Mapping[str, Any]
Handler = TypeVar("Handler", bound=Callable[..., Any])

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
DATETIME: Schema = {"type": "string", "description": "UTC with its zone, as 2026-11-20T11:33:25.000000Z."}
UtcText = Annotated[str, "UTC without a zone, as 2026-11-20T11:33:25.000000."]
"""A time in an answer that OSMO's clients read, as :func:`pools.api.rendering.utc_text` makes it."""
ZonedText = Annotated[str, DATETIME["description"]]
"""Any other time in an answer, as :func:`pools.api.rendering.zoned_text` makes it."""
NULL: Schema = {"nullable": True, "enum": [None]}
ANY_VALUE: Schema = {}
OBJECT: Schema = {"type": "object", "additionalProperties": True}


def nullable(schema: Schema) -> Schema:
    """The schema, or null."""
    return {**schema, "nullable": True}


def array_of(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def object_with(
    properties: Mapping[str, Schema], *, required: Sequence[str] | None = None, additional: bool = False
) -> Schema:
    """An object with these keys, all required unless `required` names fewer; `additional` keys may follow."""
    needed = list(properties) if required is None else list(required)
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": additional}
    return {**schema, "required": needed} if needed else schema


def without_type_lists(schema: Any) -> Any:
    """A JSON schema in the words of OpenAPI 3.0, which has `nullable` and no lists of types."""
    if not isinstance(schema, Mapping):
        return [without_type_lists(each) for each in schema] if isinstance(schema, list) else schema
    found = {key: without_type_lists(value) for key, value in schema.items()}
    kinds = found.get("type")
    if isinstance(kinds, list):
        if "null" in kinds:
            found["nullable"] = True
        others = [kind for kind in kinds if kind != "null"]
        found |= {"type": others[0]} if len(others) == 1 else {"anyOf": [{"type": kind} for kind in others]}
        if len(others) > 1:
            del found["type"]
    if None in found.get("enum", ()):
        found["nullable"] = True
    return found


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """One parameter of the query; `many` may be repeated."""

    name: str
    schema: Schema
    description: str
    is_list: bool = False
    is_required: bool = False


DRY_RUN = QueryParameter("dry_run", BOOLEAN, "Answer the effect and write nothing.")
REQUEST_APPROVAL = QueryParameter(
    "request_approval", BOOLEAN, "If the change needs the approval of a second person, request it (answer 202)."
)


@dataclass(frozen=True, slots=True)
class describe_operation:  # noqa: N801  # it is used as a decorator
    """Put a description on a handler method. `body` is a JSON schema, `answer` a type or a schema; without them: any
    JSON. `excluded_statuses` are error statuses that the operation never answers, `extra_statuses` are further ones;
    `is_anonymous` means that no login is needed; `text_types` are media types of texts that the operation answers
    instead of `media_type` on request; `status` is the one of success; `details` stand
    below the summary; `has_version`: a caller may name in `If-Match` the version that the object must still have."""

    summary: str
    _: KW_ONLY
    query_parameters: Sequence[QueryParameter] = ()
    body: Schema | None = None
    answer: Any = None
    media_type: str = "application/json"
    is_anonymous: bool = False
    excluded_statuses: Sequence[int] = ()
    extra_statuses: Sequence[int] = ()
    text_types: Sequence[str] = ()
    status: int = 200
    details: str = ""
    has_version: bool = False

    def __call__(self, handler: Handler) -> Handler:
        handler.documentation = self  # type: ignore[attr-defined]  # read by the schema generator
        return handler
