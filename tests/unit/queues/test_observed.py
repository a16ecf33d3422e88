"""The owner of a queue of a cluster, its differences field by field, and the managers that caused them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.queues.desired import (
    DesiredQueue,
    PoolQueueFacts,
    QueueTarget,
    build_desired_queues,
    queue_manifest,
)
from scheduling.domain.queues.observed import UNKNOWN_MANAGER, Ownership, QueueDifference, observe_queue
from scheduling.kube.connection.resource_kinds import QUEUE
from tests.support.fake_cluster import FakeCluster

TARGET = QueueTarget("ns", "h1", "kai.scheduler/node-pool")
WANTED: Mapping[str, DesiredQueue] = build_desired_queues(
    TARGET, [PoolQueueFacts(PoolBalance("team", 100, UNLIMITED, ()))]
)
LEAF = "osmo-pool-ns-team---shared"
US, KIM = "osmo-admin", "kim"


@pytest.fixture
def fake() -> FakeCluster:
    """A cluster that has the leaf in its desired state."""
    cluster = FakeCluster()
    cluster.apply(QUEUE, queue_manifest(TARGET, WANTED[LEAF]), field_manager=US)
    return cluster


def leaf(fake: FakeCluster) -> Object:
    return fake.get(QUEUE, LEAF)


def test_a_queue_in_its_desired_state_has_no_difference(fake: FakeCluster) -> None:
    found = observe_queue(leaf(fake), TARGET, WANTED)
    assert (found.ownership, found.differences, found.needs_write) == (Ownership.OURS, (), False)
    assert (found.parent, found.quota) == ("osmo-pool-ns-team", 100)


@pytest.mark.parametrize(
    ("change", "field", "theirs", "ours"),
    [
        ({"spec": {"priority": 5}}, "spec.priority", 5, 100),
        ({"spec": {"displayName": "x"}}, "spec.displayName", "x", "osmo-pool-ns-team--_shared"),
        ({"spec": {"parentQueue": "x"}}, "spec.parentQueue", "x", "osmo-pool-ns-team"),
        ({"spec": {"resources": {"gpu": {"quota": 7}}}}, "spec.resources.gpu.quota", 7, 100),
        ({"spec": {"resources": {"cpu": {"limit": 0.5}}}}, "spec.resources.cpu.limit", 0.5, -1),
        ({"spec": {"resources": {"memory": {"overQuotaWeight": 0}}}}, "spec.resources.memory.overQuotaWeight", 0, 1),
        ({"metadata": {"labels": {"osmo.pool": "x"}}}, "metadata.labels.osmo.pool", "x", "team"),
        (
            {"metadata": {"labels": {"kai.scheduler/node-pool": "x"}}},
            "metadata.labels.kai.scheduler/node-pool", "x", None,
        ),
    ],
)  # fmt: skip
def test_an_edit_is_drift_with_its_author(
    fake: FakeCluster, change: dict[str, Any], field: str, theirs: Any, ours: Any
) -> None:
    fake.merge(QUEUE, LEAF, change, field_manager=KIM)
    found = observe_queue(leaf(fake), TARGET, WANTED)
    assert found.drift == found.differences == (QueueDifference(field, theirs, ours, KIM),)


def test_a_field_that_was_removed_is_drift_too(fake: FakeCluster) -> None:
    fake.merge(QUEUE, LEAF, {"spec": {"resources": {"gpu": {"limit": None}}}}, field_manager=KIM)
    (difference,) = observe_queue(leaf(fake), TARGET, WANTED).drift
    assert difference == QueueDifference("spec.resources.gpu.limit", None, -1, UNKNOWN_MANAGER), (
        "who removes leaves no trace"
    )
    fake.merge(QUEUE, LEAF, {"metadata": {"labels": {"by": "kim"}}}, field_manager=KIM)
    (difference,) = observe_queue(leaf(fake), TARGET, WANTED).drift
    assert difference.by == KIM, "the manager that wrote last"


def test_our_own_earlier_value_is_not_drift(fake: FakeCluster) -> None:
    more = build_desired_queues(TARGET, [PoolQueueFacts(PoolBalance("team", 120, UNLIMITED, ()))])
    found = observe_queue(leaf(fake), TARGET, more)
    assert found.differences == (QueueDifference("spec.resources.gpu.quota", 100, 120),)
    assert found.drift == ()


def test_a_changed_or_removed_shard_label_of_ours_is_not_drift(fake: FakeCluster) -> None:
    shard = QueueTarget("ns", "h1", "kai.scheduler/node-pool", "gpu")
    found = observe_queue(leaf(fake), shard, WANTED)
    assert found.differences == (QueueDifference("metadata.labels.kai.scheduler/node-pool", None, "gpu"),)
    fake.apply(QUEUE, queue_manifest(shard, WANTED[LEAF]), field_manager=US)
    found = observe_queue(leaf(fake), TARGET, WANTED)
    assert found.differences == (QueueDifference("metadata.labels.kai.scheduler/node-pool", "gpu", None),)
    other_key = QueueTarget("ns", "h1", "example.com/shard", "gpu")
    fields = {
        difference.field: difference.ours for difference in observe_queue(leaf(fake), other_key, WANTED).differences
    }
    assert fields == {
        "metadata.labels.kai.scheduler/node-pool": None,
        "metadata.labels.example.com/shard": "gpu",
    }


def test_fields_that_others_add_are_ignored(fake: FakeCluster) -> None:
    fake.merge(
        QUEUE, LEAF, {"metadata": {"labels": {"team": "x"}}, "spec": {"preemptMinRuntime": "5m"}}, field_manager=KIM
    )
    fake.merge(QUEUE, LEAF, {"status": {"childQueues": ["x"]}}, field_manager="queue-controller", status=True)
    assert not observe_queue(leaf(fake), TARGET, WANTED).needs_write


def test_a_queue_with_our_name_and_no_label_is_adopted() -> None:
    fake = FakeCluster()
    spec = {"parentQueue": "osmo-default-ns", "resources": {"gpu": {"quota": 50, "limit": -1, "overQuotaWeight": 1}}}
    body = {"metadata": {"name": "osmo-pool-ns-team", "labels": {"osmo.namespace": "ns"}}, "spec": spec}
    fake.create(QUEUE, body, field_manager="osmo-backend")
    found = observe_queue(fake.get(QUEUE, "osmo-pool-ns-team"), TARGET, WANTED)
    assert found.ownership is Ownership.ADOPTED
    assert found.needs_write
    assert found.drift == (), "what was there before us is nobody's fault"
    assert (found.quota, found.parent) == (50, "osmo-default-ns")


def test_a_labelled_copy_that_we_never_wrote_is_adopted() -> None:
    fake = FakeCluster()
    fake.create(QUEUE, queue_manifest(TARGET, WANTED[LEAF]), field_manager="backup")
    found = observe_queue(leaf(fake), TARGET, WANTED)
    assert (found.ownership, found.differences, found.needs_write) == (Ownership.ADOPTED, (), True)


def test_a_label_removed_by_hand_is_restored(fake: FakeCluster) -> None:
    fake.merge(QUEUE, LEAF, {"metadata": {"labels": {"osmo.house": None}}}, field_manager=KIM)
    found = observe_queue(leaf(fake), TARGET, WANTED)
    assert found.ownership is Ownership.ADOPTED
    assert [difference.field for difference in found.differences] == ["metadata.labels.osmo.house"]


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ({"osmo.house": "h2", "osmo.namespace": "ns"}, "it belongs to another installation (osmo.house=h2)"),
        ({"osmo.namespace": "n"}, "it belongs to the namespace n (osmo.namespace)"),
    ],
)
def test_a_queue_with_our_name_and_a_label_of_others_is_theirs(labels: dict[str, str], note: str) -> None:
    fake = FakeCluster()
    fake.create(QUEUE, {"metadata": {"name": LEAF, "labels": labels}, "spec": {}}, field_manager=KIM)
    found = observe_queue(leaf(fake), TARGET, WANTED)
    assert (found.ownership, found.note, found.needs_write) == (Ownership.OTHERS, note, False)


@pytest.mark.parametrize(
    ("labels", "standing"),
    [
        ({}, Ownership.UNKNOWN),
        ({"osmo.namespace": "ns"}, Ownership.UNKNOWN),
        ({"osmo.house": "h1"}, Ownership.UNKNOWN),
        ({"osmo.house": "h1", "osmo.namespace": "ns"}, Ownership.OURS),
    ],
)
def test_an_undesired_queue_is_ours_only_with_our_label(labels: dict[str, str], standing: Ownership) -> None:
    fake = FakeCluster()
    fake.create(QUEUE, {"metadata": {"name": "osmo-pool-ns-old", "labels": labels}, "spec": {}}, field_manager=KIM)
    found = observe_queue(fake.get(QUEUE, "osmo-pool-ns-old"), TARGET, WANTED)
    assert (found.ownership, found.differences) == (standing, ())


@pytest.mark.parametrize(
    "spec", [{}, {"resources": None}, {"resources": {"gpu": {}}}, {"resources": {"gpu": {"quota": True}}}]
)
def test_a_quota_that_is_left_out_is_0(fake: FakeCluster, spec: dict[str, Any]) -> None:
    item = copy.deepcopy(leaf(fake))
    item["spec"] = spec
    assert observe_queue(item, TARGET, WANTED).quota == 0
