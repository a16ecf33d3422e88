"""A pool admin divides a pool into subpools in the browser, and running work is never stopped."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser
PHONE = {"viewport": {"width": 390, "height": 844}}


def _cells(page: Any, part: str) -> Any:
    """The cells of one row of the table of a pool's page."""
    row = page.locator("table tr", has=page.locator("th[scope=row]", has_text=re.compile(rf"^\s*{part}(?!\w)"))).first
    return row.locator("td")


def test_shrinking_below_the_use(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 40)
    (work,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    tab = signed_in(scene.pool_admin)
    page = tab.open(scene.pool_page)
    page.get_by_label(f"New quota of {scene.pool}--a").fill("5")

    keeps = f"{scene.pool}--a keeps 8 GPUs of HIGH and NORMAL work on a quota of 5: nothing is stopped"
    expect_text(page.locator("#oa-resize"), keeps, re.compile("32\\s*→\\s*\N{MINUS SIGN}3"))
    tab.screenshot("preview")
    tab.assert_accessible()
    page.get_by_role("button", name=f"Resize {scene.pool}--a").click()

    expect(_cells(page, "a").nth(5)).to_have_text("\N{MINUS SIGN}3", use_inner_text=True)
    drains = page.locator("section", has_text=f"{scene.pool}--a is draining to its new quota")
    expect_text(drains, work)
    expect_text(drains, scene.pool_user)
    tab.screenshot("draining")
    tab.assert_accessible()


def test_a_field_to_which_nobody_has_come_has_no_fault_yet(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in(scene.pool_admin).open(f"/pools/{scene.pool}/subpools/create")
    with page.expect_response("**/-/preview?**"):
        page.get_by_label("Name").fill("b")
    effect = page.locator("#oa-effect:not([aria-busy])")
    expect_text(effect, "Nothing changes yet")
    page.get_by_label("Quota in GPUs").focus()
    page.get_by_label("Reason").fill("a second group")
    expect_text(effect, "Quota: ")


def test_refused_input_stays_in_the_form(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 60)
    tab = signed_in(scene.pool_admin)
    page = tab.open(f"/pools/{scene.pool}/subpools/create")
    page.get_by_label("Name").fill("Not--Allowed")
    page.get_by_label("Quota in GPUs").fill("41")
    page.get_by_label("Reason").fill("a second group")
    page.get_by_role("button", name="Preview").click()

    expect_text(page.locator("main"), "single hyphens", "40 are free to give")
    expect(page.get_by_label("Name")).to_have_value("Not--Allowed")
    expect(page.get_by_label("Quota in GPUs")).to_have_value("41")
    expect(page.get_by_label("Reason")).to_have_value("a second group")
    tab.screenshot("refused")
    tab.assert_accessible()

    page.get_by_label("Name").fill("b")
    page.get_by_label("Quota in GPUs").fill("40.9")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "40.9 is not whole")
    page.get_by_role("button", name="Change the input").click()
    expect(page.get_by_label("Name")).to_have_value("b")
    expect(page.get_by_label("Reason")).to_have_value("a second group")


def test_phone_and_dark(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    scene.create_subpool("b", 20)
    scene.run_workflows(f"{scene.pool}--a", gpus=8)
    scene.run_workflows(f"{scene.pool}--b", gpus=8, count=4, priority="LOW")
    tab = signed_in(scene.pool_admin, **PHONE, color_scheme="dark")
    for name, address in {
        "home": "/",
        "pools": "/pools",
        "pool": scene.pool_page,
        "resize": f"/pools/{scene.pool}/subpools/a/resize",
        "workflows": "/workflows",
        "submit": "/submit",
        "audit": "/activity/audit",
        "tokens": "/tokens",
    }.items():
        page = tab.open(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        assert page.evaluate("document.documentElement.classList.contains('dark')"), address
        tab.screenshot(name)
        tab.assert_accessible()
    page = tab.open("/")
    page.get_by_role("button", name="Menu").focus()
    page.keyboard.press("Enter")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Work", exact=True).click()
    page.wait_for_url(re.compile("/workflows"))
