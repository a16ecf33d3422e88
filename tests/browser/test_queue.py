"""The queue of a pool and the scheduler events: positions, reasons, borrowing, and reclaimed work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import GPUS, NODES, PoolScene
from tests.browser.test_gang import VIEWS
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser


@pytest.fixture
def busy_pool(scene: PoolScene) -> dict[str, str]:
    """LOW work of subpool `a` has borrowed every node; `b` reclaimed one and requests more than its quota."""
    scene.create_subpool("a", 30)
    scene.create_subpool("b", 10)
    borrowers = scene.run_workflows(f"{scene.pool}--a", gpus=GPUS, count=NODES, priority="LOW")
    (owner,) = scene.run_workflows(f"{scene.pool}--b", gpus=GPUS)
    late = scene.submit_workflow(f"{scene.pool}--b", gpus=GPUS)
    return {"owner": owner, "late": late, "first": borrowers[0]}


@pytest.mark.parametrize("view", ["desk", "phone-dark"])
def test_the_queue(scene: PoolScene, busy_pool: dict[str, str], signed_in: Callable[..., Any], view: str) -> None:
    tab = signed_in(scene.pool_admin, **VIEWS[view])
    page = tab.open(scene.pool_page)
    page.locator("#oa-main").get_by_role("link", name="Queue", exact=True).click()
    waiting = page.get_by_role("region", name="Pending gangs")
    row = waiting.get_by_role("row").filter(has_text=busy_pool["late"])
    expect_text(row, "quota")
    expect_text(row, f"{scene.pool}--b")
    lending = page.get_by_role("region", name="Quota, borrowed and lent")
    used = re.compile(re.escape(f"{scene.pool}--a: 30 used of the own quota"))
    expect(lending.get_by_role("img", name=used).filter(visible=True)).to_have_count(1)
    expect_text(page.get_by_role("region", name="Running workflows"), busy_pool["owner"])
    tab.screenshot(view)
    tab.assert_accessible()

    page.get_by_role("link", name="All scheduler events").click()
    expect_text(page.locator("main"), "Reclaimed", f"for {busy_pool['owner']}")
    page.get_by_text("+ Filter").click()
    page.get_by_label("Event", exact=True).select_option("reclaim")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".oa-timeline > li")).to_have_count(1)
    tab.screenshot(f"timeline-{view}")
    tab.assert_accessible()


def test_filters_of_the_queue(scene: PoolScene, busy_pool: dict[str, str], signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_user)
    page = tab.open(f"/queue/{scene.pool}")
    page.get_by_text("+ Filter").click()
    page.get_by_label("Subpool").select_option("a")
    with page.expect_navigation():
        page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("region", name="Pending gangs")).not_to_contain_text(busy_pool["late"])
    page.get_by_label("Submitted by").fill("nobody")
    page.get_by_label("Submitted by").press("Enter")
    expect_text(page.locator("main"), "No pending work matches")


def test_the_queue_is_hidden_without_a_role(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin)
    with scene.stack.orm():
        from tests.support import world

        other = scene.stack.unique_name("other")
        world.make_pool(other, 8, on=world.make_backend(other, namespace=other))
    answer = tab.page.request.get(f"{tab.base_url}/queue/{other}")
    assert answer.status == 404
