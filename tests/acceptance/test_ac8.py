"""AC8: a quota update synchronises the shared queue."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance


def test_ac8_a_larger_subpool_makes_the_shared_queue_smaller(team: Any) -> None:
    pool = team(100, a=30, b=40)
    assert pool.read_queues() == {pool.queue_name("_shared"): 30, pool.queue_name("a"): 30, pool.queue_name("b"): 40}

    pool.osmo("pool", "subpool", "update", pool.name, "b", "--quota", "50")

    assert pool.read_queues() == {pool.queue_name("_shared"): 20, pool.queue_name("a"): 30, pool.queue_name("b"): 50}
    assert pool.expect_refusal(21, "HIGH").json()["details"][0]["limit"] == 20
    pool.start(20, "HIGH")
