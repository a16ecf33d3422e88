"""What is said once about a value that people and programs give: in a change, in the query of a list, or in a form.

    quota: object = value(QUOTA, "Quota in GPUs", "A whole number of GPUs, or a share of the pool such as 25%.")
    actor: str = value(TEXT, "User", "Only what this user did.", default="", in_query=True)

The sentence of a value (`help`) is the same in the form, the API document, and the client.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from pools.domain.errors import Fault
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.query_values import (
    BOOLEAN_RULE,
    DATETIME_RULE,
    integer_rule,
    parse_boolean,
    parse_datetime,
    parse_integer,
)

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of values: its JSON schema, its reader from a JSON object (the key has a value; faults are noted), and its
    form in stored JSON. `looks`: how a form and the client show it. A secret is in no stored JSON and in no `repr`.
    `parse` reads a text of the query, None for one that breaks `rule`; a list has at most `max_values`."""

    looks: str
    schema: Schema
    read: Callable[[FieldReader, str], Any]
    write: Callable[[Any], Any] = lambda given: given
    is_secret: bool = False
    parse: Callable[[str], Any] = str
    rule: str = "a text"
    max_values: int | None = None

    @property
    def is_list(self) -> bool:
        """Whether it is several values."""
        return self.schema.get("type") == "array"

    @property
    def options(self) -> Sequence[str]:
        """The words of a choice; none of another kind."""
        found: Sequence[str] = self.schema.get("items", self.schema).get("enum", ())
        return found


def _read_time(reader: FieldReader, key: str) -> datetime | None:
    text = reader.body[key]
    found = parse_datetime(text) if isinstance(text, str) else None
    if found is None:
        reader.add_fault(key, Fault.BAD_VALUE, "must be a time such as 2026-11-27T18:00:00 (UTC).")
    return found


def read_name(reader: FieldReader, key: str) -> str:
    text = reader.body[key]
    if isinstance(text, str) and text:
        return text
    reader.add_fault(key, Fault.BAD_VALUE, "must be a text.")
    return ""


TEXT = ValueKind("text", {"type": "string"}, lambda reader, key: reader.field(key).text() or "")
NAME = dataclasses.replace(TEXT, read=read_name)
"""A text that is not empty."""
BOOLEAN = ValueKind("boolean", {"type": "boolean"}, FieldReader.boolean, parse=parse_boolean, rule=BOOLEAN_RULE)
TIME = ValueKind(
    "time",
    {"type": "string", "description": "UTC without a zone, as 2026-11-20T11:33:25.000000.", "nullable": True},
    _read_time,
    lambda time: None if time is None else time.isoformat(),
    parse=parse_datetime,
    rule=DATETIME_RULE,
)
DAY = dataclasses.replace(TIME, looks="day")
"""A time of which a day is enough: midnight, UTC."""
QUOTA = ValueKind(
    "quota",
    {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]},
    lambda reader, key: reader.body[key],
)
"""Whole GPUs, a fraction, or a percentage of the parent: the service reads it, which knows the parent."""
TEXTS = ValueKind("texts", {"type": "array", "items": {"type": "string"}}, FieldReader.read_texts)
JSON = ValueKind("json", {"type": "object", "additionalProperties": True}, lambda reader, key: reader.body[key])
"""An object that the service reads, such as the configuration of a pool."""
SECRET = dataclasses.replace(TEXT, looks="secret", is_secret=True)
SECRET_JSON = dataclasses.replace(JSON, is_secret=True)
"""An object that may have a secret, such as the configuration of a cluster with its kubeconfig."""


NUMBER = ValueKind("number", {"type": "integer"}, lambda reader, key: reader.body[key])
"""The number of an object in its address."""


def choice(options: Sequence[str]) -> ValueKind:
    """One of these words; the service checks which of a body, the reader which of a query."""
    members = {str(each): each for each in options}
    schema = {"type": "string", "enum": list(members)}
    return dataclasses.replace(
        TEXT, looks="choice", schema=schema, parse=members.get, rule=f"one of {', '.join(members)}"
    )


def whole_number(minimum: int, maximum: int, rule: str = "") -> ValueKind:
    """A whole number within these bounds; `rule` says them in words to those who send a body."""
    bounds = integer_rule(minimum, maximum)

    def read(reader: FieldReader, key: str) -> int | None:
        given = reader.body[key]
        if isinstance(given, int) and not isinstance(given, bool) and minimum <= given <= maximum:
            return given
        reader.add_fault(key, Fault.BAD_VALUE, rule or f"must be {bounds}.")
        return None

    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    parse = partial(parse_integer, minimum=minimum, maximum=maximum)
    return ValueKind("number", schema, read, parse=parse, rule=bounds)


@dataclass(frozen=True, slots=True)
class DeclaredValue:
    """What is said about one value. `in_address`: it stands in the address of the object, not in the body;
    `in_query`: it stands in the query. `metavar`, `short` (`-q`) and `option` (`--name` if None; empty: there is none)
    are its words in the client; with `positional` it is an argument there. `missing` is said of a required field
    without a value; if it is empty, `note_faults` says it. `hint` stands in the empty filter of a page. `unit` stands
    inside the input of a form, and `empty` says what an empty one means."""

    kind: ValueKind
    label: str
    help: str
    in_address: bool = False
    in_query: bool = False
    is_required: bool = False
    metavar: str | None = None
    short: str | None = None
    positional: bool = False
    missing: str = "is missing."
    option: str | None = None
    hint: str = ""
    unit: str = ""
    empty: str = ""

    @property
    def sentence(self) -> str:
        """The words where neither the label nor an empty input is next to it; a yes or no is said by its label."""
        said = f"{self.label}. {self.help}" if self.kind is BOOLEAN and self.label else self.help
        return f"{said} Empty: {self.empty}." if self.empty else said


def value(
    kind: ValueKind,
    label: str,
    help: str,  # noqa: A002  # the word of Django's and Typer's fields
    *,
    default: Any = dataclasses.MISSING,
    **words: Any,
) -> Any:
    """A field of the body, or of the query; without a default it is required. `words` are further ones of
    `DeclaredValue`."""
    about = DeclaredValue(kind, label, help, is_required=default is dataclasses.MISSING, **words)
    return field(default=default, repr=not kind.is_secret, metadata={"about": about})


def in_address(metavar: str, label: str, help: str, *, kind: ValueKind = TEXT) -> Any:  # noqa: A002
    """A text of the object's address, or a value of another kind."""
    return value(kind, label, help, in_address=True, metavar=metavar, positional=True)


def fields_of(kind: type[Any]) -> dict[str, DeclaredValue]:
    """The values of a change, or of a question, by name, in their order."""
    return {each.name: each.metadata["about"] for each in dataclasses.fields(kind)}


def query_fields(kind: type[Any]) -> dict[str, DeclaredValue]:
    """The values that stand in the query."""
    return {name: about for name, about in fields_of(kind).items() if about.in_query}


def read_fields(reader: FieldReader, fields: Mapping[str, DeclaredValue]) -> dict[str, Any]:
    """The values that an object gives to these fields; `null` is the same as a missing value. Faults are noted."""
    for name, about in fields.items():
        if about.is_required and about.missing and not reader.is_given(name):
            reader.add_fault(name, Fault.MISSING, about.missing)
    return {name: about.kind.read(reader, name) for name, about in fields.items() if reader.is_given(name)}
