"""The keys of a configuration, declared as data: what reads, shows and describes a key takes it from one entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pools.domain.structured_input.fields import FieldReader

Schema = Mapping[str, Any]
TEXT: Final[Schema] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One key of the configuration of a pool, a cohort or a GPU quota, with dots for a key inside another one.

    `default` is what answers show where nothing is configured. `read` is its reader; a key of a pool that is not stored
    as it is, among others in the column `config`, has a place of its own in
    :func:`pools.domain.configuration.pool_config.parse_pool`. `is_column`: it is a column of the pool. `input` is the
    name of its input in the form, `looks` the kind of that input, `section` the title of the part of the form that has
    it. `unit` stands inside the input, and `empty` says what an empty one means; `empty_value` is what the JSON has for
    it. `is_unused`: it is kept and shown, and a caller who gives it is warned that it has no effect."""

    key: str
    schema: Schema
    label: str
    help: str
    default: Any = None
    read: Callable[[FieldReader, str], Any] | None = None
    is_column: bool = False
    input: str = ""
    looks: str = "number"
    section: str = ""
    unit: str = ""
    empty: str = ""
    empty_value: Any = None
    is_unused: bool = False

    @property
    def column(self) -> str:
        """The name of the column: the last part of the key."""
        return self.key.rpartition(".")[2]

    def form_value(self, value: Any) -> Any:
        """A value of the JSON as its input shows it: what an empty input means is an empty text."""
        return "" if value is None or (self.empty and value == self.empty_value) else value

    def value_text(self, value: Any) -> str:
        """A value of the JSON in words."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if value is None or (self.empty and value == self.empty_value):
            return self.empty or "none"
        text = "empty" if value == "" else str(value)
        return f"{text} {self.unit}" if self.unit else text


def properties_of(fields: Iterable[ConfigField]) -> dict[str, Any]:
    """The JSON schemas of these keys, with their sentences."""
    return {each.key: {"description": _sentence(each), **each.schema} for each in fields}


def _sentence(about: ConfigField) -> str:
    """The sentence of a key, with what null means where a form says it in the empty input."""
    types = about.schema.get("type", ())
    return f"{about.help} Empty: {about.empty}." if about.empty and "null" in types else about.help


def object_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A JSON schema of an object with these keys and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})
