"""Values in the query or the body that several calls about work read."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TypeVar

from rest_framework.request import Request

from pools.api.request_parsing import BodyReader

Member = TypeVar("Member", bound=StrEnum)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,252}\Z", re.ASCII)


def query_list(request: Request, name: str) -> list[str]:
    """A repeated key's values, without empty ones."""
    return [value for value in request.query_params.getlist(name) if value]


def parse_pairs(reader: BodyReader, key: str) -> dict[str, str]:
    """The `KEY=VALUE` texts of a list as a map; the last value of a key wins."""
    result = {}
    for text in reader.read_texts(key):
        name, equals, value = text.partition("=")
        if not name or not equals:
            reader.add_fault(key, "bad_value", "must have the form KEY=VALUE.")
        elif key == "env_vars" and not _ENV_NAME.match(name):
            reader.add_fault(key, "bad_value", "has a name that is not valid for a variable.")
        else:
            result[name] = value
    return result
