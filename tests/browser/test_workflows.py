"""A pool user submits in the browser, reads the reason for waiting, and cancels; logging in and out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pool_scene import WORKFLOW, PoolScene
from tests.support.browser import Tab, expect, expect_text
from tests.support.stack import Stack

pytestmark = pytest.mark.browser

BROKEN = """\
workflow:
  name: broken
  resources:
    default: {gpu: minus one}
  tasks:
  - name: main
    imagine: ubuntu
"""


def test_errors_with_their_lines_then_a_check_then_a_submission(
    scene: PoolScene, signed_in: Callable[..., Any], tmp_path: Path
) -> None:
    tab = signed_in(scene.pool_user)
    page = tab.open(scene.pool_page)
    page.get_by_role("link", name="Submit work").click()
    expect(page.get_by_label("Pool or subpool")).to_have_value(scene.pool)
    page.get_by_label("Workflow or PodGroup").fill(BROKEN)
    page.get_by_role("button", name="Submit", exact=True).click()
    expect_text(page.locator("main"), "Line 4", "Line 7", "imagine")
    expect(page.get_by_label("Workflow or PodGroup")).to_have_value(BROKEN)
    tab.screenshot("faults")
    tab.assert_accessible()

    name = scene.stack.unique_name("pasted")
    page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=name, gpus=101))
    page.get_by_role("button", name="Check").click()
    expect_text(page.locator("main"), "The largest gang asks for 101 GPUs at once")

    uploaded = tmp_path / "work.yaml"
    uploaded.write_text(WORKFLOW.format(name=name, gpus=2))
    page.set_input_files("input[name=upload]", uploaded)
    page.get_by_role("button", name="Check").click()
    expect_text(page.locator("main"), "would be accepted")
    expect(page.get_by_label("Workflow or PodGroup")).to_have_value(re.compile(name))
    assert scene.stack.query("SELECT 1 FROM scheduling_workflow WHERE spec_name = %s", name) == []
    tab.screenshot("good")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(rf"/workflows/{name}-1"))
    expect_text(page.locator("#page"), f"{name}-1 was submitted")
    tab.screenshot("workflow")


def test_a_wrong_password(stack: Stack, new_tab: Callable[..., Tab]) -> None:
    """The lockout after several: tests/integration/identity/test_login_limits.py."""
    who = stack.unique_name("forgetful")
    stack.access_token(who)
    tab = new_tab()
    page = tab.open("/")
    page.wait_for_url("**/login/**")
    page.fill("input[name=username]", who)
    page.fill("input[name=password]", "wrong")
    with page.expect_navigation():
        page.press("input[name=password]", "Enter")
    expect_text(page.locator("main"), "Wrong name or password")
    expect(page.locator("input[name=username]")).to_have_value(who)
    tab.screenshot("login")
    tab.assert_accessible()


def test_logging_out(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_user)
    page = tab.open("/")
    page.locator("nav summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Log out").click()
    expect_text(page.locator("main"), "You are logged out")
    tab.assert_accessible()
    tab.open("/")
    page.wait_for_url("**/login/**")
