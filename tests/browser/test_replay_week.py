"""The admin of a pool replays the last week with another quota, then lets the page propose one and previews it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect_text

pytestmark = pytest.mark.browser


def test_an_admin_replays_last_week(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    """Two of three workflows of `a` fit its quota; `b` has 24 GPUs that nobody uses."""
    scene.create_subpool("a", 16)
    scene.create_subpool("b", 24)
    scene.run_workflows(f"{scene.pool}--a", gpus=8, count=2)
    scene.submit_workflow(f"{scene.pool}--a", gpus=8)
    tab = signed_in(scene.pool_admin)
    page = tab.open(f"/replay?name={scene.pool}--a&backend={scene.pool}")
    page.get_by_label("Quota", exact=True).fill("24")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_url(re.compile(r"/replay/.+"))
    # The page follows by itself until a worker has run the replay.
    page.locator("ul.oa-sentences").wait_for(timeout=60_000)
    expect_text(page.locator("ul.oa-sentences"), f"{scene.pool}--a", "1 more start")
    expect_text(page.get_by_label("Teams").last, "2 → 3")
    expect_text(page.get_by_label("People who would notice").last, "Nobody would wait a minute longer")

    page = tab.open(f"/replay?backend={scene.pool}")
    page.get_by_role("button", name="Propose quotas").click()
    page.wait_for_url(re.compile(r"/replay/.+"))
    page.get_by_role("heading", name=f"{scene.pool}: a proposal").wait_for(timeout=60_000)
    expect_text(page.get_by_role("region", name=f"Simple divisions of {scene.pool}"), "Equal shares", "Shares by use")
    tab.screenshot("answer")
    tab.assert_accessible_on_desk_and_phone()
    changes = page.get_by_role("region", name=f"Changes of {scene.pool}")
    changes.get_by_role("row").filter(has_text=f"{scene.pool}--a").get_by_role("link").click()
    page.get_by_role("button", name=f"Resize {scene.pool}--a").wait_for()
    rows = scene.stack.query("SELECT last_quota FROM pools_pool WHERE name = %s", f"{scene.pool}--a")
    assert [row["last_quota"] for row in rows] == [16], "the preview changes nothing"
