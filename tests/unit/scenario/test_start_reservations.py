"""Start reservations of several queues in a scenario file."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduling.scenario import answer

FILE = """
policy: {now: 7200, reserve_after: 3600}
nodes: [{name: n1, gpus: 8}]
cohorts: [{name: c0}]
queues: [{name: q0, parent: c0, quota: 3}, {name: q1, parent: c0, quota: 4}]
workloads:
- {name: low0, queue: q0, priority: LOW, submitted: 1, state: running, tasks: [{gpus: 2, node: n1}]}
- {name: low1, queue: q1, priority: LOW, submitted: 2, state: running, tasks: [{gpus: 4, node: n1}]}
- {name: high, queue: q0, priority: HIGH, submitted: 6, tasks: [{gpus: 3}]}
- {name: normal, queue: q1, priority: NORMAL, submitted: 7, tasks: [{gpus: 4}]}
"""


@pytest.mark.parametrize("now", [7200, 1_000_000])
def test_work_inside_its_quota_takes_the_place_of_low_work_of_its_queue(now: int) -> None:
    """Both gangs have waited for an hour; without a policy, and one without the other, they start too."""
    scenario = yaml.safe_load(FILE)
    scenario["policy"]["now"] = now
    with_policy = states(scenario)
    assert with_policy == {"high": "running", "normal": "running", "low0": "preempted", "low1": "preempted"}
    del scenario["policy"]
    assert states(scenario) == with_policy


def states(scenario: dict[str, Any]) -> dict[str, str]:
    return {name: work["state"] for name, work in answer(yaml.safe_dump(scenario))["workloads"].items()}
