"""An admin before and after nodes are lost: what would break, what is promised meanwhile, a node that is drained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import GPUS, NODES, PoolScene
from tests.support.browser import expect, expect_text

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.nightly)])
def test_before_and_after_lost_nodes(scene: PoolScene, signed_in: Callable[..., Any], width: int) -> None:
    (work,) = scene.run_workflows(scene.pool, gpus=GPUS)
    tab = signed_in("admin", viewport={"width": width, "height": 900})

    page = tab.open(f"/clusters/{scene.pool}")
    page.get_by_role("link", name="What if it breaks", exact=True).click()
    page.get_by_role("table").wait_for()
    worst = page.locator("main tbody tr").first.get_by_role("link")
    node = worst.inner_text()
    tab.assert_accessible()
    worst.click()
    expect_text(page.locator("main"), f"Without {node}", work, "its exit actions do not restart it")
    tab.assert_accessible()
    page.get_by_label("Nodes", exact=True).fill("n*")
    page.get_by_role("button", name="What if they break?").click()
    expect_text(
        page.locator("main"), f"Without {NODES} nodes with {NODES * GPUS} GPUs", "can have 0 of its quota of 100"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    page = tab.open(f"/nodes/{scene.pool}/{node}")
    page.get_by_role("button", name="Drain", exact=True).click()
    expect_text(page.locator("main"), "drained")
    page.get_by_role("button", name="Take work again").click()
    expect(page.get_by_role("button", name="Drain", exact=True)).to_be_visible()
    tab.assert_accessible()

    left = [{"name": f"n{number}", "gpus": GPUS} for number in range(10)]
    lost = scene.stack.admin_client.put(f"/api/configs/backend/{scene.pool}", json={"nodes": left})
    assert lost.status_code == 200, lost.text
    page = tab.open(f"/pools/{scene.pool}")
    page.locator("main .oa-note--line > summary").click()
    expect_text(page.locator("main"), f"{scene.pool} can have 80 of its 100")
    page = tab.open(f"/clusters/{scene.pool}")
    expect_text(page.locator("main"), "20 GPUs missing", "Quotas that it cannot give now")
    tab.assert_accessible()
    assert f"{scene.pool} can have 80 of its 100" in str(scene.stack.admin_client.get("/api/overview").json())

    whole = [{"name": f"n{number}", "gpus": GPUS} for number in range(NODES)]
    scene.stack.admin_client.put(f"/api/configs/backend/{scene.pool}", json={"nodes": whole})
    expect(tab.open(f"/clusters/{scene.pool}").get_by_text("Quotas that it cannot give now")).to_have_count(0)
