"""AC3: the shared queue is adjusted when subpools are added."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac3_a_new_subpool_comes_out_of_the_shared_queue(team: Any) -> None:
    pool = team(100)
    assert pool.queues() == {pool.queue("_shared"): 100}

    pool.osmo("pool", "subpool", "create", pool.name, "a", "--quota", "30")

    assert pool.queues() == {pool.queue("_shared"): 70, pool.queue("a"): 30}
    tree = pool.tree()
    assert tree["shared"]["quota"] + tree["subpools"][0]["quota"] == tree["quota"] == 100
    assert pool.listed()[3:5] == ["70", "(Total:"]
