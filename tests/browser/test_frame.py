"""The frame of the pages by keyboard alone, in high contrast, on paper and by touch."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser

FOCUSED = "document.activeElement.innerText || document.activeElement.name"


def test_a_change_by_keyboard_alone(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    page = signed_in(scene.pool_admin).open(scene.pool_page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#oa-main")).to_be_focused()

    page.goto(f"{scene.stack.base_url}/pools/{scene.pool}/subpools/create")
    expect(page.locator("[name=subpool_name]")).to_be_focused()
    page.keyboard.type("a")
    page.keyboard.press("Enter")  # the first button of the form is the preview
    page.wait_for_selector("[role=alert]")
    expect(page).to_have_title(re.compile("^Error: "))
    expect(page.get_by_role("alert").first).to_be_focused()
    page.get_by_label("Name").fill("b")
    page.get_by_label("Quota in GPUs").fill("10")
    page.keyboard.press("Enter")
    page.wait_for_selector("#effect-title")
    expect(page.locator("#effect-title")).to_be_focused()
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
    page = tab.open(f"/workflows?pool={scene.pool}")
    box = page.locator("tbody input[type=checkbox]").first.bounding_box()
    assert (box["width"], box["height"]) == (24, 24)
    time = page.locator("time[data-age]").first
    time.tap()
    expect(time).to_have_text(re.compile(" UTC$"))
    time.tap()
    expect(time).not_to_have_text(re.compile(" UTC$"))
    page.keyboard.press("t")
    expect_text(time, "GMT+9")
    page.reload()
    expect_text(page.locator("time[data-age]").first, "GMT+9")
    length = tab.open(f"/queue/{scene.pool}").locator("time[data-age=length]").first
    expect(length).to_have_text(re.compile(r"^since .* GMT\+9$"))
    page.keyboard.press("t")
    expect(length).to_have_text(re.compile("^since .* UTC$"))
    page.keyboard.press("t")
    expect(length).to_have_text(re.compile(r"^\d+ (s|min)$"))


def test_an_unknown_address_has_the_menu(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in(scene.pool_user).open("/nothing-here/")
    expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Work")).to_be_visible()
    expect_text(page.locator("h1"), "Not found")


def test_search_filter_and_keys_by_keyboard(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin)
    page = tab.open("/workflows")
    page.keyboard.press("/")
    expect(page.locator("main [name=q]")).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type(scene.pool)
    page.get_by_role("option", name=scene.pool, exact=False).first.wait_for()
    tab.assert_accessible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{scene.pool_page}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_tables_fit_a_small_desk(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a-name-of-a-team", 20)
    scene.run_workflows(f"{scene.pool}--a-name-of-a-team", gpus=8)
    scene.submit_workflow(scene.pool, gpus=60, priority="LOW")
    tab = signed_in(scene.pool_admin)
    addresses = (scene.pool_page, f"/workflows?pool={scene.pool}", "/pools")
    for width, address in product((1024, 1280), addresses):
        tab.page.set_viewport_size({"width": width, "height": 900})
        page = tab.open(address)
        expect(page.locator(".oa-table").first).to_be_visible()
        # Not the folded tables with the numbers of a chart, which are half as wide.
        sideways = page.evaluate(
            "[...document.querySelectorAll('.oa-scroll:not(.oa-plot__table *)')]"
            ".filter(e => e.scrollWidth > e.clientWidth)"
            ".map(e => `${e.innerText.slice(0, 40)}: ${e.scrollWidth} of ${e.clientWidth} px`)"
        )
        assert sideways == [], (address, width)


def test_the_reference_of_the_api_is_filtered_by_words(signed_in: Callable[..., Any]) -> None:
    tab = signed_in("admin")
    page = tab.open("/api/docs")
    tab.assert_accessible_on_desk_and_phone()
    page.get_by_role("searchbox", name="Part of an address").fill("subpool delete")
    expect(page.get_by_role("status").filter(has_text="1 operation")).to_be_visible()
    expect(page.locator(".oa-api__list li:visible")).to_have_count(1)
    page.get_by_role("link", name="/api/configs/pool/{parent}/subpool").click()
    expect_text(page.locator("main"), "curl -X DELETE", "Answer")
    tab.assert_accessible_on_desk_and_phone()
    page.go_back()
    expect(page.locator(".oa-api__list li:visible")).to_have_count(1)
