"""AC1: pools without subpools behave identically to current behaviour."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac1_a_pool_without_subpools_behaves_as_before(team: Any) -> None:
    pool = team(100)

    answer = pool.submit(50, "HIGH")

    assert answer["queue"] == pool.queue_name("_shared")
    assert answer["k8s_queue"] == f"osmo-pool-ns-{pool.name}---shared"
    assert pool.read_tree()["shared"]["quota"] == 100
    pool.wait_until_running(answer["name"])
    assert pool.list_cells() == [pool.name, "ONLINE", "-", "100", "50", "50"]


def test_ac1_users_never_meet_the_shared_queue(team: Any) -> None:
    pool = team(100)
    pool.start(50, "HIGH")

    assert "_shared" not in pool.osmo("pool", "list", by="user")
    assert "_shared" not in pool.osmo("workflow", "list", by="user")
    assert "shared" not in str(pool.user.get("/api/pool").json())
    hidden = pool.user.post(f"/api/pool/{pool.name}--_shared/workflow", json={"file": "workflow: {}"})
    assert hidden.status_code == 404
