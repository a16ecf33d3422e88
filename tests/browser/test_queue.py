"""The queue of a pool and the scheduler events: positions, reasons, borrowing, and reclaimed work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import GPUS, NODES, PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser


def test_the_queue(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    """LOW work of subpool `a` has borrowed every node; `b` reclaimed one and requests more than its quota."""
    scene.create_subpool("a", 30)
    scene.create_subpool("b", 10)
    scene.run_workflows(f"{scene.pool}--a", gpus=GPUS, count=NODES, priority="LOW")
    (owner,) = scene.run_workflows(f"{scene.pool}--b", gpus=GPUS)
    late = scene.submit_workflow(f"{scene.pool}--b", gpus=GPUS)
    tab = signed_in(scene.pool_admin)
    page = tab.open(scene.pool_page)
    page.locator("#oa-main").get_by_role("link", name="Queue", exact=True).click()
    waiting = page.get_by_role("region", name="Pending gangs")
    row = waiting.locator(f"#gang-{late}-main-group")
    expect_text(row, "Too little free quota", f"{scene.pool}--b")
    lending = page.get_by_role("region", name="Quota, borrowed and lent")
    expect_text(lending.get_by_role("group", name=f"{scene.pool}--a"), "30 LOW inside")
    expect_text(page.get_by_role("region", name="Running workflows"), owner)
    tab.screenshot("queue")
    tab.assert_accessible_on_desk_and_phone()

    page.get_by_role("link", name="All scheduler events").click()
    expect_text(page.locator("main"), "Reclaimed", f"for {owner}")
    page.get_by_text("+ Filter").click()
    page.get_by_label("Event", exact=True).select_option("reclaim")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".oa-events > li")).to_have_count(1)
    tab.screenshot("timeline")
    tab.assert_accessible_on_desk_and_phone()

    page = tab.open(f"/queue/{scene.pool}")
    page.get_by_text("+ Filter").click()
    page.get_by_label("Subpool").select_option("a")
    with page.expect_navigation():
        page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("region", name="Pending gangs")).not_to_contain_text(late)
    page.get_by_label("Submitted by").fill("nobody")
    page.get_by_label("Submitted by").press("Enter")
    expect_text(page.locator("main"), "No pending work matches")


ROWS = """() => {
    const rows = [...document.querySelectorAll(".oa-queue tbody tr:not(.oa-unfolded)")];
    const places = rows.map((row) => row.getBoundingClientRect());
    return {
        first: places[0].top,
        height: Math.max(...places.map((place) => place.height)),
        whole: places.filter((place) => place.bottom <= 900).length,
    };
}"""
CUT = """() => {
    const regions = [...document.querySelectorAll(".oa-scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1);
    const targets = [...document.querySelectorAll("main :is(a, button, summary)")];
    const seen = targets.filter((each) => each.checkVisibility({ contentVisibilityAuto: true }));
    const beyond = seen.filter((each) => each.getBoundingClientRect().right > window.innerWidth);
    return [...regions, ...beyond].map((each) => each.outerHTML.slice(0, 80));
}"""


def test_eighteen_gangs_in_one_window_and_one_of_them_unfolded_by_keyboard(
    scene: PoolScene, signed_in: Callable[..., Any]
) -> None:
    scene.create_subpool("a", 8)
    scene.run_workflows(f"{scene.pool}--a", gpus=8)
    waiting = [scene.submit_workflow(f"{scene.pool}--a", gpus=8) for _ in range(20)]
    desk = {"width": 1440, "height": 900}
    tab = signed_in(scene.pool_admin, viewport=desk)
    page = tab.open(f"/queue/{scene.pool}")
    page.locator(f"#gang-{waiting[-1]}-main-group").wait_for()
    seen = page.evaluate(ROWS)
    assert seen["whole"] >= 18, seen
    assert seen["first"] < 250, seen
    assert seen["height"] <= 37, seen

    answer = page.locator(f"#more-{waiting[0]}-main-group")
    expect(answer).to_be_hidden()
    page.locator(f"#gang-{waiting[0]}-main-group a").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(answer).to_be_visible()
    expect_text(answer, f"the quota of {scene.pool}--a (8) leaves 0 GPUs", "What would start it", scene.pool_user)
    tab.assert_accessible()
    page.keyboard.press("Enter")
    expect(answer).to_be_hidden()

    for width in (1024, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT) == [], width
        assert page.evaluate(ROWS)["first"] < 300, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(forced_colors="active")
    assert page.evaluate(CUT) == [], "in forced colours"
    tab.screenshot("rows")
    tab.assert_accessible()


def test_the_queue_is_hidden_without_a_role(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin)
    with scene.stack.orm():
        from tests.support import world

        other = scene.stack.unique_name("other")
        world.make_pool(other, 8, on=world.make_backend(other, namespace=other))
    answer = tab.page.request.get(f"{tab.base_url}/queue/{other}")
    assert answer.status == 404
