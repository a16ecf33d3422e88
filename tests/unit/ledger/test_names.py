"""Names of pools, subpools and queues (design, D1, D2)."""

from __future__ import annotations

import pytest

from pools.domain.names import (
    SHARED_QUEUE,
    canonical_name,
    cohort_name_violations,
    k8s_queue_name,
    queue_name,
    short_name_violations,
    split_name,
    with_pool_names,
)

LONGEST_SUBPOOL = "s" * (63 - len("osmo-pool-ns-team--"))
LONGEST_POOL = "p" * (63 - len("osmo-pool-ns-") - len("---shared"))


@pytest.mark.parametrize(
    ("name", "parent", "codes"),
    [
        ("a", "team", []),
        ("a1-b2", "team", []),
        ("team", None, []),
        ("1a", "team", ["bad_name"]),
        ("A", "team", ["bad_name"]),
        ("a-", "team", ["bad_name"]),
        ("-a", "team", ["bad_name"]),
        ("a_b", "team", ["bad_name"]),
        ("a.b", "team", ["bad_name"]),
        ("", "team", ["bad_name"]),
        ("a\n", "team", ["bad_name"]),
        ("ä", "team", ["bad_name"]),
        ("a--b", "team", ["separator_in_name"]),
        ("a--b", None, ["separator_in_name"]),
        ("_shared", "team", ["reserved_name"]),
        ("_x", None, ["reserved_name"]),
        (LONGEST_SUBPOOL, "team", []),
        (LONGEST_SUBPOOL + "s", "team", ["name_too_long"]),
        (LONGEST_POOL, None, []),
        (LONGEST_POOL + "p", None, ["name_too_long"]),
    ],
)
def test_names(name: str, parent: str | None, codes: list[str]) -> None:
    found = short_name_violations(name, namespace="ns", parent=parent, path="name")
    assert [violation.code for violation in found] == codes


def test_the_message_about_a_long_name_has_the_excess() -> None:
    (found,) = short_name_violations(LONGEST_SUBPOOL + "sss", namespace="ns", parent="team", path="name")
    assert "66 characters" in found.message
    assert "Shorten the subpool name by 3" in found.message
    assert found.as_dict()["limit"] == 63


@pytest.mark.parametrize(
    ("leaf", "logical", "kubernetes"),
    [
        (None, "osmo-pool-ns-team", "osmo-pool-ns-team"),
        (SHARED_QUEUE, "osmo-pool-ns-team--_shared", "osmo-pool-ns-team---shared"),
        ("a", "osmo-pool-ns-team--a", "osmo-pool-ns-team--a"),
    ],
)
def test_queue_names(leaf: str | None, logical: str, kubernetes: str) -> None:
    assert queue_name("ns", "team", leaf) == logical
    assert k8s_queue_name(logical) == kubernetes


def test_a_canonical_name_is_split_at_its_separator() -> None:
    assert split_name(canonical_name("team", "a")) == ("team", "a")
    assert split_name("team") == ("team", None)
    assert split_name("team--_shared") == ("team", "_shared")


@pytest.mark.parametrize(("length", "codes"), [(63, []), (64, ["name_too_long"])])
def test_the_name_of_a_cohort_has_at_most_63_characters(length: int, codes: list[str]) -> None:
    assert [each.code for each in cohort_name_violations("c" * length, "name")] == codes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the quota of osmo-pool-ns-team--a (30) leaves 2", "the quota of team--a (30) leaves 2"),
        ("work in osmo-pool-ns-team--_shared.", "work in the remainder of pool team."),
        ("over quota in osmo-pool-ns-team---shared", "over quota in the remainder of pool team"),
        ("the limit of osmo-pool-ns-my-team, or of osmo-cohort-ns-org", "the limit of pool my-team, or of cohort org"),
        ("osmo-pool-other-team--a is in another namespace", "osmo-pool-other-team--a is in another namespace"),
    ],
)
def test_people_read_names_of_pools_and_never_of_queues(text: str, expected: str) -> None:
    assert with_pool_names(text, "ns") == expected
