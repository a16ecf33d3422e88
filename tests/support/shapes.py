"""Whether an answer has the keys and the types of its shape."""

from __future__ import annotations

from typing import Any

import jsonschema

from osmo_admin.api_document.answer_schema import schema_of
from osmo_admin.api_document.openapi import COMPONENTS


def assert_has_shape(answer: Any, shape: Any) -> None:
    """Compare an answer with the schema that its type gives: every key, no other, each of its type."""
    jsonschema.validate(answer, _with_null(schema_of(shape)) | {"components": COMPONENTS})


def _with_null(schema: Any) -> Any:
    """JSON schema has no `nullable`."""
    if isinstance(schema, list):
        return [_with_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: _with_null(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [own, {"type": "null"}]} if schema.get("nullable") is True else own
