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
    name of its input in the form, `looks` the kind of that input. `is_unused`: it is kept and shown, and a caller who
    gives it is warned that it has no effect."""

    key: str
    schema: Schema
    label: str
    help: str
    default: Any = None
    read: Callable[[FieldReader, str], Any] | None = None
    is_column: bool = False
    input: str = ""
    looks: str = "number"
    is_unused: bool = False

    @property
    def column(self) -> str:
        """The name of the column: the last part of the key."""
        return self.key.rpartition(".")[2]


def properties_of(fields: Iterable[ConfigField]) -> dict[str, Any]:
    """The JSON schemas of these keys, with their sentences."""
    return {each.key: {"description": each.help, **each.schema} for each in fields}


def object_schema(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A JSON schema of an object with these keys and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})
