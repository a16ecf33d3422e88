"""Pictures of numbers: values at the cursor, an enlarged part and the way back, and events over a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import PHONE, expect, expect_text
from tests.support.stack import Stack

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}


@pytest.fixture(scope="module")
def busy(stack: Stack) -> PoolScene:
    """Three workflows run in the pool and one waits, so that both charts are drawn; no test changes it."""
    scene = PoolScene.build(stack)
    scene.run_workflows(scene.pool, gpus=6, count=3)
    scene.submit_workflow(scene.pool, gpus=90)
    return scene


def _drag(page: Any, box: dict[str, float], begin: float, end: float) -> None:
    """Draw from one place of a picture to another one, as shares of its width."""
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + (begin + end) / 2 * box["width"], middle)
    page.mouse.move(box["x"] + end * box["width"], middle)
    page.mouse.up()


def test_a_chart_follows_changes_and_keeps_its_part(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    """Each refresh of Usage draws what is new; the part, the typed filter and the cursor's values stay."""
    scene.run_workflows(scene.pool, gpus=1)
    tab = signed_in(scene.pool_user, viewport=DESK)
    page = tab.open("/usage?period=24h")
    page.wait_for_selector("html[data-live=on]", state="attached")
    page.evaluate("document.getElementById('oa-main').removeAttribute('data-live-about')")  # not each half minute alone
    _drag(page, page.locator(".u-over").first.bounding_box(), 0.5, 0.999)
    page.wait_for_url("**#part=*")
    part = page.url.partition("#")[2]
    page.get_by_label("User", exact=True).fill("half-typed")
    page.locator(".uplot").first.evaluate("drawn => drawn.setAttribute('data-old', '')")
    count = page.locator(".u-over").count()
    scene.run_workflows(scene.pool, gpus=4)
    expect(page.locator("[data-old]"), "it is drawn anew").to_have_count(0)
    expect(page.locator(".oa-plot__value").first).not_to_have_text("")
    expect(page.locator(".u-over")).to_have_count(count)
    assert page.url.endswith(f"#{part}")
    expect(page.get_by_role("button", name="Whole period").first).to_be_visible()
    expect(page.get_by_label("User", exact=True)).to_have_value("half-typed")


@pytest.mark.parametrize("colours", ["none", "active"])
def test_a_chart_tells_its_values_and_is_enlarged(busy: PoolScene, signed_in: Callable[..., Any], colours: str) -> None:
    tab = signed_in(busy.pool_user, viewport=DESK, forced_colors=colours)
    page = tab.open("/usage?period=24h")
    picture = page.locator(".u-over").first
    box = picture.bounding_box()
    bubble = page.locator(".oa-plot__bubble").first
    expect(bubble).to_be_hidden()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 20)
    expect_text(bubble, "Guaranteed")
    back = page.get_by_role("button", name="Whole period").first
    expect(back).to_be_hidden()
    backs = page.locator(".oa-plot__back:visible")
    page.mouse.move(5, 5)
    legend = page.locator(".oa-plot__time").first
    newest = legend.inner_text()
    _drag(page, box, 0.3, 0.6)
    expect(back).to_be_visible()
    assert backs.count() == page.locator(".u-over").count() > 1, "a part is that of all charts"
    assert "#part=" in page.url
    page.reload()
    expect(back).to_be_visible()
    expect(legend).not_to_have_text(newest)  # that step is not in the part
    tab.assert_accessible()
    back.click()
    expect(backs).to_have_count(0)
    expect(legend).to_have_text(newest)
    assert page.url.endswith("/usage?period=24h")
    assert page.evaluate("document.documentElement.scrollWidth") <= DESK["width"]


def test_the_keys_of_a_chart(busy: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in(busy.pool_user, viewport=DESK).open("/usage?period=24h")
    page.locator(".oa-plot__picture").first.focus()
    back = page.get_by_role("button", name="Whole period").first
    page.keyboard.press("ArrowLeft")
    expect_text(page.locator(".oa-plot__said").first, "Guaranteed")
    page.keyboard.press("+")
    expect(back).to_be_visible()
    page.keyboard.press("-")
    expect(back).to_be_hidden()
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    expect(back).to_be_hidden()
    assert "#" not in page.url


def test_a_finger_enlarges_a_chart(busy: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in(busy.pool_user, viewport=PHONE, has_touch=True).open("/usage?period=24h")
    over = page.locator(".u-over").first
    row = page.locator("table[data-columns=usage] tbody tr").first.bounding_box()
    assert row["y"] < 500, "the table before the charts"
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    middle, hand = box["y"] + box["height"] / 2, page.context.new_cdp_session(page)
    for kind, share in [("touchStart", 0.3), *(("touchMove", 0.3 + step / 40) for step in range(1, 13))]:
        point = {"x": box["x"] + share * box["width"], "y": middle}
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.get_by_role("button", name="Whole period").first).to_be_visible()
    assert "#part=" in page.url


def test_events_have_the_width_of_their_time_and_a_part_filters_the_list(
    busy: PoolScene, signed_in: Callable[..., Any]
) -> None:
    tab = signed_in(busy.pool_user, viewport=DESK)
    page = tab.open("/activity?range=1h")
    svg, rows = page.locator(".oa-eventlanes__svg"), page.locator(".oa-events > li")
    columns = svg.locator("a rect")
    for width in (1440, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = svg.bounding_box()
        first, last = columns.first.bounding_box(), columns.last.bounding_box()
        assert first["x"] == pytest.approx(box["x"], abs=1)
        assert last["x"] + last["width"] == pytest.approx(box["x"] + box["width"], abs=1)
        expect(rows).to_have_count(3)
        if width == 1440:
            assert rows.first.bounding_box()["y"] < 250
            assert rows.first.bounding_box()["height"] <= 36
        tab.assert_accessible_in_both_colours()
        svg.locator("a").filter(has_text="3 started").focus()
        expect_text(page.locator(".oa-eventlanes__values"), f"{busy.pool}: 3 started")
        _drag(page, svg.bounding_box(), 0.1, 0.4)
        page.wait_for_url("**part_since=**")
        expect_text(page.locator(".oa-events"), "No event in this part of the time.")
        page.get_by_role("link", name="All of the time").click()
        expect(rows).to_have_count(3)
