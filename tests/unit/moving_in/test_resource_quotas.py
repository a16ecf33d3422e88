"""ResourceQuotas as maxima: the least of several, keys without effect, scopes, the sum beside the nodes."""

from __future__ import annotations

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.options import GuaranteeFrom
from scheduling.moving_in.result import BadSource, PartOutcome
from tests.support.imports import gpu, imported, silent_keys, told


def quota(name: str, namespace: str, hard: str, more: str = "") -> str:
    """A ResourceQuota."""
    return (
        f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        f"spec: {{hard: {{{hard}}}{more}}}\n"
    )


def read(*documents: str, **options):
    """The import of these documents."""
    return imported("resourcequota", "---\n".join(documents), **options)


def test_a_ceiling_guarantees_nothing_unless_it_is_asked_for() -> None:
    text = quota("a", "team", 'requests.nvidia.com/gpu: "8"')
    assert gpu(read(text), "team") == (0, 8, 1)
    assert gpu(read(text, guarantee=GuaranteeFrom.LIMIT), "team") == (8, 8, 1)
    assert "guarantees nothing" in told(read(text), PartOutcome.TO_DECIDE)


def test_of_several_quotas_the_least_counts() -> None:
    result = read(*(quota(f"q{n}", "team", f"requests.nvidia.com/gpu: {n}") for n in (8, 3, 5)))
    assert gpu(result, "team") == (0, 3, 1)
    assert "8 does not count, because another has 3" in told(result, PartOutcome.BECAME)


def test_a_part_of_a_gpu_is_rounded_aloud() -> None:
    result = read(quota("a", "team", "requests.nvidia.com/gpu: 3500m"))
    assert gpu(result, "team") == (0, 3, 1)
    assert "3.5 became 3" in told(result, PartOutcome.TO_DECIDE)


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "limits.nvidia.com/gpu"])
def test_a_key_without_requests_bounds_nothing(key: str) -> None:
    result = read(quota("a", "team", f"{key}: 8"))
    assert not [name for kind, name in result.objects if kind is OwnedKind.POOL]
    assert "has no effect in Kubernetes" in told(result, PartOutcome.TO_DECIDE)


def test_a_quota_of_a_scope_is_not_a_ceiling_of_all_work() -> None:
    for more in (", scopes: [BestEffort]", ", scopeSelector: {matchExpressions: [{operator: In}]}"):
        result = read(quota("a", "team", "requests.nvidia.com/gpu: 8", more))
        assert (OwnedKind.POOL, "team") not in result.objects
        assert "only pods of its scopes" in told(result, PartOutcome.TO_DECIDE)


def test_the_sum_stands_beside_the_nodes() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {nvidia.com/gpu: 4}}\n"
    result = read(node, *(quota("q", name, "requests.nvidia.com/gpu: 4") for name in ("a", "b")))
    assert "the ceilings are 8 GPUs together, and the nodes have 4 GPUs" in told(result, PartOutcome.TO_DECIDE)


def test_other_keys_and_namespaces_without_gpus_are_named() -> None:
    result = read(
        quota("a", "team", "pods: 3, requests.nvidia.com/gpu: 1, requests.nvidia.com/mig-1g.10gb: 2"),
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: idle}\n",
    )
    lost = told(result, PartOutcome.NO_COUNTERPART)
    assert "spec.hard.pods: pools have a quota of GPUs only" in lost
    assert "mig-1g.10gb: parts of GPUs" in lost
    assert "Namespace idle" in told(result, PartOutcome.STATE)
    with pytest.raises(BadSource):
        read(quota("a", "team", "requests.nvidia.com/gpu: -1"))


def test_every_key_does_something_or_stands_in_the_report() -> None:
    text = quota("a", "team", "pods: 3, requests.nvidia.com/gpu: 1, nvidia.com/gpu: 2", ", scopes: [x], new: 1")
    assert silent_keys("resourcequota", text + "status: {used: {pods: 1}}\n") == [".status.used", ".status.used.pods"]
