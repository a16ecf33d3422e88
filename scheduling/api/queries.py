"""Filters and values that several calls about work read from the query: names, enums, `KEY=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from rest_framework.request import Request

from pools.domain.errors import BadInput, Violation

Member = TypeVar("Member", bound=StrEnum)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,252}\Z", re.ASCII)


def query_list(request: Request, name: str) -> list[str]:
    """A repeated key's values, without empty ones."""
    return [value for value in request.query_params.getlist(name) if value]


def parse_enum_values(values: Iterable[str], kind: type[Member], path: str) -> list[Member]:
    """Values of an enum, any case. Raises BadInput with every unknown one."""
    known = {str(member): member for member in kind}
    wanted = [(value, known.get(value.upper())) for value in values]
    found = [
        Violation(path, "bad_query", f"{path}={value[:60]!r}: give one of {', '.join(known)}.")
        for value, member in wanted
        if member is None
    ]
    if found:
        raise BadInput.of(found)
    return [member for _, member in wanted if member is not None]


def parse_pairs(values: Iterable[str], path: str, found: list[Violation]) -> dict[str, str]:
    """`KEY=VALUE` texts as a map, the last of one key wins; what is none is noted in `found`."""
    result = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not key or not equals:
            found.append(Violation(path, "bad_value", f"{path}={text[:60]!r}: give KEY=VALUE."))
        elif path.endswith("env_vars") and not _ENV_NAME.match(key):
            found.append(Violation(path, "bad_value", f"{key[:60]!r} is no name of an environment variable."))
        else:
            result[key] = value
    return result
