"""AC2: the shared queue gets the full quota when no subpools exist."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac2_the_shared_queue_has_the_whole_quota(team: Any) -> None:
    pool = team(100)

    tree = pool.read_tree()

    assert tree["container_queue"] == f"osmo-pool-ns-{pool.name}"
    assert tree["scheduling_quota"] == 100
    assert tree["shared"]["queue"] == pool.queue_name("_shared")
    assert tree["shared"]["quota"] == tree["quota"] == 100
    assert pool.read_queues() == {pool.queue_name("_shared"): 100}
