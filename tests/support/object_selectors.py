"""Label and field selectors, evaluated for the fake cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TERM = re.compile(r"\s*(?:[^,(]|\([^)]*\))+")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<word>in|notin)\s+\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<word>==|=|!=)\s*(?P<value>\S*)")


def matches_selectors(item: Mapping[str, Any], *, labels: str = "", fields: str = "") -> bool:
    """Whether both selectors select an object."""
    carried = item["metadata"].get("labels") or {}
    return all(_matches_label(carried, term.strip()) for term in _TERM.findall(labels)) and all(
        _matches_field(item, term.strip()) for term in _TERM.findall(fields)
    )


def _matches_label(labels: Mapping[str, str], term: str) -> bool:
    if found := _SET.fullmatch(term):
        values = {value.strip() for value in found["values"].split(",")}
        return (labels.get(found["key"]) in values) == (found["word"] == "in")
    if found := _EQUAL.fullmatch(term):
        return (labels.get(found["key"]) == found["value"]) == (found["word"] != "!=")
    return term[1:].strip() not in labels if term.startswith("!") else term in labels


def _matches_field(item: Mapping[str, Any], term: str) -> bool:
    found = _EQUAL.fullmatch(term)
    if found is None:
        raise ValueError(f"{term!r} is not a valid field selector")
    here: Any = item
    for key in found["key"].split("."):
        here = here.get(key) if isinstance(here, Mapping) else None
    return (("" if here is None else str(here)) == found["value"]) == (found["word"] != "!=")
