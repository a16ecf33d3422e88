"""When a node is suspect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.domain.judgement.suspect_nodes import FAILURES, WINDOW, NodeFailure, find_suspects

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def failure(node: str, workflow: str, minutes: float, person: str = "") -> NodeFailure:
    return NodeFailure(node, workflow, person or f"owner-of-{workflow}", BEGIN + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("failures", "nodes"),
    [
        ([("n", "a", 0), ("n", "b", 1), ("n", "c", 2)], ["n"]),
        ([("n", "a", 0), ("n", "b", 1)], []),
        ([("n", "a", 0), ("n", "a", 1), ("n", "a", 2)], []),
        ([("n", "a", 0), ("n", "b", 5), ("n", "c", 10)], ["n"]),
        ([("n", "a", 0), ("n", "b", 5), ("n", "c", 10.5)], []),
        ([("n", "a", 0), ("n", "b", 9), ("n", "c", 12), ("n", "d", 14)], ["n"]),
        ([("n", "a", 0), ("n", "b", 1), ("m", "c", 2)], []),
        ([("m", "x", 0), ("m", "y", 0), ("m", "z", 0), ("n", "a", 0), ("n", "b", 1), ("n", "c", 2)], ["m", "n"]),
    ],
)
def test_three_different_workflows_within_minutes(failures: list[tuple[str, str, float]], nodes: list[str]) -> None:
    assert [each.node for each in find_suspects([failure(*each) for each in failures])] == nodes


def test_work_that_fails_on_several_nodes_accuses_none() -> None:
    gang = [failure("n", "gang", 0), failure("m", "gang", 0)]
    assert find_suspects([*gang, failure("n", "a", 1), failure("n", "b", 2)]) == []


def test_a_person_whose_work_fails_elsewhere_too_accuses_no_node() -> None:
    mine = [failure("n", work, at, "bob") for at, work in enumerate("abc")]
    (found,) = find_suspects(mine)
    assert (found.node, found.workflows, found.first, found.last) == (
        "n", ("a", "b", "c"), BEGIN, BEGIN + timedelta(minutes=2),
    )  # fmt: skip
    assert find_suspects([*mine, failure("m", "d", 1, "bob")]) == []
    others = [failure("n", work, at) for at, work in enumerate("xyz")]
    (found,) = find_suspects([*mine, failure("m", "d", 1, "bob"), *others])
    assert found.workflows == ("x", "y", "z")


def test_the_rule_is_three_in_ten_minutes() -> None:
    assert (3, timedelta(minutes=10)) == (FAILURES, WINDOW)
