"""GPUs that other pods hold by ResourceClaims."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.domain.cluster.claims import claimed_devices, count_listed_gpus, devices_by_claim, trim_claim
from scheduling.domain.cluster.node import (
    ForeignUsage,
    foreign_usage_by_node,
    gpus_of_others,
    read_node,
    trim_pod,
)


def claim(
    name: str, *devices: str, namespace: str = "ns", driver: str = "gpu.nvidia.com", **more: Any
) -> dict[str, Any]:
    results = [{"driver": driver, "pool": "n1", "device": device, **more} for device in devices]
    allocation = {"devices": {"results": results}} if devices else None
    return {
        "metadata": {"name": name, "namespace": namespace},
        "status": {"allocation": allocation} if allocation else {},
    }


def pod(*claims: str, made: dict[str, str] | None = None, at: str = "n1") -> dict[str, Any]:
    """`made`: the claims that Kubernetes has made from templates, by their names in the pod."""
    named = [{"name": name, "resourceClaimName": name} for name in claims]
    templates = [{"name": name, "resourceClaimTemplateName": "t"} for name in made or {}]
    statuses = [{"name": name, "resourceClaimName": real} for name, real in (made or {}).items()]
    return {
        "metadata": {"namespace": "ns", "labels": None},
        "spec": {"nodeName": at, "containers": [], "resourceClaims": named + templates},
        "status": {"phase": "Running", "resourceClaimStatuses": statuses},
    }


def device_list(*names: str, driver: str = "gpu.nvidia.com", kind: str = "gpu") -> dict[str, Any]:
    devices = [{"name": name, "attributes": {"type": {"string": kind}}} for name in names]
    return {"spec": {"nodeName": "n1", "driver": driver, "devices": devices}}


def test_a_pod_has_the_gpus_of_its_claims_and_of_those_made_for_it() -> None:
    claims = [claim("a", "gpu-0", "gpu-1"), claim("b-x7", "gpu-2"), claim("elsewhere", "gpu-3", namespace="other")]
    claims += [claim("nic", "eth-0", driver="dra.net"), claim("looks", "gpu-4", adminAccess=True), claim("waits")]
    for given in (claims, [trim_claim(each) for each in claims]):
        found = devices_by_claim(given)
        body = pod("a", "elsewhere", "nic", "looks", "waits", "missing", made={"b": "b-x7"})
        for seen in (body, trim_pod(body)):
            assert sorted(device for _, device in claimed_devices(seen, found)) == ["gpu-0", "gpu-1", "gpu-2"]


def test_whole_gpus_of_a_list_are_counted() -> None:
    assert count_listed_gpus(device_list("gpu-0", "gpu-1")) == 2
    assert count_listed_gpus(device_list("gpu-0-mig-1", kind="mig")) == 0
    assert count_listed_gpus(device_list("eth-0", driver="dra.net")) == 0
    assert count_listed_gpus({"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0"}]}}) == 1


def test_pods_that_share_a_claim_hold_its_gpus_once() -> None:
    pods, claims = [pod("a"), pod("a"), pod("b", at="n2")], [claim("a", "gpu-0", "gpu-1")]
    found = foreign_usage_by_node(pods, "me", "ns", claims=claims, device_lists=[device_list("gpu-0")])
    assert (found["n1"].gpus, found["n1"].claimed_gpus, found["n1"].listed_gpus) == (0, 2, 1)
    assert found["n1"].notes[-1] == "2 other pods hold 2 GPUs of gpu.nvidia.com by ResourceClaims"
    assert found["n2"].notes == ["1 other pod holds devices by ResourceClaims, which are not counted"]


@pytest.mark.parametrize(
    ("offered", "physical", "listed", "claimed", "held"),
    [
        (8, "8", 8, 2, 2),  # the device plugin and the driver give away the same GPUs
        (8, None, 8, 2, 2),  # without a label, the larger number is what there is
        (4, "8", 4, 2, 0),  # each has GPUs of its own
        (6, "8", 4, 3, 2),  # two may be given away twice
        (0, "8", 8, 2, 0),  # the node offers none of them
        (8, "8", 8, 0, 0),
        (8, "8", 0, 0, 0),
    ],
)
def test_claimed_gpus_are_in_use_where_the_node_offers_them_too(
    offered: int, physical: str | None, listed: int, claimed: int, held: int
) -> None:
    labels = {} if physical is None else {"nvidia.com/gpu.count": physical}
    body = {
        "metadata": {"name": "n1", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(offered)}},
    }
    usage = ForeignUsage(1, claimed_gpus=claimed, listed_gpus=listed)
    assert gpus_of_others(read_node(body), usage.gpus, usage) == 1 + held
