"""The query of a request: what a declaration reads, refuses and describes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.http import QueryDict
from rest_framework.request import Request

from pools.api.questions import parameters_of, read_query
from pools.domain.errors import BadInput
from pools.domain.questions import FILTER_TEXTS, Page, parameter
from pools.domain.structured_input.declared_values import BOOLEAN, TIME, choice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question(Page):
    revision: bool = parameter(BOOLEAN, "Which one.", default=dataclasses.MISSING)
    since: datetime | None = parameter(TIME, "From this time on.")
    by: str = parameter(choice(["pool", "user"]), "By what.", default="pool")
    names: list[str] = parameter(FILTER_TEXTS, "Only these.", default=())


def _read(query: str) -> _Question:
    return read_query(_Question, cast("Request", SimpleNamespace(query_params=QueryDict(query))))


def test_what_is_given_is_read_and_the_rest_has_its_default() -> None:
    assert _read("revision=1&since=2026-11-20&names=a&names=&names=b&limit=") == _Question(
        revision=True, since=datetime(2026, 11, 20, tzinfo=UTC), names=["a", "b"]
    )


def test_all_faults_are_reported_at_once_without_the_values() -> None:
    query = "limit=0&offset=x&since=soon&by=me&" + "&".join(f"names={number}" for number in range(51))
    with pytest.raises(BadInput) as refusal:
        _read(query)
    assert [(fault.path, fault.code, fault.message) for fault in refusal.value.details] == [
        ("limit", "bad_query", "limit: give a whole number from 1 to 1,000."),
        ("offset", "bad_query", "offset: give a whole number from 0 to 2,147,483,647."),
        ("revision", "missing", "revision is missing."),
        ("since", "bad_query", "since: give a time in UTC, as 2026-11-20 or 2026-11-20T11:33:25."),
        ("by", "bad_query", "by: give one of pool, user."),
        ("names", "bad_query", "names is given 51 times: give at most 50."),
    ]


def test_the_document_names_every_value() -> None:
    found: dict[str, Any] = {each.name: each for each in parameters_of(_Question)}
    assert list(found) == ["limit", "offset", "revision", "since", "by", "names"]
    assert found["limit"].schema == {"type": "integer", "minimum": 1, "maximum": 1000}
    assert (found["since"].schema, found["since"].description) == ({"type": "string"}, "From this time on. In UTC.")
    assert found["names"].schema == {"type": "string"} and found["names"].is_list
    assert found["revision"].is_required and not found["by"].is_required
