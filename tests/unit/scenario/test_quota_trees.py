"""Trees without nodes and work, quotas and usage alone: the numbers of the worked examples (design, Q6) as
`osmo simulate` and `/api/simulate` answer a scenario file."""

from __future__ import annotations

from typing import Any

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


def test_every_number_of_a_node() -> None:
    nodes = gpus(f"{EXAMPLE_A}usage: {{serve: 18, train: 9}}")
    assert nodes["serve"] == {
        "parent": "prod", "subtree_quota": 10, "usage": 18, "t": -8, "available": 10, "potential_available": 28,
        "borrowed": 8, "lent": 0, "lendable": 0, "debt": 0, "weighted_share": 286, "dominant_resource": "gpu",
        "fair_share": None,
    }  # fmt: skip
    assert column(nodes, "lent", "batch prod research train") == [2, 0, 0, 0]
    assert column(nodes, "usage", "prod research corp") == [18, 5, 18]


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
