"""A pool user submits in the browser, reads the reason for waiting, and cancels; logging in and out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pool_scene import WORKFLOW, PoolScene
from tests.support.browser import Tab
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
    assert page.get_by_label("Pool or subpool").input_value() == scene.pool
    page.get_by_label("Workflow or PodGroup").fill(BROKEN)
    page.get_by_role("button", name="Submit", exact=True).click()
    text = page.inner_text("main")
    assert "Line 4" in text
    assert "Line 7" in text
    assert "imagine" in text
    assert page.get_by_label("Workflow or PodGroup").input_value() == BROKEN
    tab.screenshot("faults")
    tab.assert_accessible()

    name = scene.stack.unique_name("pasted")
    page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=name, gpus=101))
    page.get_by_role("button", name="Check").click()
    assert "The largest gang asks for 101 GPUs at once" in page.inner_text("main")

    uploaded = tmp_path / "work.yaml"
    uploaded.write_text(WORKFLOW.format(name=name, gpus=2))
    page.set_input_files("input[name=upload]", uploaded)
    page.get_by_role("button", name="Check").click()
    assert "would be accepted" in page.inner_text("main")
    assert name in page.get_by_label("Workflow or PodGroup").input_value()
    assert scene.stack.query("SELECT 1 FROM scheduling_workflow WHERE spec_name = %s", name) == []
    tab.screenshot("good")
    tab.assert_accessible()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(rf"/scheduling/workflow/{name}-1/change/"))
    assert f"{name}-1 was submitted" in page.inner_text("#page")
    tab.screenshot("workflow")
    tab.assert_accessible()


def test_the_reason_for_waiting_and_cancelling_several(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 10)
    (running,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    waiting = scene.submit_workflow(f"{scene.pool}--a", gpus=8)
    tab = signed_in(scene.pool_user)
    page = tab.open(f"/scheduling/workflow/{waiting}/change/")
    text = page.inner_text("main")
    queue = f"{scene.pool}--a"
    assert f"It asks for 8 GPUs; the quota of {queue} (10) leaves 2 GPUs: 6 GPUs missing." in text
    assert f"or end as much HIGH or NORMAL work in {queue} ({running})." in text
    tab.screenshot("waiting")
    tab.assert_accessible()

    page = tab.open(f"/scheduling/workflow/?pool={scene.pool}--a&status=active")
    for name in (running, waiting):
        page.get_by_label(f"Select {name}").check()
    tab.assert_accessible()
    page.get_by_role("button", name="Cancel the selected").click()
    assert "This cannot be undone" in page.inner_text("main")
    tab.screenshot("confirm")
    tab.assert_accessible()
    page.get_by_label("Reason").fill("wrong data")
    page.get_by_role("button", name="Cancel these workflows").click()
    assert "2 of 2 workflows were cancelled" in page.inner_text("#page")
    rows = scene.stack.query("SELECT status FROM scheduling_workflow WHERE name = ANY(%s)", [running, waiting])
    assert [row["status"] for row in rows] == ["FAILED_CANCELED"] * 2


def test_wrong_passwords_until_the_lockout(stack: Stack, new_tab: Callable[..., Tab]) -> None:
    who = stack.unique_name("forgetful")
    stack.access_token(who)
    tab = new_tab()
    page = tab.open("/")
    assert "/login/" in page.url
    tab.assert_accessible()
    tab.screenshot("login")
    for attempt in range(11):
        page.fill("input[name=username]", who)
        page.fill("input[name=password]", f"wrong-{attempt}")
        page.press("input[name=password]", "Enter")
        page.wait_for_load_state()
        if page.locator("input[name=password]").count() == 0:
            break
        assert "Wrong name or password" in page.inner_text("main")
        assert page.input_value("input[name=username]") == who
    assert "too many failed logins" in page.inner_text("main")
    tab.screenshot("locked")
    tab.assert_accessible()


def test_logging_out(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_user)
    page = tab.open("/")
    page.locator("nav summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Log out").click()
    assert "You are logged out" in page.inner_text("main")
    tab.assert_accessible()
    tab.open("/")
    assert "/login/" in page.url
