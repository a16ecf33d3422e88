"""Nodes and pods of other software as an API server shows them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pools.domain.configuration.flavors import Flavor
from scheduling.domain.cluster.devices import NodeLabels, avoid_shared_gpus
from scheduling.domain.cluster.node import (
    ForeignUsage,
    NodeAmounts,
    count_in_flavor,
    foreign_usage_by_node,
    read_node,
    trim_pod,
)
from scheduling.domain.cluster.quantities import read_quantity

READY = {"type": "Ready", "status": "True"}


def node(*conditions: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "7910m", "memory": "64Gi", "ephemeral-storage": "100e9", "nvidia.com/gpu": "8"},
            "conditions": list(conditions),
        },
    }


def test_a_machine() -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "timeAdded": "2026-11-01T12:00:00Z"}
    found = read_node(node(READY, labels={"osmo.platform": "h100"}, taints=[taint]))
    assert found.amounts == NodeAmounts(8, 7, 64 * 2**30, 100_000_000_000)
    assert (found.name, found.platform, found.ready, found.conditions) == ("n1", "h100", True, ("Ready",))
    assert found.taints == ({"key": "nvidia.com/gpu", "effect": "NoSchedule"},)


def test_a_node_that_accepts_no_pods() -> None:
    assert not read_node(node(READY | {"status": "Unknown"})).ready
    cordoned = read_node(node(READY, unschedulable=True))
    assert (cordoned.ready, cordoned.conditions) == (False, ("Ready", "SchedulingDisabled"))


def test_a_node_without_data_has_no_capacity() -> None:
    found = read_node({"metadata": {"name": "n1"}})
    assert (found.amounts, found.platform, found.ready) == (NodeAmounts(), "default", False)


def pod(at: str, *requests: dict[str, str], labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    containers = [{"resources": {"requests": each}} for each in requests]
    return {
        "metadata": {"labels": labels, "namespace": "ns"},
        "spec": {"nodeName": at, "containers": containers} | more,
        "status": {"phase": "Running"},
    }


def test_pods_of_others_use_their_requests() -> None:
    ours = pod("n1", {"nvidia.com/gpu": "8"}, labels={"osmo.house": "me"})
    done = pod("n1", {"nvidia.com/gpu": "4"}) | {"status": {"phase": "Succeeded"}}
    waits = pod("", {"nvidia.com/gpu": "4"})
    other_installation = pod("n1", {"nvidia.com/gpu": "2"}, labels={"osmo.house": "other"})
    pretends = pod("n1", {"nvidia.com/gpu": "1"}, labels={"osmo.house": "me"})
    pretends["metadata"]["namespace"] = "elsewhere"
    service = pod("n1", {"cpu": "250m", "memory": "1Mi"}, {"cpu": "100m"})
    pods = [ours, done, waits, other_installation, pretends, service]
    for seen in (pods, [trim_pod(each) for each in pods]):
        assert foreign_usage_by_node(seen, "me", "ns") == {"n1": ForeignUsage(3, 1, 2**20, 0)}


def test_init_containers_count_where_they_are_larger_and_sidecars_always() -> None:
    init = [
        {"resources": {"limits": {"cpu": "4"}}},
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
    ]
    whole = pod("n1", {"cpu": "2"}, initContainers=init, overhead={"cpu": "1"})
    assert foreign_usage_by_node([whole], "me", "ns") == {"n1": ForeignUsage(0, 5, 0, 0)}
    assert foreign_usage_by_node([trim_pod(whole)], "me", "ns") == {"n1": ForeignUsage(0, 5, 0, 0)}


@pytest.mark.parametrize(
    ("labels", "notes"),
    [
        ({}, ["1 other pod asks for parts of GPUs by annotations, which are not counted"]),
        ({"runai-gpu-group": "7"}, []),  # KAI holds the whole GPU by a pod of its own
    ],
)
def test_parts_of_gpus_of_other_pods_are_said_where_no_pod_reserves_the_gpu(
    labels: dict[str, str], notes: list[str]
) -> None:
    body = pod("n1", {"cpu": "1"}, labels=labels)
    body["metadata"]["annotations"] = {"gpu-fraction": "0.5", "checksum": "x" * 1000}
    for seen in (body, trim_pod(body)):
        assert foreign_usage_by_node([seen], "me", "ns")["n1"].notes == notes
    assert "checksum" not in trim_pod(body)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("16", Fraction(16)),
        (16, Fraction(16)),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("100u", Fraction(1, 10_000)),
        ("1e3", Fraction(1000)),
        ("5E-1", Fraction(1, 2)),
        ("2E", Fraction(2 * 10**18)),
        ("-1", Fraction(-1)),
        ("", None),
        ("1 Gi", None),
        ("1KI", None),
        (None, None),
        (True, None),
    ],
)
def test_quantities(text: object, amount: Fraction | None) -> None:
    assert read_quantity(text) == amount


REST = (
    "parts are not whole GPUs, so they do not count and our pods with GPUs do not start here; "
    "the label osmo.shared-gpus=whole of the node lets each part count as one"
)


@pytest.mark.parametrize(
    ("labels", "offers", "gpus", "shared", "notes"),
    [
        ({}, {"nvidia.com/gpu": "8"}, 8, (None, None), ()),
        ({"count": "8", "replicas": "1", "sharing-strategy": "none"}, {"nvidia.com/gpu": "8"}, 8, (None, None), ()),
        (
            {"count": "4", "replicas": "8", "product": "A100-SHARED"},
            {"nvidia.com/gpu": "32"},
            0, (4, 32),
            (f"4 GPUs, advertised as 32 (shared by time slicing): {REST}",),
        ),
        (
            {"replicas": "8"}, {"nvidia.com/gpu": "32"}, 0, (4, 32),
            (f"4 GPUs, advertised as 32 (shared by time slicing): {REST}",),
        ),
        (  # half of the parts are unhealthy
            {"count": "8", "replicas": "2", "sharing-strategy": "mps"}, {"nvidia.com/gpu": "8"}, 0, (8, 8),
            (f"8 GPUs, advertised as 8 (shared by MPS): {REST}",),
        ),
        (
            {"product": "A100-SHARED"}, {"nvidia.com/gpu": "8"}, 0, (None, 8),
            (f"GPUs advertised as 8 (shared by time slicing): {REST}",),
        ),
        (  # only some of the devices are shared; the labels are of before
            {"count": "1"}, {"nvidia.com/gpu": "5"}, 0, (1, 5),
            (f"1 GPU, advertised as 5 (shared by time slicing): {REST}",),
        ),
        (
            {"count": "8"}, {"nvidia.com/gpu": "7"}, 7, (None, None),
            ("8 GPUs, of which 7 are offered to pods as whole GPUs",),
        ),
        (
            {"count": "4", "replicas": "8"},
            {"nvidia.com/gpu.shared": "32"},
            0, (4, 32),
            (
                "4 GPUs, of which 0 are offered to pods as whole GPUs",
                "32 nvidia.com/gpu.shared: not counted, and our work cannot ask for them",
            ),
        ),
        (
            {}, {"amd.com/gpu": "8"}, 0, (None, None),
            ("8 amd.com/gpu: not counted, and our work cannot ask for them",),
        ),
        ({}, {"amd.com/gpu": "0", "hugepages-2Mi": "4Gi"}, 0, (None, None), ()),
        ({"count": "many", "replicas": "-1"}, {"nvidia.com/gpu": "8"}, 8, (None, None), ()),
        ({"count": "4", "replicas": "8"}, {"nvidia.com/gpu": "0"}, 0, (None, None),
         ("4 GPUs, of which 0 are offered to pods as whole GPUs",)),
        (
            {"product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "count": "7"},
            {"nvidia.com/gpu": "7"},
            0, (None, 7),
            (f"GPUs advertised as 7 (shared by MIG): {REST}",),
        ),
        (  # MIG mixed: the GPUs beside the parts are whole
            {"count": "4"}, {"nvidia.com/gpu": "3", "nvidia.com/mig-1g.5gb": "7"}, 3, (4, 10),
            (
                "4 GPUs, of which 3 are offered to pods as whole GPUs",
                "7 nvidia.com/mig-1g.5gb: not counted, and our work cannot ask for them",
            ),
        ),
    ],
)  # fmt: skip
def test_devices_that_are_not_whole_gpus_are_said(
    labels: dict[str, str],
    offers: dict[str, str],
    gpus: int,
    shared: tuple[int | None, int | None],
    notes: tuple[str, ...],
) -> None:
    """`shared`: the GPUs that the node has, and those that it advertises."""
    discovered = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    body = node(READY, labels={"nvidia.com/mig.strategy": "single", **discovered})
    body["status"]["allocatable"] = {"cpu": "8", **offers}
    found = read_node(body)
    assert (found.amounts.gpus, (found.physical_gpus, found.advertised_gpus)) == (gpus, shared)
    assert found.notes == notes


def test_by_its_label_each_part_of_a_node_counts_as_a_whole_gpu() -> None:
    labels = {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "8", "osmo.shared-gpus": "whole"}
    body = node(READY, labels=labels)
    body["status"]["allocatable"] = {"nvidia.com/gpu": "32"}
    found = read_node(body)
    assert (found.amounts.gpus, found.physical_gpus, found.advertised_gpus) == (32, 4, 32)
    (note,) = found.notes
    assert note.endswith(": each part counts as a whole GPU, as its label osmo.shared-gpus says")
    body["metadata"]["labels"]["osmo.shared-gpus"] = "no"
    assert read_node(body).amounts.gpus == 0


WHOLE_FLAVOR = Flavor("h100", {"gpu": "h100"})


@pytest.mark.parametrize(
    ("flavor", "labels", "offers", "gpus", "note"),
    [
        (Flavor("part", {"nvidia.com/gpu.product": "L4-SHARED"}), {"product": "L4-SHARED", "replicas": "4"}, 8, 8,
         "2 GPUs, advertised as 8 (shared by time slicing): each part counts in the flavor part"),
        (Flavor("part", {"nvidia.com/gpu.replicas": "4"}), {"replicas": "4"}, 8, 8, "part counts in the flavor part"),
        (Flavor("part", {"osmo.shared-gpus": "whole"}), {"replicas": "4"}, 8, 8, "part counts in the flavor part"),
        (Flavor("mig", {"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}), {"product": "A100-MIG-1g.5gb"}, 7, 7,
         "GPUs advertised as 7 (shared by MIG): each part counts in the flavor mig"),
        (WHOLE_FLAVOR, {"replicas": "4"}, 8, 0, "a flavor whose nodes have the label osmo.shared-gpus=whole lets"),
        (None, {"replicas": "4"}, 8, 0, "a flavor whose nodes have the label osmo.shared-gpus=whole lets"),
        (Flavor("part", {"osmo.shared-gpus": "whole"}), {}, 8, 0, "8 whole GPUs in the flavor part, which is"),
        (WHOLE_FLAVOR, {}, 8, 8, None),
        (None, {}, 8, 8, None),
    ],
)  # fmt: skip
def test_parts_and_whole_gpus_are_never_counted_in_one_flavor(
    flavor: Flavor | None, labels: dict[str, str], offers: int, gpus: int, note: str | None
) -> None:
    """Every node has the label by which its parts would count without flavors."""
    found = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()} | {"nvidia.com/mig.strategy": "single"}
    body = node(READY, labels={"osmo.shared-gpus": "whole", **found})
    body["status"]["allocatable"] = {"nvidia.com/gpu": str(offers)}
    counted = count_in_flavor(read_node(body), flavor)
    assert (counted.amounts.gpus, counted.ready) == (gpus, True)
    assert [note in each for each in counted.notes if note] == ([True] if note else [])
    assert len(counted.notes) == (note is not None)
    assert count_in_flavor(counted, flavor) == counted


def test_a_node_that_is_being_deleted_is_no_room() -> None:
    body = node(READY)
    body["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    assert (read_node(body).ready, read_node(body).notes) == (False, ("the node is being deleted",))


def test_pods_avoid_products_of_shared_nodes_alone_and_else_the_nodes() -> None:
    product = {"nvidia.com/gpu.product": "A100-SHARED"}
    same = {"nvidia.com/gpu.product": "A100", "kubernetes.io/hostname": "host-2"}
    nodes = [
        NodeLabels("n1", product, True),
        NodeLabels("n2", same, True),
        NodeLabels("n3", {}, True),
        NodeLabels("n4", {"nvidia.com/gpu.product": "A100"}, False),
    ]
    assert avoid_shared_gpus(nodes) == [
        {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["A100-SHARED"]},
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["host-2", "n3"]},
    ]
    assert avoid_shared_gpus(nodes[3:]) == []


@pytest.mark.parametrize(
    ("taint", "ready", "note"),
    [
        ("dedicated=teamx:NoSchedule", False, "taint dedicated=teamx: our pods do not start here"),
        ("gone:NoExecute", False, "taint gone: our pods do not start here"),
        ("nvidia.com/gpu=present:NoSchedule", True, "taint nvidia.com/gpu=present: only our pods with GPUs start here"),
        ("soft:PreferNoSchedule", True, None),
        ("node.kubernetes.io/memory-pressure:NoSchedule", True, None),
        ("disk-pressure:NoSchedule", False, "taint disk-pressure: our pods do not start here"),
    ],
)
def test_a_taint_counts_as_kubernetes_counts_it_for_our_pods(taint: str, ready: bool, note: str | None) -> None:
    name, _, effect = taint.rpartition(":")
    key, _, value = name.partition("=")
    found = read_node(node(READY, taints=[{"key": key, "value": value, "effect": effect}]))
    assert (found.ready, found.notes) == (ready, () if note is None else (note,))


@pytest.mark.parametrize(
    ("init", "containers", "cpu"),
    [
        (["1+", "4"], ["2"], 5),  # the one that stays runs with the next init container
        (["4", "1+"], ["2"], 4),
        (["1+", "2+", "3"], ["1"], 6),
        (["1+", "2+"], ["4"], 7),
        (["5+"], ["1"], 6),
        (["4"], ["2", "3"], 5),
        ([], ["2"], 2),
    ],
)
def test_init_containers_run_in_their_order(init: list[str], containers: list[str], cpu: int) -> None:
    """`1+`: a core, and it is restarted always, so it stays."""
    body = pod("n1", *[{"cpu": each} for each in containers])
    body["spec"]["initContainers"] = [
        {"resources": {"requests": {"cpu": each.rstrip("+")}}}
        | ({"restartPolicy": "Always"} if each.endswith("+") else {})
        for each in init
    ]
    for seen in (body, trim_pod(body)):
        assert foreign_usage_by_node([seen], "me", "ns")["n1"].cpu == cpu


@pytest.mark.parametrize(
    ("resources", "amounts"),
    [
        ({"requests": {"cpu": "16"}}, (16, 2**20)),
        ({"limits": {"cpu": "16"}, "requests": {"memory": "8Mi"}}, (2, 2**23)),  # the containers request some
        ({"requests": {"cpu": "0"}}, (0, 2**20)),
        ({}, (2, 2**20)),
    ],
)
def test_requests_of_the_pod_itself_replace_those_of_its_containers(
    resources: dict[str, Any], amounts: tuple[int, int]
) -> None:
    body = pod("n1", {"cpu": "2", "memory": "1Mi"}, resources=resources)
    for seen in (body, trim_pod(body)):
        found = foreign_usage_by_node([seen], "me", "ns")["n1"]
        assert (found.cpu, found.memory_bytes) == amounts


def test_a_limit_of_the_pod_itself_is_its_request_where_no_container_has_one() -> None:
    body = pod("n1", {"memory": "1Mi"}, resources={"limits": {"cpu": "16", "memory": "8Mi"}})
    for seen in (body, trim_pod(body)):
        assert foreign_usage_by_node([seen], "me", "ns") == {"n1": ForeignUsage(0, 16, 2**20)}


def test_a_node_that_takes_no_pods_says_why() -> None:
    assert read_node(node()).notes == ("the node is not ready",)
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert read_node(node(READY, unschedulable=True, taints=[cordon])).notes == (
        "the node is cordoned: no new pods start here",
    )
