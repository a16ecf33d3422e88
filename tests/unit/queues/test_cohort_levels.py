"""Cohorts as levels of queues: the quota of each on this cluster, and its limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pools.domain.quota.forest import CohortQuotaFacts, PoolQuotaFacts, build_forest
from pools.domain.quota.tree import NodeQuota
from pools.domain.values.amounts import GPU, UNLIMITED
from scheduling.domain.queues.cohort_levels import CohortLevels, CohortPlacement, cohort_levels
from scheduling.domain.queues.desired import CohortLevel


def gpu(nominal: int, borrowing: int | None = None, lending: int | None = None) -> Mapping[str, Any]:
    return {GPU: {"nominal": nominal, "borrowing_limit": borrowing, "lending_limit": lending}}


def pool(name: str, cohort: str, guarantee: int, **more: Any) -> PoolQuotaFacts:
    return PoolQuotaFacts(name, cohort, guarantee, quota=guarantee, **more)


def test_no_cohorts_no_levels() -> None:
    assert cohort_levels(build_forest([], []), {}) == CohortLevels()


def test_the_quota_of_a_level_is_its_own_plus_the_quotas_below_it() -> None:
    tree = build_forest(
        [CohortQuotaFacts("org", None, gpu(2)), CohortQuotaFacts("lab", "org", gpu(4, borrowing=6), weight=3)],
        [pool("a", "lab", 10), pool("b", "org", 20)],
    )
    assert cohort_levels(tree, {"a": 10, "b": 20}) == CohortLevels(
        (CohortLevel("lab", 14, 20, 3.0, "org"), CohortLevel("org", 36, 36, 1.0, None)),
        {"a": CohortPlacement("lab", 20), "b": CohortPlacement("org", 36)},
    )


def test_the_limit_of_a_pool_includes_all_lending_limits() -> None:
    tree = build_forest(
        [CohortQuotaFacts("org")],
        [
            pool("a", "org", 10, limits=NodeQuota(0, lending_limit=4)),
            pool("b", "org", 20, limits=NodeQuota(0, 3)),
            pool("c", "org", 5, maximum=7),
        ],
    )
    found = cohort_levels(tree, {"a": 10, "b": 20, "c": 5})
    assert found.pools == {
        "a": CohortPlacement("org", 35),
        "b": CohortPlacement("org", 23),
        "c": CohortPlacement("org", 7),
    }
    (org,) = found.cohorts
    assert (org.quota, org.limit) == (35, 35), "the level counts also what a pool does not lend"


def test_pools_on_other_clusters_count_for_the_limit_only() -> None:
    tree = build_forest([CohortQuotaFacts("org", None, gpu(1))], [pool("here", "org", 10), pool("there", "org", 30)])
    found = cohort_levels(tree, {"here": 10})
    assert found.cohorts == (CohortLevel("org", 11, 41, 1.0, None),)
    assert found.pools == {"here": CohortPlacement("org", 41)}


def test_a_level_that_no_pool_of_this_cluster_needs_is_left_out() -> None:
    tree = build_forest(
        [CohortQuotaFacts("org"), CohortQuotaFacts("far", "org"), CohortQuotaFacts("near", "org")],
        [pool("p", "near", 5)],
    )
    assert [level.name for level in cohort_levels(tree, {"p": 5}).cohorts] == ["near", "org"]


def test_unlimited_quota_is_unlimited_on_every_level_above() -> None:
    tree = build_forest([CohortQuotaFacts("org")], [pool("a", "org", UNLIMITED), pool("b", "org", 5)])
    found = cohort_levels(tree, {"a": UNLIMITED, "b": 5})
    assert found.cohorts == (CohortLevel("org", UNLIMITED, UNLIMITED, 1.0, None),)
    assert found.pools["b"] == CohortPlacement("org", UNLIMITED)


def test_a_cohort_on_a_cycle_has_no_level() -> None:
    tree = build_forest([CohortQuotaFacts("x", "y"), CohortQuotaFacts("y", "x")], [pool("p", "x", 5)])
    assert cohort_levels(tree, {"p": 5}) == CohortLevels()


def test_flavors_are_summed_because_kai_has_one_number() -> None:
    """A pool gets the flavors that it has quotas of, so what others may lend of other flavors is not in its limit."""

    def of_flavors(name: str, **gpus: int) -> PoolQuotaFacts:
        return PoolQuotaFacts(
            name, "org", sum(gpus.values()), kinds={key: pool(name, "org", gpus[key]) for key in gpus}
        )

    org = CohortQuotaFacts("org", None, {"h100/gpu": {"nominal": 4, "borrowing_limit": None, "lending_limit": None}})
    tree = build_forest([org], [of_flavors("a", h100=8, a100=16), of_flavors("b", a100=2), pool("c", "org", 5)])
    found = cohort_levels(tree, {"a": 24, "b": 2, "c": 5})
    assert found.cohorts == (CohortLevel("org", 35, 35, 1.0, None),)
    assert {name: placed.limit for name, placed in found.pools.items()} == {"a": 12 + 18, "b": 18, "c": 5}
