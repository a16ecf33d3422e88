"""Nodes in the form of `osmo resource` (design, O6): numbers as texts, usage rounded up, capacity down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pools.domain.configuration.platforms import platforms_of
from pools.domain.people.roles import Actor
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.byte_sizes import size_text
from pools.models import Backend
from pools.selectors.pool_lists import ListedPool, list_pools
from scheduling.selectors.cluster.nodes import NodeUsage, read_node_usage

RESERVED, SHARED, UNUSED = "RESERVED", "SHARED", "UNUSED"


class AmountFields(TypedDict):
    """Amounts as texts, as Kubernetes writes them."""

    storage: str
    cpu: str
    memory: str
    gpu: str


ExposedFields = TypedDict(
    "ExposedFields",
    {"node": str, "pool/platform": list[str], "storage": str, "cpu": str, "memory": str, "gpu": str},
)
ByPlatform = dict[str, dict[str, AmountFields]]


class PlatformConfigAnswer(TypedDict):
    """What tasks may do on a platform of a pool."""

    host_network: bool
    privileged: bool
    default_mounts: list[str]
    allowed_mounts: list[str]


class ResourceAnswer(TypedDict):
    """A node of `osmo resource`; what follows from its pool is there by pool and platform."""

    hostname: str
    exposed_fields: ExposedFields
    taints: list[dict[str, str]]
    usage_fields: AmountFields
    non_workflow_usage_fields: Annotated[dict[str, str], "What foreign pods use; empty for a simulated node."]
    allocatable_fields: AmountFields
    platform_allocatable_fields: ByPlatform
    platform_available_fields: ByPlatform
    platform_workflow_allocatable_fields: ByPlatform
    config_fields: dict[str, dict[str, PlatformConfigAnswer]]
    label_fields: dict[str, str]
    flavor: NotRequired[Annotated[str, "Where the backend names flavors."]]
    notes: list[str]
    conditions: Annotated[list[str] | None, "Null for a simulated node."]
    pool_platform_labels: dict[str, list[str]]
    backend: str
    resource_type: Annotated[str, Literal["RESERVED", "SHARED", "UNUSED"]]


class ResourceListAnswer(TypedDict):
    """Nodes."""

    resources: list[ResourceAnswer]


def list_node_resources(
    actor: Actor,
    *,
    pools: Collection[str] | None = None,
    platforms: Collection[str] | None = None,
    node: str | None = None,
) -> list[ResourceAnswer]:
    """The nodes of the pools that `actor` may see (of `pools` only, of `platforms` only, of one name only).

    Nodes without a pool are for readers of the whole installation. The nodes of a subpool are those of its pool; a
    subpool is shown with its nodes only if `pools` contains it.
    """
    trees = list_pools(actor, names=pools)
    members: dict[tuple[int, str], list[ListedPool]] = defaultdict(list)
    for tree in trees:
        for platform in platforms_of(tree.root.config):
            members[tree.root.backend_id, platform].append(tree)
    backends = dict(Backend.objects.values_list("pk", "name"))
    found = []
    for use in read_node_usage(node):
        mine = members.get((use.backend_id, use.platform), [])
        if platforms is not None and use.platform not in platforms:
            continue
        if mine or (pools is None and actor.can_read_all):
            found.append(_resource_body(use, mine, pools, backends.get(use.backend_id, "")))
    return found


def _resource_body(
    use: NodeUsage, trees: Collection[ListedPool], requested_names: Collection[str] | None, backend: str
) -> ResourceAnswer:
    names = _pool_names(trees, requested_names)
    config = {name: {use.platform: _platform_config(tree, use.platform)} for name, tree in names.items()}
    allocatable = _amount_fields(use.cpu, use.gpus, use.memory_bytes, use.storage_bytes, round_up=False)
    for_workflows = _amount_fields(
        max(0, use.cpu - use.other_cpu),
        max(0, use.gpus - use.other_gpus),
        max(0, use.memory_bytes - use.other_memory),
        max(0, use.storage_bytes - use.other_storage),
        round_up=False,
    )
    available = _amount_fields(
        use.free(use.cpu, use.used_cpu, use.ending_cpu, use.other_cpu),
        use.free_gpus,
        use.free(use.memory_bytes, use.used_memory, use.ending_memory, use.other_memory),
        use.free(use.storage_bytes, use.used_storage, use.ending_storage, use.other_storage),
        round_up=False,
    )
    body: ResourceAnswer = {
        "hostname": use.name,
        "exposed_fields": {
            "node": use.name,
            "pool/platform": [f"{name}/{use.platform}" for name in names],
            **allocatable,
        },
        "taints": [dict(taint) for taint in use.taints],
        "usage_fields": _amount_fields(
            use.used_cpu + use.ending_cpu,
            use.used_gpus + use.ending_gpus,
            use.used_memory + use.ending_memory,
            use.used_storage + use.ending_storage,
            round_up=True,
        ),
        "non_workflow_usage_fields": _foreign_usage(use),
        "allocatable_fields": allocatable,
        "platform_allocatable_fields": _by_pool(allocatable, names, use),
        "platform_available_fields": _by_pool(available, names, use),
        "platform_workflow_allocatable_fields": _by_pool(for_workflows, names, use),
        "config_fields": config,
        "label_fields": dict(use.labels or {}),
        "notes": list(use.notes),
        "conditions": None if use.conditions is None else list(use.conditions),
        "pool_platform_labels": {name: [use.platform] for name in names},
        "backend": backend,
        "resource_type": UNUSED if not trees else RESERVED if len(trees) == 1 else SHARED,
    }
    if use.flavor:
        body["flavor"] = use.flavor
    return body


def _by_pool(amounts: AmountFields, trees: Mapping[str, ListedPool], use: NodeUsage) -> ByPlatform:
    """The amounts for each pool; without the GPUs of a flavor that the pool has no quota of, because only its work
    without GPUs may start there."""
    flavor = use.flavor or DEFAULT_FLAVOR
    without: AmountFields = {**amounts, "gpu": "0"}
    return {name: {use.platform: amounts if flavor in tree.root.flavors else without} for name, tree in trees.items()}


def _foreign_usage(use: NodeUsage) -> dict[str, str]:
    """The usage of foreign pods under the names of Kubernetes; empty for a simulated node."""
    amounts = {
        "nvidia.com/gpu": str(use.other_gpus),
        "cpu": str(use.other_cpu),
        "memory": size_text(use.other_memory, round_up=True),
        "ephemeral-storage": size_text(use.other_storage, round_up=True),
    }
    return {} if use.conditions is None else amounts


def _pool_names(trees: Collection[ListedPool], requested_names: Collection[str] | None) -> dict[str, ListedPool]:
    """The names under which the pools of a node are shown, in order."""
    if requested_names is None:
        return {tree.root.name: tree for tree in trees}
    by_name = {name: tree for tree in trees for name in (tree.root.name, *(row.name for row in tree.subpools))}
    return {name: by_name[name] for name in sorted(requested_names) if name in by_name}


def _platform_config(tree: ListedPool, platform: str) -> PlatformConfigAnswer:
    body: Mapping[str, Any] = platforms_of(tree.root.config)[platform]
    return {
        "host_network": body.get("host_network_allowed", False),
        "privileged": body.get("privileged_allowed", False),
        "default_mounts": [],
        "allowed_mounts": body.get("allowed_mounts", []),
    }


def _amount_fields(cpu: int, gpus: int, memory: int, storage: int, *, round_up: bool) -> AmountFields:
    return {
        "storage": size_text(storage, round_up=round_up),
        "cpu": str(cpu),
        "memory": size_text(memory, round_up=round_up),
        "gpu": str(gpus),
    }
