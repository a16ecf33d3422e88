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
    tab.assert_accessible()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(rf"/workflows/{name}-1"))
    expect_text(page.locator("#page"), f"{name}-1 was submitted")
    tab.screenshot("workflow")
    tab.assert_accessible()


def test_the_reason_for_waiting_and_cancelling_several(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 10)
    (running,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    waiting = scene.submit_workflow(f"{scene.pool}--a", gpus=8)
    tab = signed_in(scene.pool_user)
    page = tab.open(f"/workflows/{waiting}")
    queue = f"{scene.pool}--a"
    expect_text(
        page.locator("main"),
        f"It asks for 8 GPUs; the quota of {queue} (10) leaves 2 GPUs: 6 GPUs missing.",
        f"or end as much HIGH or NORMAL work in {queue} ({running}).",
    )
    tab.screenshot("waiting")
    tab.assert_accessible()

    page = tab.open(f"/workflows?pool={scene.pool}--a&status=active")
    for name in (running, waiting):
        page.get_by_label(f"Select {name}").check()
    tab.assert_accessible()
    page.get_by_role("button", name="Cancel the selected").click()
    expect_text(page.locator("main"), "This cannot be undone")
    tab.screenshot("confirm")
    tab.assert_accessible()
    page.get_by_label("Reason").fill("wrong data")
    page.get_by_role("button", name="Cancel these workflows").click()
    expect_text(page.locator("#page"), "2 of 2 workflows were cancelled")
    rows = scene.stack.query("SELECT status FROM scheduling_workflow WHERE name = ANY(%s)", [running, waiting])
    assert [row["status"] for row in rows] == ["FAILED_CANCELED"] * 2


def test_wrong_passwords_until_the_lockout(stack: Stack, new_tab: Callable[..., Tab]) -> None:
    who = stack.unique_name("forgetful")
    stack.access_token(who)
    tab = new_tab()
    page = tab.open("/")
    page.wait_for_url("**/login/**")
    tab.assert_accessible()
    tab.screenshot("login")
    for attempt in range(11):
        page.fill("input[name=username]", who)
        page.fill("input[name=password]", f"wrong-{attempt}")
        with page.expect_navigation():
            page.press("input[name=password]", "Enter")
        if page.locator("input[name=password]").count() == 0:
            break
        expect_text(page.locator("main"), "Wrong name or password")
        expect(page.locator("input[name=username]")).to_have_value(who)
    expect_text(page.locator("main"), "too many failed logins")
    tab.screenshot("locked")
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
