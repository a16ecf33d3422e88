"""The types of GPU that limits name (`gres/gpu:a100=8`) as flavors, where the nodes say what has which type.

Where no limit names a type, quotas count all GPUs together. With nodes of one type alone a limit of the type is one of
all GPUs. Otherwise each type is a flavor, and nodes without a type are those without a flavor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pools.domain.configuration.flavors import Flavor
from pools.domain.configuration.platforms import DEFAULT_PLATFORM
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.counting import counted
from scheduling.domain.slurm.resources import is_part_of_a_gpu
from scheduling.moving_in.options import GuaranteeFrom, ImportOptions
from scheduling.moving_in.result import ImportResult, SourcePlace
from scheduling.moving_in.simulated_backend import FoundNodes
from scheduling.moving_in.slurm.lines import SlurmLine, gpu_limit, read_tres

TYPE_LABEL: Final = "slurm.schedmd.com/gpu-type"
"""The label of a node with GPUs of a type; Slurm has no labels, so a cluster on Kubernetes has others."""
TOTAL: Final = "gres/gpu"


def types_of_limits(lines: Iterable[SlurmLine]) -> set[str]:
    """The types of GPU that limits of accounts name."""
    texts = [(line.fields.get("grptres", ""), line.place) for line in lines if line.word == "Account"]
    return {_type_of(key) for text, place in texts for key in read_tres(text, place) if _type_of(key)}


@dataclass(slots=True)
class GpuKinds:
    """`flavors`: those of the cluster, with the most GPUs first; without any `DEFAULT_FLAVOR` stands for all GPUs.
    `gpus`: the GPUs of the nodes by flavor. `only`: the one type of all nodes, which needs no flavor."""

    flavors: tuple[str, ...] = ()
    gpus: dict[str, int] = field(default_factory=dict)
    only: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What quotas are given by."""
        return self.flavors or (DEFAULT_FLAVOR,)

    def backend_flavors(self) -> list[Flavor]:
        """The flavors as the cluster has them."""
        return [Flavor(name, {TYPE_LABEL: name}) for name in self.flavors if name != DEFAULT_FLAVOR]

    def rows(self, amounts: Mapping[str, Mapping[str, int]]) -> list[dict[str, object]]:
        """Rows of the quotas of a cohort: the amounts by flavor."""
        first = {name: {"flavor": name} if self.flavors else {} for name in self.names}
        return [{**first[name], "resource": "gpu", **amounts[name]} for name in self.names]


def find_kinds(nodes: FoundNodes, types: Collection[str], result: ImportResult, options: ImportOptions) -> GpuKinds:
    """What the nodes say about the types that limits name."""
    by_type: dict[str, int] = {}
    for node in nodes.nodes.values():
        kind = node.labels.get(TYPE_LABEL, DEFAULT_FLAVOR)
        by_type[kind] = by_type.get(kind, 0) + node.gpus
    if not types or not set(types) & by_type.keys():
        return GpuKinds((), {DEFAULT_FLAVOR: nodes.gpus})
    if len(by_type) == 1:
        return GpuKinds((), {DEFAULT_FLAVOR: nodes.gpus}, next(iter(by_type)))
    for name, node in nodes.nodes.items():  # work names a flavor, or takes any of its pool
        nodes.nodes[name] = replace(node, platform=DEFAULT_PLATFORM)
    order = tuple(sorted(by_type, key=lambda name: (-by_type[name], name)))
    place = nodes.place or SourcePlace("options", 1)
    shown = ", ".join(f"{name} ({counted(by_type[name], 'GPU')})" for name in order if name != DEFAULT_FLAVOR)
    result.became(place, f"limits name types of GPU, so each type is a flavor: {shown}.")
    if DEFAULT_FLAVOR in by_type:
        result.decide(
            place, f"nodes with {counted(by_type[DEFAULT_FLAVOR], 'GPU')} have no type: they are without a flavor."
        )
    if options.writes_backend:
        result.decide(
            place,
            f"the flavors have the label {TYPE_LABEL}, which Slurm does not have: choose one of your nodes.",
        )
    else:
        result.decide(place, f"give the cluster {options.backend} these flavors with labels (docs/gpu-flavors.md).")
    return GpuKinds(order, by_type)


@dataclass(slots=True)
class Ceiling:
    """The ceiling of an account by flavor (None: no limit), and what of it is a quota with `--guarantee limit`."""

    limits: dict[str, int | None] = field(default_factory=dict)
    quotas: dict[str, int] = field(default_factory=dict)

    @property
    def quota(self) -> int:
        """The quotas of all flavors together."""
        return sum(self.quotas.values())

    @property
    def is_bounded(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in self.limits.values())

    def text(self) -> str:
        """The ceiling in words."""
        if list(self.limits) == [DEFAULT_FLAVOR]:
            return f"{self.limits[DEFAULT_FLAVOR]}"
        known = (f"{limit} {name}" for name, limit in self.limits.items() if limit is not None)
        return ", ".join(known)


def read_ceiling(
    tres: Mapping[str, int | None], kinds: GpuKinds, place: SourcePlace, result: ImportResult, options: ImportOptions
) -> Ceiling:
    """What a limit of GPUs of an account bounds; each of its keys of GPUs is in the report."""
    is_guaranteed = options.guarantee is GuaranteeFrom.LIMIT
    if kinds.flavors:
        return _by_flavor(tres, kinds, place, result, is_guaranteed=is_guaranteed)
    limit, types = gpu_limit(tres)
    for key in types:
        if _type_of(key) == kinds.only:
            amount = tres[key]
            limit = amount if limit is None else limit if amount is None else min(limit, amount)
            result.became(place, f"{key}: all nodes have GPUs of this type, so it bounds all GPUs.")
        elif is_part_of_a_gpu(_type_of(key)):
            _lose_part(key, place, result)
        else:
            result.lost(place, f"{key}: the nodes of the files do not tell which have this type. Add their lines.")
    return Ceiling({DEFAULT_FLAVOR: limit}, {DEFAULT_FLAVOR: (limit or 0) if is_guaranteed else 0})


def _by_flavor(
    tres: Mapping[str, int | None], kinds: GpuKinds, place: SourcePlace, result: ImportResult, *, is_guaranteed: bool
) -> Ceiling:
    total, there = tres.get(TOTAL), sum(kinds.gpus.values())
    if total is not None and total >= there:
        result.became(place, f"{TOTAL}={total}: the nodes have {counted(there, 'GPU')}, so it bounds nothing.")
        total = None
    of_type = {_type_of(key): amount for key, amount in tres.items() if _type_of(key)}
    for name in of_type.keys() - set(kinds.flavors):
        if is_part_of_a_gpu(name):
            _lose_part(f"{TOTAL}:{name}", place, result)
        else:
            result.lost(place, f"{TOTAL}:{name}: no node of the files has GPUs of this type.")
    limits = {name: _least(of_type.get(name), total) for name in kinds.names}
    known = [amount for name in kinds.names if (amount := of_type.get(name)) is not None]
    if total is not None and (len(known) < len(kinds.names) or sum(known) > total):
        result.decide(
            place, f"a ceiling of {total} over several flavors has no counterpart: each flavor has it alone. Divide it."
        )
    quotas = {name: of_type.get(name) or 0 for name in kinds.names}
    if not is_guaranteed or (total is not None and sum(quotas.values()) > total):
        quotas = dict.fromkeys(quotas, 0)
    return Ceiling(limits, quotas)


def _lose_part(key: str, place: SourcePlace, result: ImportResult) -> None:
    result.lost(place, f"{key} is a part of a GPU (MIG); whole GPUs have quotas here.")


def _least(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)


def _type_of(key: str) -> str:
    return key.removeprefix(f"{TOTAL}:") if key.startswith(f"{TOTAL}:") else ""
