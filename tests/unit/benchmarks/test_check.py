"""The comparison of a measurement with the committed one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.check import COMMITTED, find_losses, read_ratios


def report(**changes: float) -> dict[str, Any]:
    value = {"cost": 4.0, "rate": 0.5, "growth": 4.0, "admission": 0.3, "pairs": 0.4} | changes
    return {
        "request_cost": {"version": {"over_version": 1.0}, "profile": {"over_version": value["cost"]}},
        "http_rates": {
            "version": {"8": {"of_version": 1.0}},
            "profile": {"1": {"of_version": 0.9}, "8": {"of_version": value["rate"]}},
        },
        "engine": {"sizes": [{"scale": 1, "cycle_s": 2.0}, {"scale": 4, "cycle_s": 2.0 * value["growth"]}]},
        "admission": {"statements_per_admission": 4, "one_hot_pool": {"8": {"ratio_to_pgbench": value["admission"]}}},
        "gpu_quota": {"rebuild": {}, "1000_namespaces": {"8": {"http_to_pgbench": value["pairs"]}}},
    }


@pytest.mark.parametrize(
    ("measure", "worse", "a_little_worse"),
    [("cost", 5.4, 5.2), ("rate", 0.37, 0.38), ("growth", 5.4, 5.3), ("admission", 0.2, 0.23), ("pairs", 0.29, 0.31)],
)
def test_a_ratio_that_lost_more_than_a_quarter_is_named(measure: str, worse: float, a_little_worse: float) -> None:
    (line,) = find_losses(report(), report(**{measure: worse}))
    assert "lost" in line
    assert find_losses(report(), report(**{measure: a_little_worse})) == []


@pytest.mark.parametrize(("measure", "better"), [("cost", 1.0), ("rate", 0.9), ("growth", 2.0), ("admission", 0.9)])
def test_a_better_ratio_is_no_loss(measure: str, better: float) -> None:
    assert find_losses(report(), report(**{measure: better})) == []


def test_a_ratio_that_was_not_measured_again_is_a_loss() -> None:
    fresh = report()
    del fresh["engine"]
    assert find_losses(report(), fresh) == ["engine from cold, 4× / 1×: was 4.0, was not measured now"]


def test_the_committed_measurement_has_ratios() -> None:
    names = read_ratios(json.loads(COMMITTED.read_text()))
    assert "engine from cold, 4× / 1×" in names
    assert any(name.startswith("admission / pgbench") for name in names)
