"""Forms of changes: the effect beside the form, what is free while a person types, and boxes that are empty without a
limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser
DESK = {"viewport": {"width": 1440, "height": 900}}
SMALLER = [{"viewport": {"width": 768, "height": 1024}}, {"viewport": {"width": 390, "height": 844}}]


def _resize(scene: PoolScene) -> str:
    return f"/pools/{scene.pool}/subpools/a/resize"


def test_the_effect_stands_beside_the_form_and_is_confirmed_there(
    scene: PoolScene, signed_in: Callable[..., Any]
) -> None:
    scene.create_subpool("a", 40)
    scene.create_subpool("b", 30)
    tab = signed_in(scene.pool_admin, **DESK)
    page = tab.open(_resize(scene))
    beside, box, room = page.locator("#oa-effect"), page.get_by_label("Quota in GPUs"), page.locator("output")
    expect_text(beside, f"{scene.pool} now")
    expect(room).to_have_text(f"30 of 100 GPUs of {scene.pool} stay free.")
    box.fill("20%")
    expect(room).to_have_text(f"20% are 20 GPUs. 50 of 100 GPUs of {scene.pool} stay free.")
    box.fill("71")
    expect(room).to_have_text(f"1 GPU more than {scene.pool} has free.")
    expect_text(beside, "Quota: ")
    expect(beside.get_by_role("button")).to_have_count(0)
    expect(box, "the focus stays").to_be_focused()
    box.fill("50")
    expect_text(beside, re.compile(r"40\s*→\s*50"))
    expect_text(page.locator("#oa-effect-said"), "Effect of this change")
    tab.assert_accessible_in_both_colours()
    box.press("End")
    box.press("Backspace")
    box.press("5")
    expect(beside.get_by_role("button").first, "an effect that is not shown cannot be confirmed").to_be_disabled()
    expect_text(beside, re.compile(r"40\s*→\s*55"))
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 40)
    beside.get_by_role("button", name=f"Resize {scene.pool}--a").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 55)


@pytest.mark.parametrize("options", [*SMALLER, {**DESK, "java_script_enabled": False}], ids=["768", "390", "no-script"])
def test_narrow_pages_and_pages_without_scripts_preview_on_a_page_of_its_own(
    scene: PoolScene, signed_in: Callable[..., Any], options: dict[str, Any]
) -> None:
    scene.create_subpool("a", 40)
    tab = signed_in(scene.pool_admin, **options)
    page = tab.open(_resize(scene))
    expect_text(page.locator("output"), re.compile(f"(60|100) of 100 GPUs of {scene.pool} "))
    page.get_by_label("Quota in GPUs").fill("50")
    page.get_by_role("button", name="Preview").click()
    page.wait_for_url("**/-/preview**")
    page.get_by_role("button", name=f"Resize {scene.pool}--a").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 50)


def test_an_empty_box_is_no_limit_in_sections_side_by_side(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in("admin", **DESK)
    page = tab.open(f"/pools/{scene.pool}/configuration")
    maximum = page.get_by_label("Maximum in GPUs")
    expect(maximum).to_have_value("")
    expect(maximum).to_have_attribute("placeholder", "no limit")
    left, right = (page.get_by_role("group", name=name).bounding_box() for name in ("Quota", "Lending"))
    assert left["y"] == right["y"] and left["x"] < right["x"]
    widths = {
        round(page.get_by_label(name).bounding_box()["width"]) for name in ("Maximum in GPUs", "Cohort", "Weight")
    }
    assert max(widths) - min(widths) <= 1, "one width for all boxes"
    maximum.fill("120")
    expect_text(page.locator("#oa-effect"), re.compile(r"Maximum\s+no limit\s+120 GPUs"))
    page.get_by_role("button", name="Save the configuration").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    page = tab.open(f"/pools/{scene.pool}/configuration")
    expect(maximum).to_have_value("120")
    maximum.fill("")
    expect_text(page.locator("#oa-effect"), re.compile(r"Maximum\s+120 GPUs\s+no limit"))
    assert "-1" not in page.locator("main").inner_text()
    page.get_by_role("button", name="Save the configuration").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    (row,) = scene.stack.query("SELECT maximum FROM pools_pool WHERE name = %s", scene.pool)
    assert row["maximum"] == -1
    tab.open(f"/pools/{scene.pool}/configuration")
    tab.assert_accessible_in_both_colours()


def test_eight_gpus_more_until_friday_in_the_zone_of_the_reader(
    scene: PoolScene, signed_in: Callable[..., Any]
) -> None:
    scene.create_subpool("a", 40)
    tab = signed_in(scene.pool_admin, **DESK, timezone_id="America/New_York")
    page = tab.open(_resize(scene))
    page.get_by_label("Quota in GPUs").fill("48")
    page.get_by_role("button", name="Friday 18:00").click()
    expect(page.get_by_label("Until in America/New_York")).to_have_value(re.compile(r"T18:00$"))
    expect_text(page.locator("#oa-effect"), re.compile(r"At Fri \d+ \w+ 18:00 \S+ it is 40 GPUs again"))
    tab.assert_accessible_in_both_colours()
    page.get_by_role("button", name=f"Resize {scene.pool}--a").click()
    page.wait_for_url(f"**{scene.pool_page}**")
    expect_text(page.locator("#page"), re.compile(r"is 48 GPUs now\. At Fri \d+ \w+ 18:00"))
    (row,) = scene.stack.query(
        "SELECT quota_until AT TIME ZONE 'America/New_York' AS local FROM pools_pool WHERE name = %s",
        f"{scene.pool}--a",
    )
    assert (row["local"].weekday(), row["local"].hour, row["local"].minute) == (4, 18, 0)


def test_a_half_typed_date_is_no_lasting_quota(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 40)
    page = signed_in(scene.pool_admin, **DESK).open(_resize(scene))
    page.get_by_label("Quota in GPUs").fill("48")
    page.get_by_label("Until in").press("1")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("[data-field=until]"), "There is no such date and time. Give it as 2026-12-04 18:00")
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 40)


def test_a_role_is_found_and_chosen_by_keyboard(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in("admin", **DESK).open("/users/-/create")
    box = page.get_by_label("Further roles")
    role = f"osmo-{scene.pool}-user"
    box.focus()
    page.keyboard.type(role)
    expect(page.locator(f"#id_more_roles-suggestions option[value='{role}']")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(f"input[name=roles][value='{role}']")).to_be_checked()
    expect(box).to_have_value("")
    expect(box, "the form was not sent, and the next name can be typed").to_be_focused()


def test_a_user_is_found_in_a_filter_also_after_a_refresh(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    page = signed_in("admin", **DESK).open(f"/queue/{scene.pool}")
    box = page.locator("input[name=user]")
    for _ in range(2):
        box.fill("")
        box.focus()
        page.keyboard.type("adm")
        expect(page.locator("datalist option[value=admin]")).to_have_count(1)
        expect(box).to_have_attribute("list", re.compile("suggestions$"))
        box.evaluate("box => { box.blur(); box.removeAttribute('list'); }")  # as a refresh of the page does


def test_a_workflow_file_has_line_numbers_and_examples(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in(scene.pool_user, **DESK)
    page = tab.open("/submit")
    file, numbers = page.get_by_label("Workflow or PodGroup"), page.locator(".oa-lines")
    file.fill("workflow:\n  name: x\n  tusks: []")
    expect(numbers).to_have_text(re.compile(r"^1\s+2\s+3\s*$"))
    page.get_by_label("Example").select_option("two_nodes")
    expect(file).to_have_value(re.compile("name: two-nodes"))
    page.keyboard.press("Control+z")
    expect(file, "the text of before is not lost").to_have_value(re.compile("tusks"))
    page.get_by_role("button", name="Check").click()
    expect(numbers.locator("b").first).to_have_text(re.compile(r"^[13]\s*$"))
    tab.assert_accessible_in_both_colours()
    plain = signed_in(scene.pool_user, java_script_enabled=False).open("/submit")
    plain.get_by_label("Example").select_option("steps")
    plain.get_by_role("button", name="Use the example").click()
    expect(plain.get_by_label("Workflow or PodGroup")).to_have_value(re.compile("default-values"))
