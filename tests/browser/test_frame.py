"""The frame of the pages by keyboard alone, in high contrast, on paper and by touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene

pytestmark = pytest.mark.browser

FOCUSED = "document.activeElement.innerText || document.activeElement.name"


def test_a_change_by_keyboard_alone(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    page = signed_in(scene.pool_admin).open(scene.pool_page)
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "oa-main"

    page.goto(f"{scene.stack.base_url}/pools/pool/{scene.pool}/subpools/create/")
    assert page.evaluate("document.activeElement.name") == "subpool_name"
    page.keyboard.type("a")
    page.keyboard.press("Enter")  # the first button of the form is the preview
    page.wait_for_selector("[role=alert]")
    assert page.title().startswith("Error: ")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "alert"
    page.get_by_label("Name").fill("b")
    page.get_by_label("Quota in GPUs").fill("10")
    page.keyboard.press("Enter")
    page.wait_for_selector("#effect-title")
    assert page.evaluate("document.activeElement.id") == "effect-title"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == f"Create {scene.pool}--b":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]")
    assert scene.subpool_state(f"{scene.pool}--b") == ("ACTIVE", 10)


def test_bars_in_high_contrast_and_on_paper(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    scene.run_workflows(f"{scene.pool}--a", gpus=8)
    tab = signed_in(scene.pool_admin, forced_colors="active", viewport={"width": 1440, "height": 900})
    page = tab.open(scene.pool_page)
    colour = "getComputedStyle(document.querySelector('.oa-bar .oa-part--guaranteed')).backgroundColor"
    canvas = "getComputedStyle(document.querySelector('.oa-card')).backgroundColor"
    assert page.evaluate(colour) != page.evaluate(canvas)
    tab.screenshot("high-contrast")
    page.emulate_media(media="print", forced_colors="none")
    left = "document.querySelector('main').getBoundingClientRect().left"
    assert page.evaluate(left) < 32
    assert page.evaluate("getComputedStyle(document.querySelector('#nav-sidebar')).display") == "none"


def test_targets_and_exact_times_on_a_phone(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.run_workflows(scene.pool, gpus=1)
    tab = signed_in(scene.pool_admin, viewport={"width": 390, "height": 844}, has_touch=True, timezone_id="Asia/Tokyo")
    page = tab.open(f"/scheduling/workflow/?pool={scene.pool}")
    box = page.locator("tbody input[type=checkbox]").first.bounding_box()
    assert (box["width"], box["height"]) == (24, 24)
    time = page.locator("time[data-age]").first
    time.tap()
    assert time.inner_text().endswith(" UTC")
    time.tap()
    assert not time.inner_text().endswith(" UTC")
    page.keyboard.press("t")
    assert "GMT+9" in time.inner_text()
    page.reload()
    assert "GMT+9" in page.locator("time[data-age]").first.inner_text()


def test_an_unknown_address_has_the_menu(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in(scene.pool_user).open("/nothing-here/")
    assert page.get_by_role("navigation", name="Main").get_by_role("link", name="Workflows").is_visible()
    assert "Not found" in page.inner_text("h1")


def test_search_filter_and_keys_by_keyboard(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin)
    page = tab.open("/scheduling/workflow/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.closest('main') !== null && document.activeElement.name") == "q"
    page.keyboard.press("Control+k")
    page.keyboard.type(scene.pool)
    page.get_by_role("option", name=scene.pool, exact=False).first.wait_for()
    tab.assert_accessible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{scene.pool_page}")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog", name="Keys").is_visible()
