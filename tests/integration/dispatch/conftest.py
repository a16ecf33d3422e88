"""One pool on one cluster with its agent: on the fake cluster, and with `harness` also on a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.agent_harness import AgentHarness
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import FAKE_THEN_REAL


@pytest.fixture(params=FAKE_THEN_REAL)
def harness(request: pytest.FixtureRequest, db: None) -> Iterator[AgentHarness]:
    """On both clusters."""
    if request.param == "real":
        kube = request.getfixturevalue("kube")
        yield AgentHarness.make(kube.cluster, kube.namespace)
    else:
        yield AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")


@pytest.fixture
def fake_harness(db: None) -> AgentHarness:
    """On the fake cluster alone, for tests of our own rows."""
    return AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")
