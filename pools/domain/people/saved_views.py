"""Saved views: a person's name for the filters of a list. The filters are the query of the list's address."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import parse_qsl, urlencode

from pools.domain.errors import Fault, NotFound, Violation
from pools.domain.names import renamed_leaf

MAX_NAME_LENGTH = 40
MAX_QUERY_LENGTH = 2000
MAX_VIEWS = 100
"""The most views of one person."""

_MOMENTARY = frozenset({"page", "select", "format"})
_POOL_FILTERS = frozenset({"pool", "pools"})


class FilteredList(StrEnum):
    """A list whose address has filters."""

    POOLS = "pools"
    QUOTA_TREE = "quota_tree"
    WORKFLOWS = "workflows"
    QUEUE = "queue"
    NODES = "nodes"
    USAGE = "usage"
    SCHEDULER_EVENTS = "scheduler_events"
    AUDIT = "audit"
    USERS = "users"


def filtered_list(name: str) -> FilteredList:
    """The list of this name. Raises NotFound."""
    if name not in set(FilteredList):
        raise NotFound(f"There is no such list with filters. The lists are {', '.join(FilteredList)}.")
    return FilteredList(name)


def normalize_query(text: str) -> str:
    """The filters and the order of a query, sorted by key: without empty values, and without keys that are not a part
    of a view, such as the number of a page. The same filters in another order give the same text."""
    pairs = parse_qsl(text.removeprefix("?"), errors="replace")
    return urlencode(sorted((key, value) for key, value in pairs if key not in _MOMENTARY))


def rename_pool_in_query(query: str, old: str, new: str) -> str:
    """A normalized query whose filters of pools name the pool `old`, and its subpools, by the name `new`."""
    pairs = parse_qsl(query, errors="replace")
    return urlencode([
        (key, ",".join(renamed_leaf(name, old, new) for name in value.split(",")) if key in _POOL_FILTERS else value)
        for key, value in pairs
    ])  # fmt: skip


def saved_view_violations(name: str, query: str) -> list[Violation]:
    """What is wrong with the name or with the normalized query of a view."""
    found = []
    if len(name) > MAX_NAME_LENGTH or not name.isprintable() or "/" in name or not any(map(str.isalnum, name)):
        message = (
            f"This is not a valid name: give 1 to {MAX_NAME_LENGTH} characters without /, with a letter or a digit."
        )
        found.append(Violation("name", Fault.BAD_VALUE, message, numbers=(("max_length", MAX_NAME_LENGTH),)))
    if not query:
        found.append(Violation("query", Fault.BAD_VALUE, "The view has no filter: set at least one, then save it."))
    elif len(query) > MAX_QUERY_LENGTH:
        message = f"The filters have {len(query):,} characters: a view holds at most {MAX_QUERY_LENGTH:,}."
        found.append(Violation("query", Fault.BAD_VALUE, message, numbers=(("max_length", MAX_QUERY_LENGTH),)))
    return found
