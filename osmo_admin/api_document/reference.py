"""The OpenAPI document as pages: the operations by their tag, and the tables of one operation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from osmo_admin.api_document.openapi_views import render_openapi

MAX_DEPTH = 5
"""How deep the keys of a body are listed; what is below is named by its type."""

SHOWN_KEYS = 4
"""The keys of an example of a body that requires none."""

_SHARED = "#/components/"
_BOOLEANS = {"True", "False", "true", "false"}


@dataclass(frozen=True, slots=True)
class Key:
    """A parameter, or a key of a body by its path: `entries[].time`."""

    name: str
    kind: str
    text: str
    is_required: bool
    place: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status that is no success, and when it is answered."""

    status: str
    text: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one address."""

    name: str
    method: str
    path: str
    summary: str
    text: str
    tag: str
    needs_login: bool
    parameters: tuple[Key, ...]
    body: tuple[Key, ...]
    answer_kind: str
    answer: tuple[Key, ...]
    refusals: tuple[Refusal, ...]
    example: str

    @property
    def words(self) -> str:
        """What a filter looks in."""
        return f"{self.method} {self.path} {self.summary}".lower()


@dataclass(frozen=True, slots=True)
class Reference:
    """The whole document. `groups`: the operations of each tag, in the order of the document."""

    text: str
    groups: Mapping[str, tuple[Operation, ...]]

    @property
    def operations(self) -> dict[str, Operation]:
        """By their names."""
        return {each.name: each for group in self.groups.values() for each in group}


@cache
def read_reference() -> Reference:
    """The document of this version, read once in a process."""
    document: dict[str, Any] = json.loads(render_openapi("json"))
    schemas = Schemas(document["components"])
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, body in methods.items():
            operation = _operation(schemas, method.upper(), path, body)
            groups.setdefault(operation.tag, []).append(operation)
    return Reference(document["info"]["description"], {tag: tuple(each) for tag, each in groups.items()})


def _operation(schemas: Schemas, method: str, path: str, body: Mapping[str, Any]) -> Operation:
    success = next(iter(sorted(body["responses"].items())))[1]
    answer = _json_schema(success)
    sent = _json_schema(body.get("requestBody", {}))
    refusals = [(status, schemas.resolve(each)) for status, each in body["responses"].items() if status >= "400"]
    return Operation(
        name=body["operationId"],
        method=method,
        path=path,
        summary=body.get("summary", ""),
        text=body.get("description", ""),
        tag=body["tags"][0],
        needs_login=bool(body.get("security")),
        parameters=tuple(
            Key(
                each["name"],
                schemas.kind(each["schema"]),
                each.get("description", ""),
                each.get("required", False),
                each["in"],
            )
            for each in body.get("parameters", ())
        ),
        body=_distinct(schemas.keys(sent)),
        answer_kind=schemas.kind(answer) if answer else success.get("description", ""),
        answer=_distinct(schemas.keys(answer)),
        refusals=tuple(Refusal(status, each["description"]) for status, each in refusals),
        example=json.dumps(schemas.example(sent), ensure_ascii=False) if sent else "",
    )


def _distinct(keys: Iterable[Key]) -> tuple[Key, ...]:
    """The first key of each path: the forms of an answer share some."""
    found: dict[str, Key] = {}
    for each in keys:
        found.setdefault(each.name, each)
    return tuple(found.values())


def _json_schema(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the JSON of a body or an answer; empty without one."""
    found: Mapping[str, Any] = part.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _types(schema: Mapping[str, Any]) -> list[str]:
    """The types of a schema, which has one, several or none."""
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(found)


@dataclass(frozen=True, slots=True)
class Schemas:
    """Reads schemas; a reference is to one of the shared `components`."""

    components: Mapping[str, Any]

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A shared part in place of the reference to it."""
        if "$ref" not in schema:
            return schema
        kind, _, name = schema["$ref"].removeprefix(_SHARED).partition("/")
        shared: Mapping[str, Any] = self.components[kind][name]
        return shared

    def kind(self, schema: Mapping[str, Any]) -> str:
        """The type in words: `string`, `list of integer`, `"a" or "b"`."""
        if "$ref" in schema:
            name: str = schema["$ref"].rpartition("/")[2]
            return name
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            kind = " or ".join(dict.fromkeys(self.kind(each) for each in choices))
        elif _BOOLEANS.issuperset(map(str, schema.get("enum", (None,)))):
            kind = "boolean"
        elif "enum" in schema:
            kind = " or ".join(json.dumps(each) for each in schema["enum"])
        elif schema.get("type") == "array":
            kind = f"list of {self.kind(schema.get('items', {}))}"
        else:
            kind = " or ".join(_types(schema)) or "any value"
        return f"{kind} or null" if schema.get("nullable") and "null" not in kind else kind

    def keys(self, schema: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[Key]:
        """The keys of an object, with those of the objects and lists in it."""
        schema = self.resolve(schema)
        if schema.get("type") == "array":
            yield from self.keys(schema.get("items", {}), f"{prefix}[]", depth)
        for choice in schema.get("anyOf") or schema.get("oneOf") or ():
            if "$ref" not in choice:
                yield from self.keys(choice, prefix, depth)
        if depth >= MAX_DEPTH:
            return
        required = schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            path = f"{prefix}.{name}" if prefix else name
            yield Key(path, self.kind(each), each.get("description", ""), name in required)
            if "$ref" not in each:
                yield from self.keys(each, path, depth + 1)

    def example(self, schema: Mapping[str, Any], *, is_whole: bool = True) -> Any:
        """A value with the keys that are required; the whole body with its first keys, if it requires none."""
        schema = self.resolve(schema)
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            return self.example(choices[0], is_whole=is_whole)
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("type") == "object":
            properties = schema.get("properties", {})
            names = schema.get("required") or (list(properties)[:SHOWN_KEYS] if is_whole else ())
            return {name: self.example(properties.get(name, {}), is_whole=False) for name in names}
        examples: Mapping[str, Any] = {"array": [], "integer": 1, "number": 1, "boolean": True, "string": "…"}
        return examples.get(next(iter(_types(schema)), ""), "…")
