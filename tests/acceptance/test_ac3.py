"""AC3: the shared queue is adjusted when subpools are added."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac3_a_new_subpool_comes_out_of_the_shared_queue(team: Any) -> None:
    pool = team(100)
    assert pool.read_queues() == {pool.queue_name("_shared"): 100}

    pool.osmo("pool", "subpool", "create", pool.name, "a", "--quota", "30")

    assert pool.read_queues() == {pool.queue_name("_shared"): 70, pool.queue_name("a"): 30}
    tree = pool.read_tree()
    assert tree["shared"]["quota"] + tree["subpools"][0]["quota"] == tree["quota"] == 100
    assert pool.list_cells()[3:5] == ["70", "(Total:"]
