"""The parts of `make test-nightly`, each of at most 40 minutes on two cores; this module, run as a program, lists them.

A nightly test has the mark, or draws a larger sample at night: those of Hypothesis, and all of `tests/properties`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

PARTS = {
    "faults": r"tests/(faults|ops)/",
    "histories": r"tests/history/.*test_a_long_history",
    "planted-faults": r"tests/history/.*test_a_planted_fault",
    "removals": r"tests/rules/",
    "storms": r"tests/concurrency/",
    "clusters": r"tests/integration/(dispatch|gpu_cluster|kube|podgroups)/",
    "ledger": r"tests/integration/(ledger|usage)/",
    "api": r"tests/integration/test_schemathesis_api\.py::test_as_an_admin",
    "api-of-users": r"tests/integration/test_schemathesis_api\.py::test_as_a_user",
    "serving": r"tests/integration/(configuration|identity|serving|workflows|test_demo|test_tracing)",
    "pages": r"tests/browser/",
    "engine": r"tests/(unit/(engine|scenario)|integration/engine)/",
    "properties": r"tests/properties/",
    "rules": r"tests/unit/(?!engine/|scenario/)",
}


def samples(of_a_day: Iterable[Any], of_a_night: Iterable[Any]) -> list[Any]:
    """Parameters of a test: those of each day, and those that only a nightly run adds."""
    return [*of_a_day, *(pytest.param(each, marks=pytest.mark.nightly) for each in of_a_night)]


def is_nightly(item: pytest.Item) -> bool:
    """Whether the night does more with this test than the day."""
    is_drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return is_drawn or item.nodeid.startswith("tests/properties/") or bool(item.get_closest_marker("nightly"))


def find_part(nodeid: str) -> str:
    """The one part of a nightly test. Raises UsageError for a test of no part or of several."""
    found = [part for part, pattern in PARTS.items() if re.match(pattern, nodeid)]
    if len(found) != 1:
        raise pytest.UsageError(f"{nodeid} belongs to these parts of the night, not to one: {found}")
    return found[0]


def select(items: list[pytest.Item], part: str | None) -> list[pytest.Item]:
    """Keep the nightly tests of this part (None: all tests) and return the others. Each nightly test has a part."""
    part_of = {item: find_part(item.nodeid) for item in items if is_nightly(item)}
    dropped = [item for item in items if part is not None and part_of.get(item) != part]
    if dropped:
        items[:] = [item for item in items if part_of.get(item) == part]
    return dropped


if __name__ == "__main__":
    print(*PARTS)
