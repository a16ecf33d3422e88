"""Two workflows side by side, and the deadline of a drain, on three widths."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.kube_server import wait_for

pytestmark = pytest.mark.browser


def test_compare_and_set_a_deadline(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    first, second = scene.run_workflows(f"{scene.pool}--a", gpus=8), scene.run_workflows(f"{scene.pool}--a", gpus=4)
    tab = signed_in(scene.pool_admin, viewport={"width": 1440, "height": 900})
    page = tab.open(f"/workflows/{first[0]}")
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("Second").fill(second[0])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Side by side").wait_for()
    assert page.get_by_text("8 GPUs").first.is_visible()
    check_widths(tab)
    tab.screenshot("compare")
    page = tab.open(f"/pools/{scene.pool}/subpools/a/delete")
    page.get_by_label("Deadline in UTC").fill(f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M}")
    tab.screenshot("delete")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name=f"{scene.pool}--a is draining").wait_for()
    assert "time limits do not end all its work by then" in page.get_by_role("main").inner_text()
    check_widths(tab)
    tab.screenshot("drain")
    page.get_by_role("link", name="Deadline").click()
    assert page.get_by_label("Deadline in UTC").input_value()


def check_widths(tab: Any) -> None:
    """At a desk, on a tablet and on a phone; without a serious finding of axe at the first and the last."""
    page = tab.page
    for width in (1440, 768):
        page.set_viewport_size({"width": width, "height": 900})
        # Charts follow the window after it has another width.
        wait_for(lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"), description=str(width))
    page.set_viewport_size({"width": 1440, "height": 900})
    tab.assert_accessible_on_desk_and_phone()
