"""The work of an osmo-admin in the browser, and every main page in both colours without a serious finding of axe."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser


def test_every_main_page(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    (work,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    tab = signed_in("admin", viewport={"width": 1440, "height": 900})
    (entry,) = scene.stack.query("SELECT max(id) AS id FROM pools_auditentry")
    for name, address in {
        "home": "/",
        "pools": "/pools",
        "draining": "/pools?show=draining",
        "none": "/pools?q=nothing-has-this-name",
        "pool": scene.pool_page,
        "pool-create": "/pools/-/create",
        "pool-configure": f"/pools/{scene.pool}/configuration",
        "pool-archive": f"/pools/{scene.pool}/archive",
        "subpool-delete": f"/pools/{scene.pool}/subpools/a/delete",
        "workflows": "/workflows",
        "workflow": f"/workflows/{work}",
        "workflow-end": f"/workflows/{work}/end",
        "submit": "/submit",
        "audit": "/activity/audit?kind=pool",
        "audit-entry": f"/activity/audit/{entry['id']}",
        "users": "/users",
        "user": f"/users/{scene.pool_admin}",
        "user-create": "/users/-/create",
        "user-roles": f"/users/{scene.pool_admin}/roles",
        "user-close": f"/users/{scene.pool_admin}/close",
        "tokens": "/tokens",
        "token-create": "/tokens/-/create",
        "backends": "/clusters",
        "backend": f"/clusters/{scene.pool}",
        "backend-configure": f"/clusters/{scene.pool}/configuration",
        "configuration": "/settings",
        "schedules": "/jobs",
        "password": "/password_change/",
        "missing": "/nothing-here/",
    }.items():
        page = tab.open(address)
        expect(page, address).to_have_title(re.compile("OSMO Admin$"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440, address
        tab.screenshot(name)
        tab.assert_accessible_in_both_colours()


def test_a_new_user_with_a_role_and_a_token(
    scene: PoolScene, signed_in: Callable[..., Any], new_tab: Callable[..., Any]
) -> None:
    who = scene.stack.unique_name("new")
    tab = signed_in("admin")
    page = tab.open("/users/-/create")
    page.get_by_role("textbox", name="Name").fill(who)
    page.get_by_label("Password").fill("short")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "too short")
    expect(page.get_by_role("textbox", name="Name")).to_have_value(who)
    page.get_by_label("Password").fill(scene.password)
    role = f"osmo-{scene.pool}-user"
    if page.get_by_label(role).count():  # a small installation lists all roles
        page.get_by_label(role).check()
    else:
        page.get_by_label("Further roles").fill(f"osmo-{scene.pool}")
        page.locator(f"datalist option[value='{role}']").wait_for(state="attached")
        page.get_by_label("Further roles").fill(role)
        expect(page.get_by_label(role)).to_be_checked()
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("table", name="Rights that change"), scene.pool)
    page.get_by_role("button", name="Create the user").click()
    expect_text(page.locator("#page"), f"User {who} was created", f"osmo-{scene.pool}-user")

    theirs = new_tab()
    theirs.login(who, scene.password)
    own = theirs.open("/tokens/-/create")
    own.get_by_label("Name").fill("laptop")
    own.get_by_role("button", name="Create the token").click()
    secret = own.inner_text("#secret")
    theirs.assert_accessible()
    answer = scene.stack.anonymous_client().post("/api/auth/jwt/access_token", json={"token": secret})
    assert answer.status_code == 200
    own.get_by_role("link", name="Done").click()
    own.get_by_role("link", name="Revoke laptop").wait_for()
    assert secret not in own.content()
    own.get_by_role("link", name="Revoke laptop").click()
    own.get_by_role("button", name="Revoke the token").click()
    own.get_by_role("link", name="Revoke laptop").wait_for(state="detached")
    answer = scene.stack.anonymous_client().post("/api/auth/jwt/access_token", json={"token": secret})
    assert answer.status_code == 401


def test_a_pool_from_creation_to_deletion(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    name = scene.stack.unique_name("fresh")
    tab = signed_in("admin")
    page = tab.open("/pools/-/create")
    page.get_by_label("Name").fill(scene.pool)
    page.get_by_label("Cluster").select_option(scene.pool)
    page.get_by_label("Quota in GPUs").fill("many")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "exists already")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "guarantee")
    page.get_by_label("Quota in GPUs").fill("64")
    page.get_by_role("button", name="Preview").click()
    tab.screenshot("preview")
    tab.assert_accessible()
    page.get_by_role("button", name=f"Create {name}").click()
    expect_text(page.locator("#page"), f"Pool {name} was created")

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Quota in GPUs").fill("32")
    page.get_by_label("In maintenance").check()
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "Maintenance begins")
    page.get_by_role("button", name="Save the configuration").click()
    expect_text(page.locator("main"), "In maintenance")
    (row,) = scene.stack.query("SELECT guarantee, enable_maintenance FROM pools_pool WHERE name = %s", name)
    assert row == {"guarantee": 32, "enable_maintenance": True}

    page.get_by_role("link", name="Archive").click()
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "deleted for good")
    page.get_by_role("button", name=f"Archive {name}").click()
    expect_text(page.locator("#page"), f"Pool {name} was deleted")
