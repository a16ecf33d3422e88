"""Two workflows side by side, and the deadline of a drain, on three widths and in both colours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene

SCREENS = {
    "desk": {"viewport": {"width": 1440, "height": 900}},
    "tablet": {"viewport": {"width": 768, "height": 1024}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.mark.parametrize("screen", SCREENS)
def test_compare_and_set_a_deadline(screen: str, scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    first, second = scene.run_workflows(f"{scene.pool}--a", gpus=8), scene.run_workflows(f"{scene.pool}--a", gpus=4)
    tab = signed_in(scene.pool_admin, **SCREENS[screen])
    page = tab.open(f"/workflows/{first[0]}")
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("Second").fill(second[0])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Side by side").wait_for()
    assert page.get_by_text("8 GPUs").first.is_visible()
    assert page.evaluate(FITS)
    tab.assert_accessible()
    tab.screenshot(f"compare-{screen}")
    page = tab.open(f"/pools/{scene.pool}/subpools/a/delete")
    page.get_by_label("Deadline in UTC").fill(f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M}")
    tab.screenshot(f"delete-{screen}")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name=f"{scene.pool}--a is draining").wait_for()
    assert "time limits do not end all its work by then" in page.get_by_role("main").inner_text()
    assert page.evaluate(FITS)
    tab.assert_accessible()
    tab.screenshot(f"drain-{screen}")
    page.get_by_role("link", name="Deadline").click()
    assert page.get_by_label("Deadline in UTC").input_value()
