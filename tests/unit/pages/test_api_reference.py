"""The schemas of the OpenAPI document as rows of a table and as an example."""

from __future__ import annotations

from typing import Any

import pytest

from osmo_admin.api_document.reference import Schemas

COMPONENTS = {"schemas": {"Error": {"type": "object", "properties": {"code": {"type": "string"}}}}}
NODES: dict[str, Any] = {
    "type": "object",
    "required": ["nodes"],
    "properties": {
        "nodes": {
            "type": "array",
            "items": {"type": "object", "properties": {"gpus": {"type": "integer", "description": "Its GPUs."}}},
        },
        "last": {"type": "string", "nullable": True},
    },
}


def test_keys_have_their_path_their_type_and_whether_they_are_required() -> None:
    found = [(each.name, each.kind, each.is_required, each.text) for each in Schemas(COMPONENTS).keys(NODES)]
    assert found == [
        ("nodes", "list of object", True, ""),
        ("nodes[].gpus", "integer", False, "Its GPUs."),
        ("last", "string or null", False, ""),
    ]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"$ref": "#/components/schemas/Error"}, "Error"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]}, "string or integer"),
        ({"enum": ["a", None], "nullable": True}, '"a" or null'),
        ({"enum": ["True", "False", "true", "false"]}, "boolean"),
        ({"type": ["string", "integer"]}, "string or integer"),
        ({}, "any value"),
    ],
)
def test_a_type_in_words(schema: dict[str, Any], kind: str) -> None:
    assert Schemas(COMPONENTS).kind(schema) == kind


def test_an_example_has_the_required_keys() -> None:
    assert Schemas(COMPONENTS).example(NODES) == {"nodes": []}


def test_an_example_of_a_body_without_required_keys_has_the_first_ones() -> None:
    inner = {"type": "object", "properties": {"gpus": {"type": "integer"}}}
    body = {"type": "object", "properties": {"name": {"type": ["integer", "string"]}, "size": inner}}
    assert Schemas(COMPONENTS).example(body) == {"name": 1, "size": {}}


def test_keys_that_contain_themselves_end() -> None:
    endless: dict[str, Any] = {"type": "object", "properties": {}}
    endless["properties"]["below"] = endless
    assert len(list(Schemas(COMPONENTS).keys(endless))) < 10
