"""The configuration of a backend: a JSON object as the API takes it (design, A3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pools.domain.configuration import cluster_config
from pools.domain.configuration.cluster_config import KUBERNETES, ClusterSpec
from pools.domain.configuration.flavors import LABELS, Flavor, read_flavors, read_labels
from pools.domain.configuration.platforms import DEFAULT_PLATFORM, PLATFORM_RULE, is_platform_name
from pools.domain.errors import Fault, Violation
from pools.domain.shortage.degraded import DegradedRule
from pools.domain.structured_input.config_fields import TEXT, object_schema
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.byte_sizes import MAX_UNITS, parse_size

SIMULATED = "simulated"
BACKEND_TYPES = (SIMULATED, KUBERNETES)
DEFAULT_CPU = 128
DEFAULT_MEMORY = 2**40
DEFAULT_STORAGE = 4 * 2**40
MAX_NODES = 100_000
DEFAULT_RESERVE_AFTER, DEFAULT_AGEING = 3600, 4 * 3600
"""Seconds. On by default: a backend without a policy lets large work wait forever."""


class VictimRule(StrEnum):
    """Which work loses its place among that which the rules allow equally (docs/waiting.md, "Which work is preempted"):
    the youngest, as in KAI, or the set that is enough and loses least."""

    YOUNGEST = "youngest"
    LEAST_LOST = "least_lost"


CHOICE_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "victims": {
        VictimRule.YOUNGEST.value: "the youngest work first, as KAI",
        VictimRule.LEAST_LOST.value: "the work that frees enough and loses least",
    },
    "degraded": {
        DegradedRule.PROPORTIONAL.value: "each pool has the same part of its quota",
        DegradedRule.ORDERED.value: "the pools with the largest weight come first",
    },
    "mode": {
        cluster_config.MANAGE: "manage: run its work, write its queues",
        cluster_config.OBSERVE: "observe: read its work, write nothing",
    },
    "access": {
        cluster_config.KUBECONFIG: "a kubeconfig that is stored sealed",
        cluster_config.FILE: "a kubeconfig file in the operator's folder (OSMO_KUBECONFIG_DIR)",
        cluster_config.IN_CLUSTER: "in-cluster: OSMO Admin runs in the cluster",
    },
    "sync_mode": {
        cluster_config.APPLY: "write the queues, revert other edits",
        cluster_config.REPORT: "only report differences",
        cluster_config.OFF: "do not manage the cluster's queues",
    },
}
"""What people read for the values of these keys, in forms, previews and the audit trail."""
POLICY_TIMES: Final[Mapping[str, int]] = {"reserve_after": DEFAULT_RESERVE_AFTER, "ageing": DEFAULT_AGEING}
POLICY_DEFAULTS: Final[Mapping[str, int | str | None]] = {
    **POLICY_TIMES,
    "victims": VictimRule.YOUNGEST.value,
    "degraded": DegradedRule.PROPORTIONAL.value,
}
"""The settings of the policy of a backend, which are columns of its row, with their defaults; of a time also None,
which means never. A cluster has `degraded` alone, because its own scheduler decides the rest."""
NAME_PATTERN = r"[a-z]([a-z0-9-]*[a-z0-9])?"

_NAME = re.compile(NAME_PATTERN)
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KNOWN = ("type", "namespace", "description", "flavors", "offline")
_RULES: Final[Mapping[str, type[StrEnum]]] = {"victims": VictimRule, "degraded": DegradedRule}
ANSWER_KEYS = ("name", "version", "pools", "warnings", "status")
SIMULATED_KEYS = ("nodes", "auto_end", *POLICY_DEFAULTS)
NODE_ANSWER_KEYS = ("flavor",)
MAX_POLICY_SECONDS = 366 * 24 * 3600
_SIZE: Final = {"type": ["string", "integer"]}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": MAX_UNITS}
NODE: Final = object_schema(
    {
        "name": TEXT, "gpus": _COUNT, "cpu": _COUNT, "memory": _SIZE, "storage": _SIZE, "platform": TEXT,
        "labels": LABELS,
    },
    ("name", "gpus"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node; memory and storage in bytes."""

    name: str
    gpus: int
    cpu: int = DEFAULT_CPU
    memory_bytes: int = DEFAULT_MEMORY
    storage_bytes: int = DEFAULT_STORAGE
    platform: str = DEFAULT_PLATFORM
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """The requested configuration of a backend. None: the key was left out, and the present value stays. `cluster` is
    set for a Kubernetes backend. `policy` has the given keys of `POLICY_DEFAULTS`; times are in seconds, and None as a
    time means never."""

    kind: str = SIMULATED
    namespace: str | None = None
    description: str | None = None
    nodes: tuple[NodeSpec, ...] | None = None
    auto_end: bool | None = None
    offline: bool | None = None
    cluster: ClusterSpec | None = None
    policy: Mapping[str, int | str | None] = field(default_factory=dict)
    flavors: tuple[Flavor, ...] | None = None


def parse_backend(
    name: str, body: Mapping[str, Any], *, present_kind: str | None = None
) -> tuple[BackendSpec, list[Violation]]:
    """The configuration in the object, and every fault in it. After a fault the configuration is not usable.
    `present_kind` is the type of the existing backend of that name, None if there is none."""
    faults: list[Violation] = []
    fields = FieldReader(body, "", faults)
    present_kind = _kind(fields, present_kind)
    if present_kind == KUBERNETES:
        fields.reject_unknown_keys(
            (*_KNOWN, "degraded", *cluster_config.KEYS), (*ANSWER_KEYS, *SIMULATED_KEYS, *cluster_config.ANSWER_KEYS)
        )
    else:
        others = [key for key in body if key in cluster_config.KEYS and key not in _KNOWN]
        fields.reject_unknown_keys((*_KNOWN, *SIMULATED_KEYS), (*ANSWER_KEYS, *others))
        for key in others:
            fields.add_fault(
                key, Fault.UNKNOWN_KEY,
                f"is a key of clusters of the type {KUBERNETES}; this one is {SIMULATED}. The type of a new cluster is "
                "given with it.",
            )  # fmt: skip
    if not _NAME.fullmatch(name) or len(name) > 63:
        faults.append(
            Violation(
                "name",
                Fault.BAD_NAME,
                "The name of a cluster must have lower-case letters, digits and hyphens, "
                "a letter first, a letter or digit last, at most 63.",
            )
        )
    namespace = fields.read_text("namespace") if fields.is_given("namespace") else None
    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        fields.add_fault(
            "namespace", Fault.BAD_VALUE, "must have 1 to 63 lower-case letters, digits and inner hyphens."
        )
    is_simulated = present_kind != KUBERNETES
    spec = BackendSpec(
        kind=present_kind,
        namespace=namespace,
        description=fields.read_text("description") if fields.is_given("description") else None,
        nodes=_nodes(fields) if is_simulated and fields.is_given("nodes") else None,
        auto_end=fields.boolean("auto_end") if is_simulated and fields.is_given("auto_end") else None,
        offline=fields.boolean("offline") if fields.is_given("offline") else None,
        cluster=None if is_simulated else cluster_config.read_cluster(fields),
        policy=_policy(fields, body, POLICY_DEFAULTS if is_simulated else ("degraded",)),
        flavors=read_flavors(fields, "flavors") if fields.is_given("flavors") else None,
    )
    return spec, faults


def _policy(fields: FieldReader, body: Mapping[str, Any], keys: Collection[str]) -> dict[str, int | str | None]:
    """The given settings of the policy among these keys."""
    found: dict[str, int | str | None] = {
        key: fields.whole_number(key, 0, minimum=0, maximum=MAX_POLICY_SECONDS) if fields.is_given(key) else None
        for key in POLICY_TIMES
        if key in body and key in keys
    }
    for key, rules in _RULES.items():
        if key in body and key in keys:
            rule = found[key] = fields.field(key).text()
            if rule is not None and rule not in tuple(rules):
                fields.add_fault(key, Fault.BAD_VALUE, f"must be one of {', '.join(rules)}.")
    return found


def _kind(fields: FieldReader, present: str | None) -> str:
    """The requested type; an existing backend keeps its type."""
    kind = fields.read_text("type", present or SIMULATED)
    if kind not in BACKEND_TYPES:
        fields.add_fault("type", Fault.BAD_VALUE, f"must be one of {', '.join(BACKEND_TYPES)}.")
        return present or SIMULATED
    if present is not None and kind != present:
        fields.add_fault("type", Fault.BAD_VALUE, f"stays {present}: make another cluster and move the pools there.")
        return present
    return kind


def _nodes(fields: FieldReader) -> tuple[NodeSpec, ...]:
    rows = fields.nested_list("nodes")
    if len(rows) > MAX_NODES:
        fields.add_fault("nodes", Fault.TOO_MANY, f"has {len(rows):,} entries; the most is {MAX_NODES:,}.")
        return ()
    nodes, seen = [], set()
    for row in rows:
        node = _node(row)
        if node.name in seen:
            row.add_fault("name", Fault.DUPLICATE_NAME, "is given twice; each node has its own name.")
        seen.add(node.name)
        nodes.append(node)
    return tuple(nodes)


def _node(row: FieldReader) -> NodeSpec:
    row.reject_unknown_keys(NODE["properties"], NODE_ANSWER_KEYS)
    for key in NODE["required"]:
        if not row.is_given(key):
            row.add_fault(key, Fault.MISSING, "is missing.")
    name = row.read_text("name")
    if row.is_given("name") and not _NODE_NAME.fullmatch(name):
        row.add_fault(
            "name", Fault.BAD_NAME, "must be a host name: lower-case letters, digits, hyphens and dots, at most 253."
        )
    platform = row.read_text("platform", DEFAULT_PLATFORM)
    if not is_platform_name(platform):
        row.add_fault("platform", Fault.BAD_NAME, f"must have {PLATFORM_RULE}.")
    size = "a size such as 512Gi or 1Ti"
    return NodeSpec(
        name=name,
        gpus=row.whole_number("gpus", 0, minimum=0, maximum=MAX_UNITS),
        cpu=row.whole_number("cpu", DEFAULT_CPU, minimum=0, maximum=MAX_UNITS),
        memory_bytes=row.parsed_text("memory", parse_size, DEFAULT_MEMORY, size),
        storage_bytes=row.parsed_text("storage", parse_size, DEFAULT_STORAGE, size),
        platform=platform,
        labels=read_labels(row, "labels"),
    )
