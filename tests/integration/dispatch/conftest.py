"""A house with one pool on one cluster: the twin in memory, and the real API server wherever `room` is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduling.kube.fake import FakeCluster
from tests.support.agent_harness import AgentHarness


@pytest.fixture(params=[pytest.param("twin"), pytest.param("real", marks=pytest.mark.k8s)])
def room(request: pytest.FixtureRequest, db: None) -> Iterator[AgentHarness]:
    """On both clusters alike."""
    if request.param == "real":
        kube = request.getfixturevalue("kube")
        yield AgentHarness.make(kube.cluster, kube.namespace)
    else:
        yield AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")


@pytest.fixture
def twin(db: None) -> AgentHarness:
    """On the twin alone, for what is about our own rows."""
    return AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")
