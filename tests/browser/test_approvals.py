"""A large change of a quota: one person asks in the preview, another one sees the effect and approves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect_text

pytestmark = pytest.mark.browser
PHONE = {"viewport": {"width": 390, "height": 844}}


def test_ask_and_approve(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 10)
    limited = scene.stack.admin_client.patch(f"/api/configs/pool/{scene.pool}", json={"approval_above": 10})
    assert limited.status_code == 200, limited.text
    tab = signed_in(scene.pool_admin)
    page = tab.open(f"/pools/{scene.pool}/subpools/a/resize")
    page.get_by_label("Quota in GPUs").fill("50")
    page.get_by_label("Reason").fill("for the demo")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("button", name="Ask for approval")).to_be_visible()
    tab.screenshot("needs-approval")
    tab.assert_accessible()
    page.get_by_role("button", name="Ask for approval").click()
    page.wait_for_url(re.compile(r"/activity/approvals/\d+"))
    address = page.url.removeprefix(re.match(r"https?://[^/]+", page.url)[0])  # type: ignore[index]
    expect_text(page.locator("main"), "for the demo")
    tab.screenshot("asked")
    tab.assert_accessible()

    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 10)
    second = signed_in("admin", **PHONE)
    page = second.open("/")
    page.get_by_role("link", name=re.compile("for your approval")).click()
    page.wait_for_url("**/activity/approvals**")
    second.screenshot("list")
    second.assert_accessible()
    page = second.open(address)
    second.screenshot("request")
    page.get_by_role("link", name="Preview and approve").click()
    expect_text(page.locator("main"), re.compile(r"10\s*→\s*50"))
    second.screenshot("effect")
    page.get_by_role("button", name=re.compile("^Approve the change of")).click()
    page.wait_for_url(re.compile(re.escape(scene.pool_page)))
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 50)
