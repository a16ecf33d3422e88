"""Interruptions: a double click, a session that has ended, a browser without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import WORKFLOW, PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser


def test_a_double_click_submits_once(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab, name = signed_in(scene.pool_user), scene.stack.unique_name("twice")
    page = tab.open(f"/submit?pool={scene.pool}")
    page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=name, gpus=2))
    button = page.get_by_role("button", name="Submit", exact=True)
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    held: list[Any] = []  # until the second click is done, however fast the server answers
    page.route("**/submit**", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    with page.expect_request(lambda request: request.method == "POST"):
        page.mouse.down()
        page.mouse.up()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    assert len(held) == 1
    held[0].continue_()
    page.wait_for_url("**/workflows/*")
    assert len(scene.stack.query("SELECT 1 FROM scheduling_workflow WHERE spec_name = %s", name)) == 1


def test_a_session_that_ends_while_a_person_types(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin, viewport={"width": 390, "height": 844})
    page = tab.open(f"/pools/{scene.pool}/subpools/create")
    page.get_by_label("Name").fill("late")
    page.get_by_label("Quota in GPUs").fill("25%")
    tab.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("alert"), "You have been signed out")
    tab.screenshot("signed-out")
    tab.assert_accessible()
    page.get_by_label("Username").fill(scene.pool_admin)
    page.get_by_label("Password").fill(scene.password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Send it again").wait_for()
    tab.screenshot("signed-in")
    tab.assert_accessible()
    page.get_by_role("button", name="Send it again").click()
    expect_text(page.locator("main"), f"The quota of {scene.pool}--late is 25 GPUs from now on.")
    page.get_by_role("button", name=f"Create {scene.pool}--late").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    assert scene.subpool_state(f"{scene.pool}--late") == ("ACTIVE", 25)


def test_the_menu_of_a_phone_by_keyboard(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in(scene.pool_admin, viewport={"width": 390, "height": 844}).open(scene.pool_page)
    menu, navigation = page.get_by_role("button", name="Menu", exact=True), page.get_by_role("navigation", name="Main")
    for leave in ("Escape", "Enter"):  # the second on the button that closes
        menu.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Close the menu")).to_be_focused()
        page.keyboard.press(leave)
        expect(menu).to_be_focused()
        expect(navigation).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Close the menu")).to_be_focused()
    page.keyboard.press("Tab")
    expect(navigation.get_by_role("link", name="Home")).to_be_focused()


def test_without_scripts(scene: PoolScene, new_tab: Callable[..., Any]) -> None:
    """On a phone; at a desk: tests/browser/test_forms.py."""
    scene.create_subpool("a", 30)
    tab = new_tab(java_script_enabled=False, viewport={"width": 390, "height": 900})
    page = tab.login(scene.pool_admin, scene.password)
    page.get_by_role("link", name=scene.pool, exact=True).click()
    page.get_by_label(f"New quota of {scene.pool}--a").fill("40")
    page.get_by_role("button", name=f"Resize {scene.pool}--a").click()
    page.wait_for_url("**/-/preview?**")
    page.get_by_role("button", name=f"Resize {scene.pool}--a").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 40)
    tab.screenshot("pool")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Work").click()
    page.get_by_role("navigation", name="Section").get_by_role("link", name="Submit").click()
    page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=scene.stack.unique_name("plain"), gpus=200))
    page.get_by_role("button", name="Check").click()
    expect_text(page.locator("main"), "asks for 200 GPUs")
