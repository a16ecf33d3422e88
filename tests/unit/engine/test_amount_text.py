"""Amounts in messages, and messages about resources other than GPUs."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.facts import ClusterFacts, DisplayUnit, GangFacts, NodeFacts, QueueFacts, TaskFacts
from scheduling.domain.engine.reasons.explain import Explainer
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.amount_text import amounts_text
from tests.unit.engine.sample_clusters import CPU, GPU

MEMORY = "default/memory"
UNITS = {CPU: DisplayUnit(1000, "core", "cores"), MEMORY: DisplayUnit(2**30, "GiB of memory", "GiB of memory")}


@pytest.mark.parametrize(
    ("amounts", "relevant", "text"),
    [
        ({GPU: 8, CPU: 1500, MEMORY: 2**30}, (), "8 GPUs"),
        ({GPU: 8, CPU: 1500, MEMORY: 2**30}, (CPU,), "8 GPUs and 1.5 cores"),
        ({CPU: 4000, MEMORY: 2**31}, (), "4 cores and 2 GiB of memory"),
        ({CPU: 1000}, (), "1 core"),
        ({CPU: float("inf")}, (), "unlimited cores"),
        ({}, (), "nothing"),
    ],
)
def test_secondary_resources_are_named_where_they_are_relevant(amounts, relevant, text):
    assert amounts_text(amounts, UNITS, relevant=relevant) == text
    assert amounts_text({GPU: 8, CPU: 1500}, {}) == "8 GPUs and 1500 cpu", "without units everything stays as it is"


def test_a_reason_names_the_resource_that_is_missing():
    request = {GPU: 1, CPU: 6000, MEMORY: 2**30}
    open_queue = QueueFacts("q", quota=dict.fromkeys((GPU, CPU, MEMORY), float("inf")))
    node = NodeFacts("n", {GPU: 8, CPU: 8000, MEMORY: 2**33})
    runs = GangFacts("r", "q", (TaskFacts("r-0", request, state="running", node="n"),), submitted=1)
    world = World(
        ClusterFacts(
            (open_queue,), gangs=(runs, GangFacts("g", "q", (TaskFacts("g-0", request),))), nodes=(node,), units=UNITS
        )
    )
    reason = Explainer(world).explain(world.gang_of["g"])
    assert reason.message == (
        "It asks for 1 GPU and 6 cores; the nodes have capacity for 1 GPU and 2 cores: 4 cores missing on n."
    )
    assert reason.unblock == ("4 cores more must be free on n (r).",)
