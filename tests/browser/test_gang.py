"""The workflow `inference-service` of docs/elastic-gangs.md in the browser: pasted, running without an optional
replica, ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text
from tests.unit.specs.test_manifest import INFERENCE

pytestmark = pytest.mark.browser

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
RUNNING = """
    SELECT 1 FROM scheduling_task task JOIN scheduling_group gang ON gang.uuid = task.group_id
    WHERE gang.name = %s AND task.status = 'RUNNING'
"""


def test_a_gang_is_submitted_shown_as_a_tree_and_ended(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    # Of 100 GPUs three replicas of 8 × 4 take 96, so the fourth cannot be placed.
    name = scene.stack.unique_name("serve")
    text = INFERENCE.replace("name: inference-service", f"name: {name}").replace("gpus-per-pod: 1", "gpus-per-pod: 4")
    tab = signed_in(scene.pool_user)
    page = tab.open(f"/submit?pool={scene.pool}")
    page.get_by_label("Workflow or PodGroup").fill(text.replace("minSubGroup: 3", "minSubGroup: 5"))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect_text(page.locator("main"), "Line 7, spec.minSubGroup")
    page.get_by_label("Workflow or PodGroup").fill(text)
    page.get_by_role("button", name="Check").click()
    expect_text(page.locator("main"), "needs at least 96 GPUs at once")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(f"**/workflows/{name}-1")
    scene.stack.wait_until(lambda: len(scene.stack.query(RUNNING, name)) == 24, seconds=90, what="three replicas run")

    page = tab.open(f"/workflows/{name}-1")
    for picture, size in (("phone", PHONE), ("desk", DESK)):
        page.set_viewport_size(size)
        tree = page.get_by_role("region", name=f"Tree of gang {name}")
        expect(tree.get_by_role("img", name=f"{name}: 3 of 4 running, 3 required")).to_be_visible()
        expect(tree.get_by_role("img", name="prefill-3: 0 of 8 running, 8 required")).to_be_visible()
        expect_text(tree.locator("tr", has_text="prefill-3").first, "optional, not running")
        expect(tree.get_by_text("minimum met")).to_have_count(4)
        card, pods = page.locator("section", has=tree).bounding_box(), page.get_by_text("Pods (").bounding_box()
        assert card["x"] <= pods["x"]
        assert pods["y"] + pods["height"] <= card["y"] + card["height"] + 1
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        tab.screenshot(picture)
    tab.assert_accessible_on_desk_and_phone()

    scene.end_workflow(f"{name}-1")
    page = tab.open(f"/workflows/{name}-1")
    expect_text(page.locator("main"), "COMPLETED")
    expect(page.get_by_role("region", name=f"Tree of gang {name}").get_by_text("optional, not running")).to_have_count(
        1
    )
