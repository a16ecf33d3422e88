"""Trees without nodes and work, quotas and usage alone: the worked examples (design, Q6), number by number, through
a scenario file as `osmo simulate` and `/api/simulate` answer it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.scenario import answer

G = "default/gpu"
EXAMPLE_A = """
cohorts:
  - {name: corp, quota: 4}
  - {name: prod, parent: corp, quota: 6, borrowing_limit: 8}
  - {name: research, parent: corp, lending_limit: 5}
queues:
  - {name: serve, parent: prod, quota: 10}
  - {name: batch, parent: prod, quota: 4, borrowing_limit: 3}
  - {name: train, parent: research, quota: 16, lending_limit: 12}
  - {name: labs, parent: research, quota: 0, borrowing_limit: 2}
"""


def gpus(text: str) -> dict[str, dict[str, Any]]:
    """The amounts of every node in GPUs, its share unchanged; absent amounts are left out."""
    got = answer(text)
    assert got["workloads"] == {}
    assert got["steps"] == []
    return {
        name: {what: value.get(G, 0) if isinstance(value, dict) else value for what, value in node.items()}
        for name, node in (got["cohorts"] | got["queues"]).items()
    }


def column(nodes: dict[str, dict[str, Any]], what: str, names: str) -> list[Any]:
    return [nodes[name][what] for name in names.split()]


@pytest.mark.parametrize(
    ("usage", "t", "available"),
    [
        ("{}", [29, 20, 12], [28, 7, 40, 2]),
        ("{serve: 18, train: 9}", [11, 2, 7], [10, 7, 13, 2]),
        ("{serve: 18, train: 12}", [10, 2, 4], [10, 7, 10, 2]),
        ("{serve: 25, train: 0}", [4, -5, 12], [3, 3, 15, 2]),
    ],
)
def test_example_a(usage: str, t: list[int], available: list[int]) -> None:
    nodes = gpus(f"{EXAMPLE_A}usage: {usage}")
    assert column(nodes, "subtree_quota", "train labs research serve batch prod corp") == [16, 0, 12, 10, 4, 20, 29]
    assert column(nodes, "t", "corp prod research") == t
    assert column(nodes, "available", "serve batch train labs") == available
    assert column(nodes, "potential_available", "serve batch train labs") == [28, 7, 40, 2]


def test_every_number_of_a_node() -> None:
    nodes = gpus(f"{EXAMPLE_A}usage: {{serve: 18, train: 9}}")
    assert nodes["serve"] == {
        "parent": "prod", "subtree_quota": 10, "usage": 18, "t": -8, "available": 10, "potential_available": 28,
        "borrowed": 8, "lent": 0, "lendable": 0, "debt": 0, "weighted_share": 286, "dominant_resource": "gpu",
        "fair_share": None,
    }  # fmt: skip
    assert column(nodes, "lent", "batch prod research train") == [2, 0, 0, 0]
    assert column(nodes, "usage", "prod research corp") == [18, 5, 18]


def test_example_b() -> None:
    text = "cohorts: [{{name: pool}}]\nqueues: [{{name: a, parent: pool, quota: 10, lending_limit: {lends}}}, {b}]"
    text += "\nusage: {{b: 6}}"
    b = "{name: b, parent: pool, quota: 2}"
    before, after = gpus(text.format(lends=4, b=b)), gpus(text.format(lends=1, b=b))
    assert column(before, "t", "pool") == [0]
    assert column(before, "available", "a b") == [6, 0]
    assert column(after, "subtree_quota", "pool") == [3]
    assert (after["pool"]["usage"], after["pool"]["t"], after["pool"]["debt"]) == (6, -3, 3)
    assert column(after, "available", "a b") == [6, 0]


def test_example_c() -> None:
    nodes = gpus(
        """
        cohorts: [{name: root}, {name: x, parent: root, borrowing_limit: 0}, {name: y, parent: root}]
        queues: [{name: xq, parent: x, quota: 6}, {name: yq, parent: y, quota: 5}]
        usage: {xq: 8}
        """
    )
    assert column(nodes, "t", "x root") == [-2, 3]
    assert column(nodes, "debt", "x root") == [2, 0]
    assert column(nodes, "available", "yq xq") == [3, 0]


def test_weighted_shares() -> None:
    nodes = gpus(
        """
        cohorts: [{name: root, quota: 20}, {name: team, parent: root, quota: 4, weight: 2}]
        queues:
          - {name: q1, parent: team, quota: 6}
          - {name: q2, parent: team, quota: 0, weight: 0.5}
          - {name: q3, parent: root, quota: 10}
        usage: {q1: 9, q2: 7, q3: 4}
        """
    )
    assert column(nodes, "weighted_share", "q1 q2 team q3 root") == [75, 350, 75, 0, 0]
    assert column(nodes, "potential_available", "root team") == [40, 40], "lendable, at both levels"


def test_each_resource_of_each_flavor_has_its_own_tree() -> None:
    got = answer(
        """
        cohorts: [{name: org, quota: {cpu: 8000, h100/gpu: 4}}]
        queues:
          - {name: a, parent: org, quota: {cpu: 2000}, borrowing_limit: {cpu: 3000}, lending_limit: {h100/gpu: 0}}
          - {name: b, parent: org, quota: {h100/gpu: 2}}
        usage: {a: {cpu: 4000}, b: {h100/gpu: 3}}
        """
    )
    a, b, org = got["queues"]["a"], got["queues"]["b"], got["cohorts"]["org"]
    assert org["subtree_quota"] == {"default/cpu": 10000, "h100/gpu": 6}
    assert org["t"] == {"default/cpu": 6000, "h100/gpu": 3}
    assert (a["available"], a["borrowed"]["default/cpu"]) == ({"default/cpu": 1000, "h100/gpu": 3}, 2000)
    assert (b["available"], b["borrowed"]["h100/gpu"]) == ({"default/cpu": 6000, "h100/gpu": 3}, 1)
