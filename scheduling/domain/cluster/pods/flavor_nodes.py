"""The nodes of one GPU flavor, as a node affinity says it (design kinds, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from pools.domain.configuration.flavors import Flavor
from scheduling.domain.kubernetes_json import Object


def flavor_terms(flavors: Sequence[Flavor], name: str) -> list[list[Object]]:
    """The conditions on a node of which one has to hold; `flavors` are those of the backend, in their order.

    A node has the first flavor whose labels it has, so it has the labels of this one, and of each earlier one lacks a
    label. `default` is every node without a flavor."""
    own: dict[str, str] = {}
    earlier: list[Flavor] = []
    for flavor in flavors:
        if flavor.name == name:
            own = dict(flavor.node_labels)
            break
        earlier.append(flavor)
    has = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(own.items())]
    lacks = [
        [
            {"key": key, "operator": "NotIn", "values": [value]}
            for key, value in sorted(flavor.node_labels.items())
            if own.get(key) != value
        ]
        for flavor in earlier
        if not any(key in own and own[key] != value for key, value in flavor.node_labels.items())
    ]
    return [[*has, *chosen] for chosen in product(*lacks)]
