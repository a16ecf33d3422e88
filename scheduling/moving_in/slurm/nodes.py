"""Nodes of Slurm: lines of `slurm.conf`, `gres.conf` and `scontrol show node -o` → nodes of a simulated backend."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from pools.domain.configuration.backend_config import DEFAULT_CPU, DEFAULT_MEMORY, NodeSpec
from pools.domain.configuration.flavors import MAX_FLAVORS
from pools.domain.configuration.platforms import DEFAULT_PLATFORM, is_platform_name
from pools.domain.names import is_word
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.counting import counted
from scheduling.moving_in.result import BadSource, ImportResult
from scheduling.moving_in.simulated_backend import FoundNodes
from scheduling.moving_in.slurm.kinds import TYPE_LABEL
from scheduling.moving_in.slurm.lines import SlurmLine, expand_hosts, read_count, read_gres

MIB: Final = 2**20
FEATURES: Final = ("feature", "features", "availablefeatures", "activefeatures")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_DOWN: Final = ("DOWN", "DRAIN", "FAIL", "FUTURE", "NOT_RESPONDING", "INVAL")
_USED: Final = frozenset(
    {
        "nodename",
        "gres",
        "cpus",
        "procs",
        "cputot",
        "realmemory",
        "sockets",
        "socketsperboard",
        "boards",
        "corespersocket",
        "threadspercore",
    }
)


def read_slurm_nodes(
    lines: list[SlurmLine], gres_lines: list[SlurmLine], result: ImportResult, *, types_of_limits: Collection[str]
) -> FoundNodes:
    """The nodes with GPUs. Of a name given twice the last line counts, so name scontrol's output after slurm.conf. GPUs
    without a type have the one that limits name, if it is a feature of the node."""
    found = FoundNodes()
    types = _types_of_gres(gres_lines, result)
    defaults: dict[str, str] = {}
    platforms: set[str] = set()
    for line in lines:
        if line.name.upper() == "DEFAULT":
            defaults = {**defaults, **line.fields}
            result.state(line.place, "the defaults of the lines of nodes that follow.")
            continue
        names = expand_hosts(line.name, line.place)
        fields = {**defaults, **line.fields}
        gpus = read_gres(fields.get("gres", ""), line.place)
        for part in gpus.parts:
            result.lost(line.place, f"gpu:{part} is a part of a GPU (MIG); whole GPUs have quotas here.")
        for other in gpus.others:
            result.lost(line.place, f"{other}: only whole GPUs have quotas here.")
        feature = _type_of_features(fields, types_of_limits)
        by_type = {kind or types.get(names[0], feature): count for kind, count in gpus.by_type.items()}
        if not sum(by_type.values()):
            result.state(line.place, f"{counted(len(names), 'node')} without whole GPUs; quotas count GPUs.")
            continue
        kind = max(sorted(by_type), key=lambda each: by_type[each])
        if len(by_type) > 1:
            result.decide(line.place, f"a node has one platform here: all of its GPUs count as {kind or 'default'}.")
        spec = NodeSpec(
            name="",
            gpus=sum(by_type.values()),
            cpu=_cpus(fields, line),
            memory_bytes=read_count(fields["realmemory"], line.place) * MIB
            if "realmemory" in fields
            else DEFAULT_MEMORY,
            platform=_platform(kind),
            labels={TYPE_LABEL: kind.lower()}
            if types_of_limits and is_word(kind) and kind.lower() != DEFAULT_FLAVOR
            else {},
        )
        for name in names:
            host = re.sub(r"[^a-z0-9.-]", "-", name.lower()).strip("-.") or "x"
            found.add(replace(spec, name=host), line.place)
        platforms.add(spec.platform)
        if len(platforms) > MAX_FLAVORS:
            raise BadSource.at(line.place, f"the nodes have more than {MAX_FLAVORS} types of GPU.")
        result.became(
            line.place, f"{counted(len(names), 'node')} with {counted(spec.gpus, 'GPU')}, type {kind or 'not given'}."
        )
        state = fields.get("state", "").upper()
        if any(word in state for word in _DOWN):
            result.decide(line.place, f"State={state}: the simulated node takes work all the same.")
        if feature and kind == feature:
            result.became(line.place, f"the feature {feature} is the type of its GPUs, because limits name it.")
        if rest := [line.keys[key] for key in line.fields if key not in _USED]:
            result.state(line.place, f"{', '.join(rest)}: values of nodes that quotas do not use.")
    return found


def _types_of_gres(lines: list[SlurmLine], result: ImportResult) -> dict[str, str]:
    """The type of GPU by node, for nodes whose line in slurm.conf names none."""
    types: dict[str, str] = {}
    for line in lines:
        kind = line.fields.get("type", "")
        if line.fields.get("name", "").lower() == "gpu" and kind and "nodename" in line.fields:
            types |= dict.fromkeys(expand_hosts(line.fields["nodename"], line.place), kind)
        result.state(line.place, "devices of a node; the number of its GPUs is that of slurm.conf or scontrol.")
    return types


def _type_of_features(fields: dict[str, str], types: Collection[str]) -> str:
    """The only feature of a node that is a type of GPU which limits name; empty if there is none."""
    features = {word.strip().lower() for key in FEATURES for word in fields.get(key, "").split(",")}
    named = sorted(features & set(types))
    return named[0] if len(named) == 1 else ""


def _cpus(fields: dict[str, str], line: SlurmLine) -> int:
    for key in ("cputot", "cpus", "procs"):
        if key in fields:
            return read_count(fields[key], line.place)
    if not fields.keys() & {"sockets", "socketsperboard", "corespersocket"}:
        return DEFAULT_CPU
    sockets = ("sockets",) if "sockets" in fields else ("boards", "socketsperboard")
    counts = (fields.get(key, "1") for key in (*sockets, "corespersocket", "threadspercore"))
    total = 1
    for count in counts:
        total *= read_count(count, line.place)
    return total


def _platform(kind: str) -> str:
    name = _OTHERS.sub("-", kind)[:63].strip("._-")
    return name if is_platform_name(name) else DEFAULT_PLATFORM
