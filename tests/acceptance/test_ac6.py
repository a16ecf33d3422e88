"""AC6: deleting a subpool returns its quota to the shared queue."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac6_an_idle_subpool_is_archived_at_once(team: Any) -> None:
    pool = team(100, a=30, b=40)
    assert pool.read_tree()["shared"]["quota"] == 30

    pool.osmo("pool", "subpool", "delete", pool.name, "a", "--yes")

    assert pool.admin.get(f"/api/configs/pool/{pool.name}/subpool/a").json()["subpool_state"] == "ARCHIVED"
    assert pool.read_queues() == {pool.queue_name("_shared"): 60, pool.queue_name("b"): 40}


def test_ac6_a_busy_subpool_drains_first(team: Any) -> None:
    pool = team(100, a=30, b=40)
    name = pool.start(20, "HIGH", to=f"{pool.name}--a")

    pool.osmo("pool", "subpool", "delete", pool.name, "a", "--yes")

    assert pool.list_cells(f"{pool.name}--a")[2:] == ["DELETING", "0", "20", "-20"]
    assert pool.read_tree()["shared"]["quota"] == 60
    assert pool.read_queues()[pool.queue_name("a")] == 20  # the running work keeps its quota at the scheduler
    assert pool.expect_refusal(1, "LOW", to=f"{pool.name}--a").json()["error_code"] == "USAGE"
    assert pool.read_workflow(name)["status"] == "RUNNING"
    pool.end_workflow(name)
    assert pool.admin.get(f"/api/configs/pool/{pool.name}/subpool/a").json()["subpool_state"] == "ARCHIVED"
    assert pool.read_queues() == {pool.queue_name("_shared"): 60, pool.queue_name("b"): 40}
