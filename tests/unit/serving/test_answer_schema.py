"""The schema of an answer, from its type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from osmo_admin.api_document.answer_schema import schema_of
from pools.api.rendering import JSONRenderer
from pools.api.schema import DATETIME, UtcText

NAIVE = {"type": "string", "description": "UTC without a zone, as 2026-11-20T11:33:25.000000."}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(TypedDict):
    """What is inside."""

    count: int


class Outer(Inner):
    zone: UtcText | None
    inner: Annotated[Inner | None, "Known later."]
    hint: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class Found:
    """What a selector found."""

    colour: Annotated[Colour, "Of the first."]
    counts: Mapping[str, int]
    names: tuple[str, ...]
    at: datetime | None

    @property
    def title(self) -> str:
        return self.colour.title()


def a_table() -> dict[str, Any]:
    return {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


COLOURS = {"type": "string", "enum": ["red", "blue"]}
INNER = {
    "description": "What is inside.",
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "additionalProperties": False,
    "required": ["count"],
}


@pytest.mark.parametrize(
    ("shape", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (Any, {}),
        (None, {"nullable": True, "enum": [None]}),
        (datetime, DATETIME),
        (UtcText, NAIVE),
        (Annotated[int, "Of GPUs."], {"type": "integer", "description": "Of GPUs."}),
        (Colour, COLOURS),
        (Literal["red", "blue"], COLOURS),
        (Annotated[str, Colour] | None, {**COLOURS, "nullable": True}),
        (float | str | None, {"anyOf": [{"type": "number"}, {"type": "string"}], "nullable": True}),
        (list[Inner], {"type": "array", "items": INNER}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (dict[str, Inner], {"type": "object", "additionalProperties": INNER}),
        (
            Outer,
            {
                "type": "object",
                "properties": {
                    "count": {"type": "integer"},
                    "zone": {**NAIVE, "nullable": True},
                    "inner": {**INNER, "nullable": True, "description": "Known later."},
                    "hint": {"type": "array", "items": {"type": "string"}},
                },
                "additionalProperties": False,
                "required": ["count", "zone", "inner"],
            },
        ),
        (
            Annotated[Inner, a_table],
            INNER
            | {
                "properties": {"size": {"type": "integer"}, "count": {"type": "integer"}},
                "required": ["size", "count"],
            },
        ),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        ({"type": "string"}, {"type": "string"}),
    ],
)
def test_schemas(shape: Any, schema: dict[str, Any]) -> None:
    assert schema_of(shape) == schema


def test_a_dataclass_is_shown_as_its_schema_says() -> None:
    schema = schema_of(Found)
    assert (schema["description"], schema["required"]) == (Found.__doc__, ["colour", "counts", "names", "at"])
    assert schema["properties"] == {
        "colour": {**COLOURS, "description": "Of the first."},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "names": {"type": "array", "items": {"type": "string"}},
        "at": {**DATETIME, "nullable": True},
    }
    found = Found(Colour.RED, {"a": 1}, ("b",), datetime(2026, 11, 28, 20, tzinfo=UTC))
    sent = b'{"colour":"red","counts":{"a":1},"names":["b"],"at":"2026-11-28T20:00:00.000000Z"}'
    assert JSONRenderer().render([found]) == b"[" + sent + b"]"
