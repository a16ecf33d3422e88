"""The queues that the ledger requires on a cluster: names (design, D2), numbers (design, D4), levels and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pools.domain.quota.pool_balance import PoolBalance, Subpool, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.queues.desired import (
    CohortLevel,
    DesiredQueue,
    DesiredTopology,
    PoolQueueFacts,
    QueueTarget,
    build_desired_queues,
    build_desired_topologies,
    queue_manifest,
    topology_manifest,
)

TARGET = QueueTarget("ns", "h1", "kai.scheduler/node-pool")
ACTIVE, DELETING, ARCHIVED = SubpoolState.ACTIVE, SubpoolState.DELETING, SubpoolState.ARCHIVED


def pool(name: str, guarantee: int, *subpools: Subpool, **more: Any) -> PoolQueueFacts:
    return PoolQueueFacts(PoolBalance(name, guarantee, UNLIMITED, subpools), **more)


def quotas_of(wanted: dict[str, DesiredQueue]) -> dict[str, int]:
    return {name: queue.quota for name, queue in wanted.items()}


def test_a_pool_without_subpools_has_a_container_and_its_shared_leaf() -> None:
    wanted = build_desired_queues(TARGET, [pool("team", 100)])
    assert quotas_of(wanted) == {"osmo-default-ns": -1, "osmo-pool-ns-team": 100, "osmo-pool-ns-team---shared": 100}
    assert [queue.parent for queue in wanted.values()] == [None, "osmo-default-ns", "osmo-pool-ns-team"]
    assert wanted["osmo-pool-ns-team---shared"].display_name == "osmo-pool-ns-team--_shared"


def test_no_pools_still_have_their_root() -> None:
    assert list(build_desired_queues(TARGET, [])) == ["osmo-default-ns"]


def test_subpools_take_from_the_shared_leaf_and_archived_ones_are_gone() -> None:
    subpools = Subpool("a", ACTIVE, 30), Subpool("b", ACTIVE, 40), Subpool("old", ARCHIVED, 20)
    assert quotas_of(build_desired_queues(TARGET, [pool("team", 100, *subpools)])) == {
        "osmo-default-ns": -1,
        "osmo-pool-ns-team": 100,
        "osmo-pool-ns-team---shared": 30,
        "osmo-pool-ns-team--a": 30,
        "osmo-pool-ns-team--b": 40,
    }


def test_a_draining_subpool_keeps_the_quota_for_its_active_work() -> None:
    draining = Subpool("a", DELETING, 30, UsageCounts(used=8, total_usage=8, live_workflows=2, committed=12))
    wanted = quotas_of(build_desired_queues(TARGET, [pool("team", 100, draining)]))
    assert (wanted["osmo-pool-ns-team--a"], wanted["osmo-pool-ns-team---shared"]) == (12, 88)


def test_the_container_covers_its_leaves_after_a_reduction_of_the_pool() -> None:
    draining = Subpool("a", DELETING, 60, UsageCounts(used=50, total_usage=50, live_workflows=1, committed=50))
    wanted = quotas_of(build_desired_queues(TARGET, [pool("team", 40, draining)]))
    assert wanted == {
        "osmo-default-ns": -1,
        "osmo-pool-ns-team": 50,
        "osmo-pool-ns-team---shared": 0,
        "osmo-pool-ns-team--a": 50,
    }


def test_nothing_configured_is_unlimited() -> None:
    wanted = build_desired_queues(TARGET, [pool("free", UNLIMITED)])
    assert {name: (queue.quota, queue.limit) for name, queue in wanted.items()} == dict.fromkeys(wanted, (-1, -1))


def test_maximum_and_weight_belong_to_the_container() -> None:
    wanted = build_desired_queues(TARGET, [pool("team", 10, limit=16, weight=3)])
    container, leaf = wanted["osmo-pool-ns-team"], wanted["osmo-pool-ns-team---shared"]
    assert (container.limit, container.weight) == (16, 3)
    assert (leaf.limit, leaf.weight) == (-1, 1)


@pytest.mark.parametrize("weight", [0, 1, 7])
def test_all_nine_numbers_are_always_written(weight: int) -> None:
    for queue in build_desired_queues(
        TARGET, [pool("team", 0, Subpool("a", ACTIVE, 0), limit=0, weight=weight)]
    ).values():
        spec = queue_manifest(TARGET, queue)["spec"]
        numbers = {resource: sorted(each) for resource, each in spec["resources"].items()}
        assert numbers == {resource: ["limit", "overQuotaWeight", "quota"] for resource in ("gpu", "cpu", "memory")}
        boundless = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        assert spec["resources"]["cpu"] == spec["resources"]["memory"] == boundless
        assert spec["priority"] == 100


def test_a_manifest() -> None:
    body = queue_manifest(
        replace(TARGET, shard="gpu"), build_desired_queues(TARGET, [pool("team", 8)])["osmo-pool-ns-team---shared"]
    )
    assert body["metadata"] == {
        "name": "osmo-pool-ns-team---shared",
        "labels": {
            "osmo.namespace": "ns",
            "osmo.house": "h1",
            "osmo.pool": "team",
            "app.kubernetes.io/managed-by": "osmo-admin",
            "kai.scheduler/node-pool": "gpu",
        },
    }
    assert body["spec"]["parentQueue"] == "osmo-pool-ns-team"
    assert body["spec"]["displayName"] == "osmo-pool-ns-team--_shared"


def test_the_root_has_no_parent_and_no_pool() -> None:
    body = queue_manifest(TARGET, build_desired_queues(TARGET, [])["osmo-default-ns"])
    assert "parentQueue" not in body["spec"]
    assert sorted(body["metadata"]["labels"]) == ["app.kubernetes.io/managed-by", "osmo.house", "osmo.namespace"]


def test_cohorts_are_levels_between_the_root_and_the_pools() -> None:
    levels = [CohortLevel("lab", 20, limit=30, weight=2, parent="org"), CohortLevel("org", 50)]
    wanted = build_desired_queues(
        TARGET, [pool("a", 10, cohort="lab"), pool("b", 20, cohort="org"), pool("c", 5)], levels
    )
    parents = {name: queue.parent for name, queue in wanted.items() if "shared" not in name}
    assert parents == {
        "osmo-default-ns": None,
        "osmo-cohort-ns-org": "osmo-default-ns",
        "osmo-cohort-ns-lab": "osmo-cohort-ns-org",
        "osmo-pool-ns-a": "osmo-cohort-ns-lab",
        "osmo-pool-ns-b": "osmo-cohort-ns-org",
        "osmo-pool-ns-c": "osmo-default-ns",
    }
    assert list(wanted).index("osmo-cohort-ns-org") < list(wanted).index("osmo-cohort-ns-lab")
    lab = wanted["osmo-cohort-ns-lab"]
    assert (lab.quota, lab.limit, lab.weight) == (20, 30, 2)


def test_levels_above_one_another_are_no_tree() -> None:
    with pytest.raises(ValueError, match=r"\['a', 'b'\]"):
        build_desired_queues(TARGET, [], [CohortLevel("a", 1, parent="b"), CohortLevel("b", 1, parent="a")])


def test_a_pool_with_levels_of_nearness_has_a_topology() -> None:
    pools = [pool("team", 8, topology=("zone", "example.com/rack")), pool("plain", 8)]
    wanted = build_desired_topologies(TARGET, pools)
    name = "osmo-pool-ns-team-topology"
    assert wanted == {name: DesiredTopology(name, "team", ("zone", "example.com/rack"))}
    body = topology_manifest(TARGET, wanted[name])
    assert body["spec"] == {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "example.com/rack"}]}
    assert body["metadata"]["labels"]["osmo.pool"] == "team"
