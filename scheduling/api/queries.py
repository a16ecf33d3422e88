"""Filters and values that several calls about work read from the query: names, enums, `KEY=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from rest_framework.request import Request

from pools.api.request_parsing import query_boolean
from pools.domain.errors import BadInput, Violation
from pools.domain.roles import Actor
from scheduling.domain.label_selectors import selector_pattern
from scheduling.domain.priorities import Priority

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


def query_priorities(request: Request) -> list[Priority]:
    """The priorities a list is narrowed to."""
    return parse_enum_values(query_list(request, "priority"), Priority, "priority")


def query_users(request: Request, actor: Actor) -> list[str] | None:
    """Whose work a list shows: those named, everybody's (None), or one's own."""
    named = query_list(request, "users")
    if named:
        return named
    return None if query_boolean(request, "all_users") else [actor.username]


def query_pools(request: Request) -> list[str]:
    """The pools a list is narrowed to; none: all that one may see (`all_pools` says so in words)."""
    query_boolean(request, "all_pools")
    return query_list(request, "pools")


def is_newest_first(request: Request) -> bool:
    """`order=ASC|DESC`; DESC when nothing is said."""
    value = request.query_params.get("order") or "DESC"
    if value.upper() not in {"ASC", "DESC"}:
        raise BadInput.of([Violation("order", "bad_query", f"order={value[:60]!r}: give ASC or DESC.")])
    return value.upper() == "DESC"


def query_label_selectors(request: Request) -> list[tuple[str, str]]:
    """`label=KEY=SELECTOR` as (key, regular expression)."""
    selectors, found = [], []
    for text in query_list(request, "label"):
        key, equals, selector = text.partition("=")
        pattern = selector_pattern(selector)
        if not key or not equals or pattern is None:
            wanted = "KEY=SELECTOR, where a selector is a value, with * for anything and (A|B) for alternatives"
            found.append(Violation("label", "bad_query", f"label={text[:60]!r}: give {wanted}."))
        else:
            selectors.append((key, pattern))
    if found:
        raise BadInput.of(found)
    return selectors


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
