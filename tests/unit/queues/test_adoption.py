"""The number of the ledger that a changed field of a queue stands for."""

from __future__ import annotations

import pytest

from scheduling.domain.queues.adoption import find_adoption

GPU = "spec.resources.gpu."


@pytest.mark.parametrize(
    ("queue", "field", "theirs", "expected"),
    [
        ("osmo-pool-ns-team", f"{GPU}quota", 80, ("team", "guarantee", 80)),
        ("osmo-pool-ns-team", f"{GPU}quota", -1, ("team", "guarantee", -1)),
        ("osmo-pool-ns-team", f"{GPU}limit", 90.0, ("team", "maximum", 90)),
        ("osmo-pool-ns-team", f"{GPU}overQuotaWeight", 3, ("team", "weight", 3)),
        ("osmo-pool-ns-team--a", f"{GPU}quota", 7, ("team--a", "quota", 7)),
        ("osmo-pool-ns-team--a", f"{GPU}quota", -1, None),
        ("osmo-pool-ns-team--a", f"{GPU}limit", 7, None),
        ("osmo-pool-ns-team---shared", f"{GPU}quota", 7, None),
        ("osmo-cohort-ns-org", f"{GPU}quota", 7, None),
        ("osmo-pool-other-team", f"{GPU}quota", 7, None),
        ("osmo-pool-ns-team", f"{GPU}quota", 7.5, None),
        ("osmo-pool-ns-team", f"{GPU}quota", float("inf"), None),
        ("osmo-pool-ns-team", f"{GPU}quota", "7", None),
        ("osmo-pool-ns-team", f"{GPU}quota", True, None),
        ("osmo-pool-ns-team", f"{GPU}quota", None, None),
        ("osmo-pool-ns-team", "spec.resources.cpu.quota", 7, None),
        ("osmo-pool-ns-team", "spec.parentQueue", "other", None),
    ],
)
def test_adoption(queue: str, field: str, theirs: object, expected: tuple[str, str, int] | None) -> None:
    found = find_adoption("ns", queue, field, theirs)
    assert (found and tuple(found.as_dict().values())) == expected
