"""Nodes of a source as a simulated backend, on which the imported quotas can be tried before a cluster is connected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pools.domain.configuration.backend_config import (
    MAX_NODES,
    POLICY_DEFAULTS,
    NodeSpec,
)
from pools.domain.configuration.flavors import Flavor
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.values.counting import counted
from scheduling.configuration.bodies import simulated_body
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace


@dataclass(slots=True)
class FoundNodes:
    """The nodes of a source by name, and the place of the first."""

    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    place: SourcePlace | None = None

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return sum(node.gpus for node in self.nodes.values())

    @property
    def platforms(self) -> list[str]:
        """The platforms of nodes with GPUs, that with the most GPUs first."""
        count: dict[str, int] = {}
        for node in self.nodes.values():
            count[node.platform] = count.get(node.platform, 0) + node.gpus
        return sorted((name for name, gpus in count.items() if gpus), key=lambda name: (-count[name], name))

    def add(self, node: NodeSpec, place: SourcePlace) -> None:
        """Add a node; the last description of a name counts."""
        self.nodes[node.name] = node
        self.place = self.place or place
        if len(self.nodes) > MAX_NODES:
            raise BadSource.at(place, f"the source has more than {MAX_NODES:,} nodes.")


def add_backend(
    nodes: FoundNodes, result: ImportResult, options: ImportOptions, *, hint: str, flavors: Sequence[Flavor] = ()
) -> None:
    """The backend of all pools. `hint` says how to get the nodes."""
    place = nodes.place or SourcePlace("options", 1, f"--backend {options.backend}")
    if not options.writes_backend:
        result.became(place, f"pools name the cluster {options.backend}, which the installation must have already.")
        return
    body = simulated_body(
        namespace=options.namespace,
        description="Imported, to try the quotas before a cluster is connected.",
        auto_end=True,
        policy=POLICY_DEFAULTS,
        nodes=list(nodes.nodes.values()),
        flavors=flavors,
    )
    result.add(OwnedKind.BACKEND, options.backend, body, place)
    text = f"backends.{options.backend}: {counted(len(nodes.nodes), 'node')} with {counted(nodes.gpus, 'GPU')}."
    if nodes.nodes:
        result.became(place, text)
    else:
        result.decide(place, f"the files name no nodes, so backends.{options.backend} has none. {hint}")
