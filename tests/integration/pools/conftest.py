"""Callers of the API, and a small installation: backend `sim` (namespace `ns`, 4 nodes of 32 GPUs)."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from tests.support.world import ModuleData, apply_change


def make_sim() -> str:
    """A simulated backend of 4 nodes of 32 GPUs; work ends only by a report."""
    nodes = [{"name": f"n{number}", "gpus": 32} for number in range(1, 5)]
    apply_change(PutBackend(name="sim", body={"namespace": "ns", "nodes": nodes, "auto_end": False}))
    return "sim"


@pytest.fixture(scope="module")
def sim_once(module_data: ModuleData) -> str:
    with module_data():
        return make_sim()


@pytest.fixture
def sim(sim_once: str, db: None) -> str:
    """The backend of :func:`make_sim`, made once for a module."""
    return sim_once


def pool_config(guarantee: int, maximum: int = -1, weight: int = 1, **more: Any) -> dict[str, Any]:
    """A pool's configuration on `sim`."""
    shares = {"guarantee": guarantee, "maximum": maximum, "weight": weight}
    return {"backend": "sim", "resources": {"gpu": shares}, **more}


@pytest.fixture
def empty_team(sim: str) -> None:
    """Pool `team` with 100 GPUs, without subpools."""
    apply_change(PutPool(name="team", body=pool_config(100)))
