"""The published example of `osmo pool list`, to the character (design, O5.2)."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.acceptance

EXAMPLE = """\
Pool            Status         Subpool State  GPU Quota        Used  Available
--------------  -------------  -------------  ---------------  ----  ---------
team            ONLINE         -              10 (Total: 100)  50    -40
├─ team--a      ONLINE         ACTIVE         30               5     25
├─ team--b      ONLINE         ACTIVE         40               10    30
└─ team--c      ONLINE         ACTIVE         20               0     20
"""


def test_the_list_looks_as_the_design_shows_it(team: Any) -> None:
    pool = team(100, named="team")
    pool.start(50, "HIGH")  # before the subpools, so that the remainder is negative
    for short, gpus in (("a", 30), ("b", 40), ("c", 20)):
        pool.osmo("pool", "subpool", "create", "team", short, "--quota", str(gpus))
    pool.start(5, "HIGH", to="team--a")
    pool.start(10, "NORMAL", to="team--b")
    pool.start(4, "LOW", to="team--c")  # LOW work does not count here

    assert pool.osmo("pool", "list", by="user") == EXAMPLE
