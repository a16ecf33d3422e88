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
    link = page.get_by_role("link", name="b", exact=True)
    link.focus()
    page.evaluate("window.sameDocument = true")
    row = link.evaluate_handle("link => link.closest('tr')")
    scene.create_subpool("a", 30)  # a row before the focused one
    page.get_by_role("link", name="a", exact=True).wait_for()
    assert page.evaluate("window.sameDocument")
    expect(link).to_be_focused()
    assert row.evaluate("row => row.isConnected && row.contains(document.activeElement)")


def test_two_tabs_share_a_stream_and_keep_the_selection(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    (first,) = scene.run_workflows(scene.pool, gpus=1)
    tab = signed_in(scene.pool_admin)
    page = tab.open(f"/workflows?pool={scene.pool}&status=active")
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


def _answer_streams(page: Any, body: str, *, status: int = 200) -> None:
    page.route(
        "**/api/events*", lambda route: route.fulfill(status=status, content_type="text/event-stream", body=body)
    )


def test_a_page_without_a_stream_of_its_own_follows_late_and_says_so(
    scene: PoolScene, signed_in: Callable[..., Any]
) -> None:
    tab = signed_in(scene.pool_admin)
    event = f'data: {{"object": "pool/{scene.pool}"}}'
    _answer_streams(tab.page, f"retry: 300\nid: 5\nevent: crowded\ndata: {{}}\n\nid: 6\n{event}\n\n")
    page = tab.open(scene.pool_page)
    note = page.get_by_role("status").filter(has_text="This page shows changes a few seconds late.")
    note.wait_for()
    tab.assert_accessible()
    scene.create_subpool("a", 30)
    page.get_by_role("link", name="a", exact=True).wait_for()
    page.unroute("**/api/events*")
    note.wait_for(state="hidden")
    page.wait_for_selector(FOLLOWS, state="attached")


def test_a_page_that_reaches_no_server_says_so(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin)
    _answer_streams(tab.page, "", status=429)
    tab.page.clock.install()
    with tab.page.expect_response("**/api/events*"):
        page = tab.open(scene.pool_page)
    note = page.get_by_role("status").filter(has_text="There is no connection to the server.")
    expect(note).to_have_count(0)
    page.clock.run_for(9_000)
    note.wait_for()
    page.unroute("**/api/events*")
    page.clock.run_for(10_000)
    note.wait_for(state="hidden")


def test_a_page_whose_session_has_ended_says_so(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_admin)
    page = tab.open(scene.pool_page)
    page.wait_for_selector(FOLLOWS, state="attached")
    tab.context.clear_cookies()  # the session itself lives, and with it the stream
    scene.create_subpool("a", 30)
    page.get_by_role("status").filter(has_text="You are signed out, or this page is gone.").wait_for()
    expect(page.get_by_role("heading", name=scene.pool).first).to_be_visible()
