"""The node affinity of a flavor chooses exactly the nodes that have the flavor."""

from __future__ import annotations

from itertools import product

import pytest

from pools.domain.configuration.flavors import Flavor, flavor_of_labels
from scheduling.domain.cluster.pods.flavor_nodes import flavor_terms
from scheduling.domain.kubernetes_json import Object

BACKENDS = [
    [Flavor("h100", {"gpu": "h"}), Flavor("a100", {"gpu": "a"})],
    [Flavor("near", {"gpu": "h", "zone": "b"}), Flavor("h100", {"gpu": "h"}), Flavor("b", {"zone": "b"})],
    [Flavor("b", {"zone": "b", "rack": "1"}), Flavor("rack", {"rack": "1"}), Flavor("near", {"gpu": "h", "zone": "b"})],
    [Flavor("h100", {"gpu": "h"}), Flavor("never", {"gpu": "h", "zone": "b"})],
]
VALUES = {"gpu": ("h", "a", None), "zone": ("a", "b", None), "rack": ("1", None)}
NODES = [
    {key: value for key, value in zip(VALUES, values, strict=True) if value is not None}
    for values in product(*VALUES.values())
]


def matches(terms: list[list[Object]], labels: dict[str, str]) -> bool:
    """As Kubernetes reads them: one term, with each of its conditions; NotIn is true of a missing label."""

    def holds(condition: Object) -> bool:
        has = labels.get(condition["key"]) in condition["values"]
        return has if condition["operator"] == "In" else not has

    return any(all(map(holds, term)) for term in terms)


@pytest.mark.parametrize("flavors", BACKENDS, ids=lambda each: ",".join(flavor.name for flavor in each))
def test_a_pod_may_use_the_nodes_of_its_flavor_and_no_others(flavors: list[Flavor]) -> None:
    for name in [*(flavor.name for flavor in flavors), "default"]:
        terms = flavor_terms(flavors, name)
        for labels in NODES:
            assert matches(terms, labels) == (flavor_of_labels(labels, flavors)[0] == name), (name, labels)


def test_one_kind_of_node_needs_one_condition() -> None:
    assert flavor_terms(BACKENDS[0], "a100") == [[{"key": "gpu", "operator": "In", "values": ["a"]}]]
