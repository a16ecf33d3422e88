"""Kubernetes ResourceQuotas → pools with a maximum, one for each namespace.

A ResourceQuota is a ceiling and guarantees nothing. Of GPUs only keys that begin with `requests.` have an effect in
Kubernetes. Several quotas of a namespace all hold, so the least is the ceiling.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.values.counting import counted
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.moving_in.kubernetes.nodes import GPU_RESOURCES, read_nodes
from scheduling.moving_in.kubernetes.objects import KubernetesObject, read_objects, report_other_kind
from scheduling.moving_in.names import NameRegister, longest_pool_name
from scheduling.moving_in.options import GuaranteeFrom, ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome, SourcePlace
from scheduling.moving_in.simulated_backend import FoundNodes, add_backend
from scheduling.moving_in.source_text import SourceText

KINDS: Final = "ResourceQuota, Namespace and Node"
NODES_HINT: Final = "Add them to the files: kubectl get nodes -o yaml."
REQUESTS: Final = "requests."


@dataclass(slots=True)
class _Ceilings:
    """The ceilings of one namespace, one for each quota and resource: a resource has the least of its own."""

    by_resource: dict[str, list[tuple[int, SourcePlace]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def gpus(self) -> int:
        """GPUs of all makers together."""
        return sum(min(rows)[0] if rows else 0 for rows in self._amounts())

    def _amounts(self) -> list[list[tuple[int, str]]]:
        return [[(amount, str(place)) for amount, place in rows] for rows in self.by_resource.values()]

    @property
    def place(self) -> SourcePlace:
        """The place of the first."""
        return next(iter(self.by_resource.values()))[0][1]


def read_resource_quotas(sources: list[SourceText], result: ImportResult, options: ImportOptions) -> None:
    """Read the quotas of namespaces. Raises BadSource."""
    by_kind: dict[str, list[KubernetesObject]] = defaultdict(list)
    for each in read_objects(sources, result):
        by_kind[each.kind].append(each)
    nodes = read_nodes(by_kind.pop("Node", []), result)
    add_backend(nodes, result, options, hint=NODES_HINT)
    ceilings: dict[str, _Ceilings] = {}
    for each in by_kind.pop("ResourceQuota", []):
        _read_quota(each, ceilings, result)
    namespaces = by_kind.pop("Namespace", [])
    _add_pools(ceilings, nodes, result, options)
    for each in namespaces:
        if each.name in ceilings:
            result.became(each.place(), "its quota is a pool.")
        else:
            result.state(each.place(), "the namespace has no quota of GPUs, so there is no pool for it.")
        each.used.update(("kind", "metadata.name"))
        each.report_rest(result, lambda _path: (PartOutcome.STATE, "a value of the namespace that quotas do not use."))
    for rest in by_kind.values():
        for each in rest:
            report_other_kind(each, result, KINDS)
    if not ceilings:
        result.decide(SourcePlace("options", 1), "no ResourceQuota bounds GPUs, so there are no pools.")


def _read_quota(each: KubernetesObject, ceilings: dict[str, _Ceilings], result: ImportResult) -> None:
    if not each.namespace:
        raise BadSource.at(each.place(), "a ResourceQuota has a namespace.")
    is_scoped = bool(each.take_list("spec.scopes")) or bool(each.take_map("spec.scopeSelector"))
    each.used.update(("kind", "metadata.name", "metadata.namespace", "spec.scopes", "spec.scopeSelector"))
    if is_scoped:
        result.decide(
            each.place("spec"),
            "the quota bounds only pods of its scopes, and a maximum bounds all work: it was not imported.",
        )
    for key, value in each.take_map("spec.hard").items():
        path = f"spec.hard.{key}"
        each.used.add(path)
        if key in GPU_RESOURCES or (key.startswith("limits.") and key.removeprefix("limits.") in GPU_RESOURCES):
            result.decide(
                each.place(path),
                f"the key has no effect in Kubernetes without {REQUESTS}, so it bounds nothing and was not imported. "
                "If a ceiling was meant, give the pool a maximum.",
            )
        elif key.removeprefix(REQUESTS) in GPU_RESOURCES:
            amount = _gpus(each, path, value, result)
            if is_scoped:
                result.state(each.place(path), f"{counted(amount, 'GPU')} for the scopes alone, not imported.")
            else:
                ceilings.setdefault(each.namespace, _Ceilings()).by_resource[key].append((amount, each.place(path)))
        elif "mig-" in key or "deviceclass" in key or "resourceclaim" in key:
            result.lost(each.place(path), "parts of GPUs and claims of devices have no quota here; whole GPUs have.")
        else:
            result.lost(each.place(path), "pools have a quota of GPUs only; keep this quota in the namespace.")
    each.report_rest(result, lambda _path: None)


def _gpus(each: KubernetesObject, path: str, value: Any, result: ImportResult) -> int:
    number = read_quantity(value)
    if number is None or number < 0:
        raise BadSource.at(each.place(path), "this is not an amount of GPUs such as 8.")
    whole = math.floor(number)
    if whole != number:
        result.decide(each.place(path), f"quotas are whole GPUs: {float(number)} became {whole}.")
    return whole


def _add_pools(ceilings: dict[str, _Ceilings], nodes: FoundNodes, result: ImportResult, options: ImportOptions) -> None:
    names = NameRegister("pool", longest_pool_name(options.namespace), result)
    is_guaranteed = options.guarantee is GuaranteeFrom.LIMIT
    for namespace, found in ceilings.items():
        for key, rows in found.by_resource.items():
            least = min(amount for amount, _place in rows)
            for amount, place in rows:
                if len(rows) > 1:
                    text = "is the least" if amount == least else f"does not count, because another has {least}"
                    result.became(place, f"{len(rows)} quotas of {namespace} bound {key}: {amount} {text}.")
        name = result.queue_pools[namespace] = names.claim(namespace, found.place)
        quota = found.gpus if is_guaranteed else 0
        gpu = {"guarantee": quota, "maximum": found.gpus}
        body = {"backend": options.backend, "resources": {"gpu": gpu}, "description": f"Namespace {namespace}"}
        result.add(OwnedKind.POOL, name, body, found.place)
        result.became(found.place, f"pools.{name} has the quota {quota} and the maximum {found.gpus}.")
    total = sum(found.gpus for found in ceilings.values())
    if ceilings:
        place = next(iter(ceilings.values())).place
        known = f"the nodes have {counted(nodes.gpus, 'GPU')}" if nodes.nodes else "the nodes are not known"
        result.decide(
            place,
            f"the ceilings are {counted(total, 'GPU')} together, and {known}. A ResourceQuota guarantees nothing: "
            + (
                "with --guarantee limit each is also the quota. Lower them to what the nodes have."
                if is_guaranteed
                else "all pools have the quota 0, so only LOW work runs. Give quotas, or import with --guarantee limit."
            ),
        )
