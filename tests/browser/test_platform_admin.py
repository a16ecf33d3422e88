"""Every main page in both colours without a serious finding of axe."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect

pytestmark = pytest.mark.browser


def test_every_main_page(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    """But the lists, Home and a pool, which tests/browser/test_lists.py looks at."""
    scene.create_subpool("a", 30)
    (work,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    tab = signed_in("admin", viewport={"width": 1440, "height": 900})
    (entry,) = scene.stack.query("SELECT max(id) AS id FROM pools_auditentry")
    for name, address in {
        "draining": "/pools?show=draining",
        "none": "/pools?q=nothing-has-this-name",
        "pool-create": "/pools/-/create",
        "pool-configure": f"/pools/{scene.pool}/configuration",
        "pool-archive": f"/pools/{scene.pool}/archive",
        "subpool-delete": f"/pools/{scene.pool}/subpools/a/delete",
        "workflow": f"/workflows/{work}",
        "workflow-end": f"/workflows/{work}/end",
        "workflows-cancel": f"/workflows/-/cancel?name={work}",
        "submit": "/submit",
        "audit-entry": f"/activity/audit/{entry['id']}",
        "user": f"/users/{scene.pool_admin}",
        "user-create": "/users/-/create",
        "user-roles": f"/users/{scene.pool_admin}/roles",
        "user-close": f"/users/{scene.pool_admin}/close",
        "token-create": "/tokens/-/create",
        "backend": f"/clusters/{scene.pool}",
        "backend-configure": f"/clusters/{scene.pool}/configuration",
        "password": "/password_change/",
        "missing": "/nothing-here/",
    }.items():
        page = tab.open(address)
        expect(page, address).to_have_title(re.compile("OSMO Admin$"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440, address
        tab.screenshot(name)
        tab.assert_accessible_in_both_colours()
    page = tab.open("/tokens/-/create")
    page.get_by_label("Name").fill(scene.stack.unique_name("laptop"))
    page.get_by_role("button", name="Create the token").click()
    page.locator("#secret").wait_for()
    tab.assert_accessible()
