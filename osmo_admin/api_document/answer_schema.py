"""The JSON schema of an answer, from the type that its builder returns; read only when the OpenAPI file is made."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum, EnumType
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from drf_spectacular.plumbing import resolve_type_hint

from pools.api.schema import DATETIME, NULL, NUMBER, array_of, nullable, object_with, without_type_lists
from pools.domain.errors import Fault


def schema_of(shape: Any) -> dict[str, Any]:
    """The schema of a type (see :mod:`pools.api.schema`); a schema is returned as it is.

    The resolver of drf-spectacular reads literals and simple types. It does not know `Annotated`, loses `NotRequired`
    where annotations are texts, and names required keys in no fixed order, so the rest is read here.
    """
    if isinstance(shape, Mapping):
        return dict(without_type_lists(shape))
    if isinstance(shape, FunctionType):  # of a schema from a table
        return schema_of(shape())
    if is_typeddict(shape) or is_dataclass(shape):
        return _object_schema(shape)
    origin, args = get_origin(shape), get_args(shape)
    if origin is Annotated:
        schema = schema_of(args[0])
        for note in args[1:]:  # a description, the type of the values, or the schema of more keys
            more: dict[str, Any] = {"description": note} if isinstance(note, str) else schema_of(note)
            for key in {"properties", "required"} & schema.keys() & more.keys():
                more[key] = [*more[key], *schema[key]] if key == "required" else {**more[key], **schema[key]}
            schema |= more
        return schema
    if origin in (Union, UnionType):
        kinds = [schema_of(each) for each in args if each is not NoneType]
        schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return dict(nullable(schema)) if NoneType in args else schema
    if shape is Fault:  # long, and a part of many answers
        return {"$ref": "#/components/schemas/Fault"}
    if isinstance(shape, EnumType):
        return {"type": "string", "enum": [each.value for each in list[Enum](shape)]}
    if origin in (list, tuple, Sequence):
        return dict(array_of(schema_of(args[0])))
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": True if args[1] is Any else schema_of(args[1])}
    known = {datetime: DATETIME, float: NUMBER, NoneType: NULL, None: NULL}
    return dict(known[shape] if shape in known else resolve_type_hint(shape))  # type: ignore[no-untyped-call]


def _object_schema(shape: Any) -> dict[str, Any]:
    """An object with the keys of a `TypedDict` or the fields of a dataclass, and no others."""
    hints = get_type_hints(shape, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    required = [name for name in hints if name in getattr(shape, "__required_keys__", hints) and name not in optional]
    properties = {name: schema_of(get_args(hint)[0] if name in optional else hint) for name, hint in hints.items()}
    described = {"description": inspect.cleandoc(shape.__doc__)} if shape.__doc__ else {}
    return described | dict(object_with(properties, required=required))
