"""What may be said of a backend: a JSON object as the API takes it (api.md, "Simulated backend")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain import cluster_config
from pools.domain.cluster_config import KUBERNETES, ClusterSpec
from pools.domain.errors import Violation
from pools.domain.fields import Fields, short
from pools.domain.platforms import DEFAULT_PLATFORM, PLATFORM_RULE, is_platform_name
from pools.domain.sizes import MOST_UNITS, size_in_bytes

SIMULATED = "simulated"
KINDS = (SIMULATED, KUBERNETES)
DEFAULT_CPU = 128
DEFAULT_MEMORY = 2**40
DEFAULT_STORAGE = 4 * 2**40
MOST_NODES = 100_000
NAME_PATTERN = r"[a-z]([a-z0-9-]*[a-z0-9])?"

_NAME = re.compile(NAME_PATTERN)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KNOWN = ("type", "namespace", "description", "offline")
_IGNORED = ("name", "version", "pools", "warnings", "status")
_SIMULATED_KEYS = ("nodes", "auto_end")
_NODE_KEYS = ("name", "gpus", "cpu", "memory", "storage", "platform")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One machine; memory and storage in bytes."""

    name: str
    gpus: int
    cpu: int = DEFAULT_CPU
    memory_bytes: int = DEFAULT_MEMORY
    storage_bytes: int = DEFAULT_STORAGE
    platform: str = DEFAULT_PLATFORM


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """A backend as asked for; None means that the key was left out and what is there stays. `cluster` is there for a
    Kubernetes backend."""

    kind: str = SIMULATED
    namespace: str | None = None
    description: str | None = None
    nodes: tuple[NodeSpec, ...] | None = None
    auto_end: bool | None = None
    offline: bool | None = None
    cluster: ClusterSpec | None = None


def parse_backend(
    name: str, body: Mapping[str, Any], *, kind: str | None = None
) -> tuple[BackendSpec, list[Violation]]:
    """What the object asks for, and every fault in it. The first is worth nothing if there are any of the second.

    `kind` is the type of the backend of that name, None if there is none yet.
    """
    faults: list[Violation] = []
    fields = Fields(body, "", faults)
    kind = _kind(fields, kind)
    if kind == KUBERNETES:
        fields.only((*_KNOWN, *cluster_config.KEYS), (*_IGNORED, *_SIMULATED_KEYS, *cluster_config.SHOWN))
    else:
        fields.only((*_KNOWN, *_SIMULATED_KEYS), _IGNORED)
    if not _NAME.fullmatch(name) or len(name) > 63:
        faults.append(
            Violation(
                "name",
                "bad_name",
                f"{short(name)!r} is no backend name: lower-case letters, digits and hyphens, a letter first, "
                "a letter or digit last, at most 63.",
            )
        )
    namespace = fields.text("namespace") if fields.has("namespace") else None
    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        fields.fault("namespace", "bad_value", "must have 1 to 63 lower-case letters, digits and inner hyphens.")
    is_simulated = kind != KUBERNETES
    spec = BackendSpec(
        kind=kind,
        namespace=namespace,
        description=fields.text("description") if fields.has("description") else None,
        nodes=_nodes(fields) if is_simulated and fields.has("nodes") else None,
        auto_end=fields.flag("auto_end") if is_simulated and fields.has("auto_end") else None,
        offline=fields.flag("offline") if fields.has("offline") else None,
        cluster=None if is_simulated else cluster_config.read_cluster(fields),
    )
    return spec, faults


def _kind(fields: Fields, present: str | None) -> str:
    """The type that is asked for; a backend keeps the one it has."""
    asked = fields.text("type", present or SIMULATED)
    if asked not in KINDS:
        fields.fault("type", "bad_value", f"must be one of {', '.join(KINDS)}.")
        return present or SIMULATED
    if present is not None and asked != present:
        fields.fault("type", "bad_value", f"stays {present}: make another backend and move the pools there.")
        return present
    return asked


def _nodes(fields: Fields) -> tuple[NodeSpec, ...]:
    rows = fields.rows("nodes")
    if len(rows) > MOST_NODES:
        fields.fault("nodes", "too_many", f"has {len(rows)} entries; the most is {MOST_NODES}.")
        return ()
    nodes, seen = [], set()
    for row in rows:
        node = _node(row)
        if node.name in seen:
            row.fault("name", "duplicate_name", f"{node.name!r} stands twice; each machine has its own name.")
        seen.add(node.name)
        nodes.append(node)
    return tuple(nodes)


def _node(row: Fields) -> NodeSpec:
    row.only(_NODE_KEYS)
    for key in ("name", "gpus"):
        if not row.has(key):
            row.fault(key, "missing", "is missing.")
    name = row.text("name")
    if row.has("name") and not _NODE.fullmatch(name):
        row.fault("name", "bad_name", "must be a host name: lower-case letters, digits, hyphens and dots, at most 253.")
    platform = row.text("platform", DEFAULT_PLATFORM)
    if not is_platform_name(platform):
        row.fault("platform", "bad_name", f"must have {PLATFORM_RULE}.")
    size = "a size such as 512Gi or 1Ti"
    return NodeSpec(
        name=name,
        gpus=row.whole("gpus", 0, least=0, most=MOST_UNITS),
        cpu=row.whole("cpu", DEFAULT_CPU, least=0, most=MOST_UNITS),
        memory_bytes=row.read("memory", size_in_bytes, DEFAULT_MEMORY, size),
        storage_bytes=row.read("storage", size_in_bytes, DEFAULT_STORAGE, size),
        platform=platform,
    )
