"""A researcher asks when their work would start, compares other ways in, and submits by the one that starts now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import WORKFLOW, PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser


def test_a_researcher_asks_before_submitting(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 16)
    scene.create_subpool("b", 8)
    scene.run_workflows(f"{scene.pool}--a", gpus=8, count=2)
    name = scene.stack.unique_name("new")
    tab = signed_in(scene.pool_user)
    page = tab.open("/submit")
    page.get_by_label("Pool or subpool").select_option(f"{scene.pool}--a")
    page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=name, gpus=8))
    page.get_by_role("button", name="Check").click()
    expect_text(page.locator("#start-forecast"), "start")

    page.get_by_role("button", name="Compare other ways to start").click()
    ways = page.get_by_role("region", name="Other ways to start, the earliest first")
    expect(ways.get_by_role("row").filter(has_text="as asked")).not_to_contain_text("now")
    expect_text(ways.get_by_role("row").filter(has_text="priority LOW"), "may be preempted", "now")
    expect_text(ways.get_by_role("row").filter(has_text=f"on {scene.pool}--b"), "now")
    tab.screenshot("answer")
    tab.assert_accessible_on_desk_and_phone()
    assert scene.stack.query("SELECT 1 FROM scheduling_workflow WHERE spec_name = %s", name) == []

    page.get_by_label("Pool or subpool").select_option(f"{scene.pool}--b")
    page.get_by_role("button", name="Check").click()
    expect_text(page.locator("#start-forecast"), "It can start now.")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/workflows/*")
    (row,) = scene.stack.query("SELECT name FROM scheduling_workflow WHERE spec_name = %s", name)
    scene.stack.wait_until(lambda: scene.are_running([row["name"]]), what=f"{row['name']} runs")
