"""A house with one pool on one cluster: the twin in memory, and the real API server wherever `room` is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduling.kube.fake import Twin
from tests.support.clusters import Room


@pytest.fixture(params=[pytest.param("twin"), pytest.param("real", marks=pytest.mark.k8s)])
def room(request: pytest.FixtureRequest, db: None) -> Iterator[Room]:
    """On both clusters alike."""
    if request.param == "real":
        kube = request.getfixturevalue("kube")
        yield Room.make(kube.cluster, kube.namespace)
    else:
        yield Room.make(Twin(namespaces=["osmo"]), "osmo")


@pytest.fixture
def twin(db: None) -> Room:
    """On the twin alone, for what is about our own rows."""
    return Room.make(Twin(namespaces=["osmo"]), "osmo")
