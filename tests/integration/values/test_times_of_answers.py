"""Every time of an answer names its zone, except those that OSMO's own clients read, which parse times without one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.addresses import AddressReader, create_example_installation, readable_addresses

pytestmark = pytest.mark.django_db(transaction=True)

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(?P<zone>Z|[+-]\d\d:\d\d)?")
_STEPS = {"submit_time", "start_time", "end_time", "processing_start_time", "scheduling_start_time"}
OF_OSMO = {
    r"/api/workflow(/[^/]+)?": {*_STEPS, "initializing_start_time"},
    r"/api/task": {*_STEPS, "initializing_start_time"},
    r"/api/configs/history": {"created_at"},
    r"/api/auth/.*": {"created_at", "expires_at", "assigned_at"},
    r"/api/profile/settings": {"expires_at"},
}
"""The fields of answers that OSMO's clients parse, by the patterns of their addresses."""


def _times(value: Any, name: str = "") -> Iterator[tuple[str, bool]]:
    """The names of all fields that are times, and whether they have a zone."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _times(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _times(inner, name)
    elif isinstance(value, str) and (found := _TIME.fullmatch(value)):
        yield name, found["zone"] is not None


def test_every_time_has_its_zone_where_osmo_does_not_forbid_it() -> None:
    create_example_installation()
    caller = AddressReader("root")
    zoned: set[str] = set()
    wrong = set()
    for address in readable_addresses():
        if not address.startswith("/api/"):
            continue
        answer = caller.get(address)
        if not answer.get("Content-Type", "").startswith("application/json"):
            answer.close()
            continue
        path = address.partition("?")[0]
        of_osmo = set().union(*(names for pattern, names in OF_OSMO.items() if re.fullmatch(pattern, path)))
        for name, has_zone in _times(json.loads(answer.content)):
            if has_zone:
                zoned.add(name)
            if has_zone == (name in of_osmo):
                wrong.add((address, name))
    assert not wrong, sorted(wrong)
    assert {"time", "since", "made_at", "requested_at"} <= zoned, "the example has times of each kind"
