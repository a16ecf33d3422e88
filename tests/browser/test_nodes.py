"""The map of nodes: all of a cluster on one screen, its cards by pointer, keyboard and finger, and without a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import NODES, PoolScene
from tests.support.browser import PHONE, expect, expect_text
from tests.support.stack import Stack

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}
TILES = ".oa-tiles a"


@pytest.fixture(scope="module")
def scene(stack: Stack) -> PoolScene:
    """A cluster with work of two priorities and a node that is not ready; no test changes it."""
    scene = PoolScene.build(stack)
    scene.run_workflows(scene.pool, gpus=6)
    scene.run_workflows(scene.pool, gpus=3, priority="LOW")
    with scene.stack.orm():
        from pools.models import Node
        from scheduling.models import NodeState

        NodeState.objects.create(node=Node.objects.get(backend__name=scene.pool, name="n7"), ready=False)
    return scene


@pytest.fixture
def address(scene: PoolScene) -> str:
    """The map of the cluster."""
    return f"/nodes?backend={scene.pool}"


def test_a_cluster_is_on_one_screen(scene: PoolScene, address: str, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_user)
    for colour in ("pool", "user", "priority"):
        page = tab.open(f"{address}&colour={colour}")
        expect(page.locator(TILES)).to_have_count(NODES)
        for size in (PHONE, DESK):
            page.set_viewport_size(size)
            assert page.locator(TILES).last.bounding_box()["y"] < size["height"] - 60, colour
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        tab.assert_accessible_on_desk_and_phone()


def test_the_keyboard_goes_from_tile_to_tile_and_reads_their_cards(
    scene: PoolScene, address: str, signed_in: Callable[..., Any]
) -> None:
    tab = signed_in(scene.pool_user, viewport=DESK, forced_colors="active")
    page = tab.open(address)
    card = page.get_by_role("tooltip")
    expect(card).to_be_hidden()
    page.get_by_role("link", name="priority", exact=True).focus()
    for _ in range(5):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches('{TILES}')"):
            break
    expect(card).to_be_visible()
    expect_text(card, scene.pool_user)
    page.keyboard.press("End")
    expect_text(card, "No GPU is in use.")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "n1"
    tab.assert_accessible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/nodes/{scene.pool}/n1")


def test_pointer_finger_and_no_script(scene: PoolScene, address: str, signed_in: Callable[..., Any]) -> None:
    page = signed_in(scene.pool_user, viewport=DESK).open(address)
    page.locator(TILES).first.hover()
    expect_text(page.get_by_role("tooltip"), "2 free")
    page.get_by_role("tooltip").get_by_role("link").last.click()
    page.wait_for_url("**/workflows/*")
    page = signed_in(scene.pool_user, viewport=PHONE, has_touch=True).open(address)
    tile = page.locator(TILES, has_text="n7")
    tile.tap()
    expect_text(page.get_by_role("tooltip"), "not ready")
    tile.tap()
    page.wait_for_url("**/n7")
    page = signed_in(scene.pool_user, java_script_enabled=False).open(address)
    assert page.locator(TILES, has_text="n7").get_attribute("title").startswith("n7: not ready; 0 of 8 GPUs free")
    expect(page.get_by_role("link", name="priority", exact=True)).to_be_visible()
    page.locator(TILES, has_text="n7").click()
    page.wait_for_url("**/n7")


def test_the_filters_of_the_map_are_chips(scene: PoolScene, address: str, signed_in: Callable[..., Any]) -> None:
    page = signed_in(scene.pool_user, viewport=DESK).open(f"{address}&colour=priority")
    page.get_by_text("+ Filter").click()
    page.get_by_label("Free GPUs, at least").fill("8")
    page.keyboard.press("Enter")
    chip = page.get_by_role("link", name="Remove the filter Free GPUs, at least: 8")
    expect(chip).to_be_visible()
    shown = page.locator(TILES).count()
    assert 0 < shown < NODES
    expect(page.get_by_role("link", name="priority", exact=True)).to_have_attribute("aria-current", "true")
    chip.click()
    expect(page.locator(TILES)).to_have_count(NODES)
    page = signed_in(scene.pool_user).open(f"{address}&free=many")
    expect_text(page.get_by_role("status").first, "Free GPUs, at least")
