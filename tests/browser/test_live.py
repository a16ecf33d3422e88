"""A page follows the changes of others, and leaves the focus, the selection and the input where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect

pytestmark = pytest.mark.browser
FOLLOWS = "html[data-live=on]"


def test_a_change_by_the_client_appears_in_an_open_page(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("b", 20)
    tab = signed_in(scene.pool_admin)
    page = tab.open(scene.pool_page)
    page.wait_for_selector(FOLLOWS, state="attached")
    link = page.get_by_role("link", name=f"Delete {scene.pool}--b")
    link.focus()
    page.evaluate("window.sameDocument = true")
    row = link.evaluate_handle("link => link.closest('tr')")
    scene.create_subpool("a", 30)  # a row before the focused one
    page.get_by_role("link", name=f"Delete {scene.pool}--a").wait_for()
    assert page.evaluate("window.sameDocument")
    expect(link).to_be_focused()
    assert row.evaluate("row => row.isConnected && row.contains(document.activeElement)")


def test_two_tabs_share_a_stream_and_keep_the_selection(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    (first,) = scene.run_workflows(scene.pool, gpus=1)
    tab = signed_in(scene.pool_admin)
    page = tab.open(f"/scheduling/workflow/?pool={scene.pool}&status=active")
    page.wait_for_selector(FOLLOWS, state="attached")
    streams: list[str] = []
    tab.context.on("request", lambda request: streams.append(request.url) if "/api/events" in request.url else None)
    other = tab.context.new_page()
    other.goto(f"{scene.stack.base_url}{scene.pool_page}")
    other.wait_for_selector(FOLLOWS, state="attached")
    assert streams == []
    page.get_by_label(f"Select {first}").check()
    (second,) = scene.run_workflows(scene.pool, gpus=1)
    page.bring_to_front()
    page.get_by_label(f"Select {second}").wait_for()
    expect(page.get_by_label(f"Select {first}")).to_be_checked()
    expect(page.get_by_label(f"Select {second}")).not_to_be_checked()
    expect(page.get_by_text("Columns", exact=True), "what a script made stays").to_have_count(1)
