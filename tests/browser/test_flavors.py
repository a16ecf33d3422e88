"""A pool of two kinds of GPU in the browser: a researcher is told which kind their work got and why, and waits for the
nearest; a pool admin moves quota between kinds; a kind in use stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.pool_scene import WORKFLOW, PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser
DESK, PHONE = ({"viewport": {"width": 1440, "height": 900}}, {"viewport": {"width": 390, "height": 844}})


@pytest.fixture(autouse=True)
def no_flavors_left(scene: PoolScene) -> Iterator[None]:
    """Forms and lists of other tests show no flavors."""
    yield
    scene.remove_flavors()


def _submit(page: Any, name: str, gpus: int) -> None:
    page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=name, gpus=gpus))
    page.get_by_role("button", name="Submit", exact=True).click()


def test_a_researcher_hears_which_kind_work_got_and_what_else_waits_for(
    scene: PoolScene, signed_in: Callable[..., Any]
) -> None:
    scene.give_flavors(h100=12, a100=16)
    scene.run_workflows(scene.pool, gpus=8)
    tab = signed_in(scene.pool_user, **PHONE)
    address = f"/submit?pool={scene.pool}"
    page = tab.open(address)
    name = scene.stack.unique_name("train")
    _submit(page, name, 24)
    expect_text(
        page.locator("main"),
        f"The largest gang fits in no GPU flavor of {scene.pool}. One of these is enough, or submit with priority LOW",
        f"a100: it asks for 24 GPUs at once, {scene.pool} guarantees NORMAL work 16. Ask for at most 16 at once.",
        f"h100: it asks for 24 GPUs at once, {scene.pool} guarantees NORMAL work 12. Ask for at most 12 at once.",
    )
    tab.assert_accessible()

    _submit(page, name, 8)
    page.wait_for_url(re.compile(rf"/workflows/{name}-1"))
    scene.stack.wait_until(lambda: scene.are_running([f"{name}-1"]), what="the work runs")
    page = tab.open(f"/workflows/{name}-1")
    got = f"{name}-1 starts in {scene.pool} with 8 a100 GPUs; h100 comes before, but the quota leaves 4."
    expect_text(page.locator("main"), got)
    tab.screenshot("got")
    tab.assert_accessible()

    scene.run_workflows(scene.pool, gpus=6)
    page = tab.open(address)
    _submit(page, f"{name}-more", 8)
    page.wait_for_url(re.compile(rf"/workflows/{name}-more-1"))
    scene.stack.wait_until(lambda: "one of these" in _text(tab, f"/workflows/{name}-more-1"), what="a reason")
    text = _text(tab, f"/workflows/{name}-more-1")
    assert re.search(
        r"Why it waits: h100: it asks for 8 h100 GPUs; .* 4 h100 GPUs missing; a100: .* a100 GPUs missing", text
    )
    assert re.search(r"What would start it: one of these h100[:,] .* a100[:,] ", text)
    tab.screenshot("waits")
    tab.assert_accessible()


def _text(tab: Any, path: str) -> str:
    return " ".join(str(tab.open(path).locator("main").inner_text()).split())


def test_a_pool_admin_resizes_a_flavor_and_sees_which_one_is_full(
    scene: PoolScene, signed_in: Callable[..., Any]
) -> None:
    scene.give_flavors(h100=16, a100=32)
    scene.create_subpool("a", {"h100": 8, "a100": 8})
    scene.run_workflows(f"{scene.pool}--a", gpus=8)
    tab = signed_in(scene.pool_admin, **DESK)
    page = tab.open(scene.pool_page)
    expect_text(page.locator("main"), "h100 8 of 8", "a100 0 of 8", "a100 0 of 32")
    page.get_by_role("link", name=f"Resize {scene.pool}--a").click()
    page.get_by_label(re.compile("a100")).fill("12")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "a100", re.compile(r"8\s*→\s*12"))
    tab.screenshot("preview")
    tab.assert_accessible()
    page.get_by_role("button", name=f"Resize {scene.pool}--a").click()
    expect_text(page.locator("main"), "h100 8 of 8", "a100 0 of 12")
    tab.screenshot("pool")
    tab.assert_accessible()


def test_a_phone_shows_the_sums_first(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.give_flavors(h100=16, a100=32)
    scene.create_subpool("a", {"h100": 8, "a100": 8})
    scene.run_workflows(f"{scene.pool}--a", gpus=6)
    tab = signed_in(scene.pool_admin, **PHONE)
    for address in (scene.pool_page, "/pools"):
        page = tab.open(address)
        below = {name: _top(page, f"{name} \\d+ of \\d+") for name in ("h100", "a100")}
        sums = page.locator("main .oa-bar").first.bounding_box()
        assert sums["y"] < min(below.values()), (address, sums, below)
        assert sums["x"] + sums["width"] <= PHONE["viewport"]["width"], address
        tab.assert_accessible()
        tab.screenshot(f"phone-{address.strip('/').replace('/', '-')}")


def _top(page: Any, text: str) -> float:
    """Where the first such text that is seen begins."""
    found = page.locator("main").get_by_text(re.compile(text)).locator("visible=true").first
    return float(found.bounding_box()["y"])


def test_a_flavor_in_use_stays(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.give_flavors(h100=16, a100=32)
    tab = signed_in(scene.create_platform_admin(), **DESK)
    page = tab.open(f"/clusters/{scene.pool}/configuration")
    flavors = page.get_by_label("Flavors")
    flavors.fill("h100 gpu=h100")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "a100", scene.pool)
    tab.screenshot("refused")
    tab.assert_accessible()
    rows = scene.stack.query("SELECT flavors FROM pools_backend WHERE name = %s", scene.pool)
    assert [each["name"] for each in rows[0]["flavors"]] == ["h100", "a100"]
    expect(page.get_by_label("Flavors")).to_have_value("h100 gpu=h100")
