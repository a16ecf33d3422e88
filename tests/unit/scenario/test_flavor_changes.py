"""A what-if about a queue with quotas by flavor."""

from __future__ import annotations

import pytest

from scheduling.scenario import parse_scenario_text
from scheduling.scenario.parse import ScenarioError

FILE = """
nodes: [{{name: h, resources: {{h100/gpu: 8}}}}]
queues: [{{name: lab, quota: {quota}}}]
changes: [{{set: {{name: lab, {change}}}}}]
"""


def changed(quota: str, change: str) -> object:
    return parse_scenario_text(FILE.format(quota=quota, change=change)).facts.queues[0]


def test_a_number_means_the_only_flavor() -> None:
    queue = changed("{h100/gpu: 4}", "quota: 8")
    assert dict(queue.quota) == {"h100/gpu": 8}  # type: ignore[attr-defined]
    assert dict(changed("{h100/gpu: 4}", "limit: 6").limit) == {"h100/gpu": 6}  # type: ignore[attr-defined]


def test_a_number_is_refused_where_there_are_several_flavors() -> None:
    with pytest.raises(ScenarioError) as refused:
        changed("{h100/gpu: 4, a100/gpu: 8}", "quota: 8")
    [fault] = refused.value.details
    assert "h100/gpu: …, a100/gpu: …" in fault.message
    queue = changed("{h100/gpu: 4, a100/gpu: 8}", "quota: {h100/gpu: 6}")
    assert dict(queue.quota) == {"h100/gpu": 6, "a100/gpu": 8}  # type: ignore[attr-defined]


def test_without_flavors_a_number_is_what_it_was() -> None:
    assert dict(changed("4", "quota: 8").quota) == {"default/gpu": 8}  # type: ignore[attr-defined]
