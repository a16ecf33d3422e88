"""The preview of a change of a cluster: its fields and nodes, the pools on it, and their quotas against its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from django.db.models import Q

from pools.admin.confirm_flow import ChangeForm
from pools.admin.object_preview import CONFIGS, ObjectPreview, form_label, form_value
from pools.domain.configuration import cluster_config
from pools.domain.configuration.backend_config import POLICY_DEFAULTS, VictimRule
from pools.domain.configuration.flavors import flavors_of, labels_text, parts_among
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import BackendCapacity, FlavorCapacity
from pools.domain.shortage.degraded import DegradedRule
from pools.domain.values.amounts import gpu_words
from pools.domain.values.byte_sizes import exact_size_text
from pools.domain.values.counting import counted, first_names
from pools.models import Backend, KubernetesSettings, Node, Pool, Reservation
from pools.selectors.quotas.backend_capacity import read_capacities
from pools.services.configuration.backends import BackendResult

_MODE_EFFECTS: Mapping[str, str] = {
    cluster_config.APPLY: "The queues of the cluster are written, and edits of others are reverted.",
    cluster_config.REPORT: "The queues of the cluster are only compared: a change of a quota does not reach it.",
    cluster_config.OFF: "The queues of the cluster are not managed: a change of a quota does not reach it.",
}


_OBSERVED = (
    "The cluster is observed: it is read and never written. Nothing is dispatched, and submissions to its pools are "
    "refused."
)


def _mode_effect(new: Mapping[str, Any]) -> str:
    return _OBSERVED if new["mode"] == cluster_config.OBSERVE else _MODE_EFFECTS[new["sync_mode"]]


def format_node_line(node: Node) -> str:
    """A node as a line of the form."""
    labels = f" labels={labels_text(node.labels)}" if node.labels else ""
    return (
        f"{node.name} {node.gpus} cpu={node.cpu} memory={exact_size_text(node.memory_bytes)} "
        f"storage={exact_size_text(node.storage_bytes)} platform={node.platform}{labels}"
    )


def backend_preview(
    actor: Actor, name: str, form_class: type[ChangeForm], form_words: Mapping[str, Any] | None = None
) -> ObjectPreview[BackendResult]:
    """The preview of a change of the backend `name`, which may not exist yet."""
    return ObjectPreview(
        actor=actor,
        read_state=partial(_state, name),
        label_of=_labels(form_class),
        value_of=form_value(form_class),
        messages=_messages,
        form_words=form_words or {},
    )


def _labels(form_class: type[ChangeForm]) -> Callable[[str], str]:
    label_of = form_label(form_class)

    def node_or_field(path: str) -> str:
        if path.startswith("nodes."):
            return f"Node {path.removeprefix('nodes.')}"
        if path.startswith("flavors."):
            return f"Flavor {path.removeprefix('flavors.')}"
        if path.startswith("queue_pools."):
            return f"Pool of queue {path.removeprefix('queue_pools.')}"
        return {"server": "Address of the cluster"}.get(path) or label_of(path)

    return node_or_field


def _state(name: str) -> dict[str, Any]:
    row = Backend.objects.filter(name=name).first()
    if row is None:
        return {CONFIGS: None, "name": name, "pools": [], "running": 0, "capacity": None, "node_flavors": {}}
    pools = Pool.objects.roots().filter(backend=row, archived=False).order_by("name")
    held = Reservation.objects.filter(Q(pool__backend=row) | Q(pool__parent__backend=row), held_gpus__gt=0)
    return {
        CONFIGS: _configuration(row),
        "name": name,
        "pools": list(pools.values_list("name", flat=True)),
        "running": held.count(),
        "capacity": read_capacities([row.pk]).get(row.pk),
        "node_flavors": dict(row.nodes.order_by("name").values_list("name", "flavor")),
    }


def _configuration(row: Backend) -> dict[str, Any]:
    found: dict[str, Any] = {
        "namespace": row.namespace, "description": row.description, "offline": row.desired_offline,
        "degraded": row.degraded,
    }  # fmt: skip
    if row.flavors:
        found["flavors"] = {
            flavor.name: f"{place}. {labels_text(flavor.node_labels, ', ')}"
            for place, flavor in enumerate(flavors_of(row.flavors), 1)
        }
    if row.kind == Backend.Kind.SIMULATED:
        parts = parts_among(row.flavors)
        nodes = {node.name: format_node_line(node).partition(" ")[2] for node in row.nodes.order_by("name")}
        policy = {key: getattr(row, key) for key in ("auto_end", *POLICY_DEFAULTS)}
        words = {node.name: gpu_words(node.flavor, parts, is_named=False) for node in row.nodes.all()}
        return found | policy | {"nodes": {name: _node_text(text, words[name]) for name, text in nodes.items()}}
    cluster = KubernetesSettings.objects.filter(backend=row).first()
    if cluster is None:
        return found
    keys = ("access", "kubeconfig_file", "context", "server", "scheduler_name", "node_pool_key", "node_pool")
    mark = cluster.credential_mark
    return (
        found
        | {key: getattr(cluster, key) for key in (*keys, "mode", "sync_mode", "queue_pools", "owner_label")}
        | {"kubeconfig": f"stored, fingerprint {mark[:8]}" if mark else ""}
    )


def _node_text(line: str, words: tuple[str, str]) -> str:
    gpus, _, rest = line.partition(" ")
    return f"{gpus} {words[gpus != '1']}, {rest}"


def _messages(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old, new, name = before[CONFIGS], after[CONFIGS], after["name"]
    capacity = after["capacity"]
    if old is None:
        found = _gpus_of_nodes(capacity)
        gpus = f" with {found}" if found else ""
        yield f"Cluster {name} is added{gpus}; no pool is on it yet."
        if "sync_mode" in new:
            yield f"The connection is tried at once. {_mode_effect(new)}"
        return
    if old == new:
        return
    yield _pools_text(name, after["pools"], before["running"])
    former = before["capacity"]
    if capacity and former and capacity.gpus != former.gpus:
        yield (
            f"Its nodes have {counted(capacity.gpus or 0, 'GPU')} instead of {former.gpus or 0}; the quotas of its "
            f"pools are {capacity.quota} together."
        )
    yield from _part_messages(former, capacity)
    yield from _flavor_messages(before["node_flavors"], after["node_flavors"])
    if new["offline"] and not old["offline"]:
        yield "The cluster goes offline: submissions to its pools are accepted and wait; running work continues."
    if old["offline"] and not new["offline"]:
        yield "The cluster comes back: work that waits there may start."
    yield from _policy_messages(old, new)
    if "mode" in new and any(old.get(key) != new[key] for key in ("mode", "sync_mode")):
        yield _mode_effect(new)
    if old.get("mode") == cluster_config.OBSERVE != new.get("mode"):
        yield "An account that only reads is not enough for that: give it the rights of the manifest before."
    if old.get("queue_pools") != new.get("queue_pools") and new["mode"] == cluster_config.OBSERVE:
        yield (
            "Work of these queues counts in these pools from the next look on. What is on record elsewhere ends there, "
            "and the work goes on."
        )
    if old.get("server") and old["server"] != new.get("server"):
        yield f"OSMO Admin connects to {new.get('server')} instead of {old['server']}."


def _gpus_of_nodes(capacity: BackendCapacity | None) -> str:
    """`16 GPUs and 32 t4 parts of GPUs`; empty without any."""
    whole = [counted(capacity.gpus, "GPU")] if capacity and capacity.gpus else []
    parts = [_parts_text(flavor, each.gpus) for flavor, each in _parts(capacity).items() if each.gpus]
    return " and ".join(whole + parts)


def _part_messages(before: BackendCapacity | None, after: BackendCapacity | None) -> Iterator[str]:
    """What changes of the nodes that share their GPUs."""
    former = _parts(before)
    for flavor, each in _parts(after).items():
        gpus = former[flavor].gpus if flavor in former else 0
        if each.gpus != gpus:
            yield (
                f"Its nodes have {_parts_text(flavor, each.gpus)} instead of {gpus}; the quotas of its pools are "
                f"{each.quota} together."
            )


def _parts(capacity: BackendCapacity | None) -> dict[str, FlavorCapacity]:
    return {flavor: each for flavor, each in (capacity.flavors if capacity else {}).items() if each.is_of_parts}


def _parts_text(flavor: str, gpus: int) -> str:
    return counted(gpus, *gpu_words(flavor, [flavor]))


def _flavor_messages(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """The nodes whose flavor changes."""
    changed: dict[tuple[str, str], list[str]] = {}
    for name, flavor in after.items():
        if (former := before.get(name, flavor)) != flavor:
            changed.setdefault((former, flavor), []).append(name)
    for (former, flavor), names in changed.items():
        yield (
            f"{counted(len(names), 'node')} ({first_names(names)}) of flavor {former} "
            f"{'become' if len(names) > 1 else 'becomes'} {flavor}."
        )
    if changed:
        yield "Work that runs on these nodes stays counted where it was admitted, until it ends."


def _pools_text(name: str, pools: list[str], running: int) -> str:
    if not pools:
        return f"No pool is on cluster {name}."
    return (
        f"{len(pools)} pool{'s are' if len(pools) > 1 else ' is'} on cluster {name} "
        f"({first_names(pools)}), with {counted(running, 'running workflow')}."
    )


def _policy_messages(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if "auto_end" in new and old["auto_end"] != new["auto_end"]:
        yield (
            "Running work ends by itself after its run time."
            if new["auto_end"]
            else "Running work ends only when somebody reports its end."
        )
    if old.get("reserve_after") != new.get("reserve_after"):
        after = new["reserve_after"]
        yield (
            "No gang gets a start reservation any more."
            if after is None
            else f"The first gang of a leaf gets a start reservation after a wait of {after} seconds."
        )
    if old.get("ageing") != new.get("ageing"):
        after = new["ageing"]
        yield (
            "HIGH work of a leaf comes before its NORMAL work, however long that waits."
            if after is None
            else f"NORMAL work comes before HIGH work of its leaf that is {after} seconds younger."
        )
    if old.get("victims") != new.get("victims"):
        yield (
            "Of the work that the rules allow equally, the set that is enough and loses least is preempted."
            if new["victims"] == VictimRule.LEAST_LOST
            else "Of the work that the rules allow equally, the youngest is preempted first."
        )
    if old.get("degraded") != new.get("degraded"):
        yield (
            "With fewer GPUs than their quotas, the pools with the largest weight have theirs first."
            if new["degraded"] == DegradedRule.ORDERED
            else "With fewer GPUs than their quotas, each pool has the same part of its quota."
        )
