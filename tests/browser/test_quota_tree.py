"""The quota tree in the browser: its numbers, their explanation, and changes of limits."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text
from tests.support.stack import Stack

pytestmark = pytest.mark.browser
PHONE = {"viewport": {"width": 390, "height": 844}}
DARK = {"color_scheme": "dark"}


class CohortTreeScene:
    """Worked example A (design, Q6), with cohorts and pools of this test alone."""

    def __init__(self, scene: PoolScene) -> None:
        self.scene = scene
        self.corp, self.prod, self.research = (scene.stack.unique_name(name) for name in ("corp", "prod", "research"))
        self.put_cohort(self.corp, None, 4)
        self.put_cohort(self.prod, self.corp, 6, borrow=8)
        self.put_cohort(self.research, self.corp, 0, lend=5)
        self.serve = self.create_pool("serve", self.prod, 10)
        self.batch = self.create_pool("batch", self.prod, 4, borrowing_limit=3)
        self.train = self.create_pool("train", self.research, 16, lending_limit=12)

    def put_cohort(
        self, name: str, parent: str | None, nominal: int, *, borrow: int | None = None, lend: Any = None
    ) -> None:
        row = {"resource": "gpu", "nominal": nominal, "borrowing_limit": borrow, "lending_limit": lend}
        answer = self.scene.stack.admin_client.put(
            f"/api/configs/cohort/{name}", json={"parent": parent, "quotas": [row]}
        )
        assert answer.status_code == 200, answer.text

    def create_pool(self, name: str, cohort: str, guarantee: int, **limits: int) -> str:
        pool = self.scene.stack.unique_name(name)
        configs = {
            "backend": self.scene.pool,
            "resources": {"gpu": {"guarantee": guarantee, "maximum": -1, "weight": 1}},
            "cohort": cohort,
            **limits,
        }
        answer = self.scene.stack.admin_client.put(f"/api/configs/pool/{pool}", json={"configs": configs})
        assert answer.status_code == 200, answer.text
        return pool

    def fill_serve(self) -> None:
        """Run LOW work of 28 GPUs in `serve`, with work of 2 more GPUs pending."""
        from tests.support import world

        with self.scene.stack.orm():
            from pools.models import Backend, User
            from scheduling.domain.priorities import Priority
            from scheduling.services.simulated.reconcile import reconcile_backend

            admin = User.objects.get(username="admin").as_actor()
            for gpus in [7] * 4:
                world.submit_workflow(admin, self.serve, gpus, priority=Priority.LOW)
            backend = Backend.objects.get(name=self.scene.pool)
            reconcile_backend(backend.pk, lock_timeout=30)
            world.submit_workflow(admin, self.serve, 2, priority=Priority.LOW)
        held = "SELECT total_usage FROM pools_leafusage JOIN pools_pool ON id = pool_id WHERE name = %s"
        self.scene.stack.wait_until(
            lambda: self.scene.stack.query(held, self.serve)[0]["total_usage"] == 28, seconds=60
        )

    def pending_workflows(self) -> list[str]:
        """The names of the pending workflows of `serve`."""
        sql = """
            SELECT work.name FROM scheduling_workflow work JOIN pools_pool pool ON pool.id = work.pool_id
            WHERE pool.name = %s AND work.status = 'PENDING'
        """
        return [row["name"] for row in self.scene.stack.query(sql, self.serve)]


def make_tree(stack: Stack) -> CohortTreeScene:
    found = CohortTreeScene(PoolScene.build(stack))
    found.fill_serve()
    return found


@pytest.fixture(scope="module")
def tree(stack: Stack) -> CohortTreeScene:
    """For tests that change nothing of it."""
    return make_tree(stack)


@pytest.fixture
def as_admin(signed_in: Callable[..., Any]) -> Callable[..., Any]:
    """A tab in which the platform's admin is signed in."""
    return functools.partial(signed_in, "admin")


def row_cells(page: Any, name: str) -> Any:
    """The cells of a node's numbers."""
    return page.locator(f"tr[data-node$='/{name}']").locator("td.oa-right")


def test_the_numbers_and_their_explanation(tree: CohortTreeScene, as_admin: Callable[..., Any]) -> None:
    tab = as_admin()
    page = tab.open("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Pools").click()
    page.get_by_role("link", name="Quota tree").click()
    expect(row_cells(page, tree.prod)).to_have_text(
        ["20", "28", "8", "0", "0", "0", "2", "20", "28", "0", "0", "0", "276"]
    )
    expect(row_cells(page, tree.train).nth(0)).to_have_text("16")
    page = tab.open(f"/cohorts?root={tree.corp}")  # the whole tree has those of other tests too
    tab.screenshot("tree")
    tab.assert_accessible()

    page.locator(f"tr[data-node='cohort/{tree.corp}'] td[data-label=Pending] a").click()
    expect(page.locator("#pending")).to_have_text(f"2: 2 in {tree.prod}", use_inner_text=True)
    page.locator("#pending").get_by_role("link", name=tree.prod).click()
    page.locator("#pending").get_by_role("link", name=tree.serve).click()
    expect(page.locator("#pending").get_by_role("link", name="queue")).to_have_count(1)

    page = tab.open(f"/cohorts?root={tree.corp}")
    page.locator(f"tr[data-node='cohort/{tree.prod}']").get_by_role("link", name="8", exact=True).click()
    why = page.locator("#borrowed")
    expect_text(why, "28 counted use", "−20 effective quota")
    tab.screenshot("why")
    tab.assert_accessible()
    available = page.locator("#available")
    expect_text(available, "decides")
    available.get_by_role("link", name=tree.corp).click()
    page.wait_for_url(f"**/cohorts/{tree.corp}#available")
    capped = page.locator("#subtree_quota").get_by_text("capped")
    expect(capped).to_have_count(1)


def test_folding_with_the_keyboard_and_on_a_phone(tree: CohortTreeScene, as_admin: Callable[..., Any]) -> None:
    tab = as_admin(**PHONE, **DARK)
    page = tab.open(f"/cohorts?root={tree.corp}")
    tab.screenshot("phone")
    tab.assert_accessible()
    leaf = page.locator(f"tr[data-node='pool/{tree.serve}--_shared']")
    expect(leaf, "a pool without subpools says all that its only leaf would say").to_be_hidden()
    fold = page.get_by_role("button", name=f"Children of {tree.serve}")
    fold.focus()
    page.keyboard.press("Enter")
    leaf.wait_for(state="visible")
    page.keyboard.press("ArrowLeft")
    leaf.wait_for(state="hidden")
    page.keyboard.press("ArrowRight")
    leaf.wait_for(state="visible")
    leaf = tab.open(f"/cohorts?root={tree.corp}").locator(f"tr[data-node='pool/{tree.serve}--_shared']")
    leaf.wait_for(state="visible")  # as it was left
    pending, lent = (leaf.locator(f"td[data-label='{label}']") for label in ("Pending", "Lent out"))
    pending.wait_for(state="visible")
    expect(lent, "on a phone only the numbers that most people need").to_be_hidden()
    expect(page.get_by_text("Columns", exact=True), "a phone has no choice of columns").to_be_hidden()
    phone = page.viewport_size
    page.set_viewport_size({"width": 1440, "height": 900})
    lent.wait_for(state="visible")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="Lent out").uncheck()
    lent.wait_for(state="hidden")
    page.keyboard.press("Escape")
    page.set_viewport_size(phone)
    page.get_by_role("button", name="Collapse all").click()
    expect(page.locator("tr[data-node]:visible")).to_have_count(1)
    page.get_by_role("button", name="Expand all").click()
    leaf.wait_for(state="visible")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_changing_a_limit(stack: Stack, as_admin: Callable[..., Any]) -> None:
    tree, tab = make_tree(stack), as_admin()
    page = tab.open(f"/cohorts/{tree.prod}")
    page.get_by_role("link", name="Edit").click()
    total = page.locator("output[data-note=subtree]")
    expect(total).to_have_text("The effective quota will be 20 GPUs: 6 nominal and 14 below.")
    page.get_by_label("Nominal quota in GPUs").fill("14")
    expect_text(total, "The effective quota will be 28 GPUs")
    expect_text(total, "repeats the sum of the nodes below")
    page.get_by_label("Nominal quota in GPUs").fill("8")
    page.get_by_role("button", name="Preview").click()
    (waits,) = tree.pending_workflows()
    page.locator("[data-could=start]").get_by_role("link", name=waits).wait_for()
    tab.screenshot("could-start")
    page.get_by_role("button", name="Change the input").click()
    page.get_by_label("Nominal quota in GPUs").fill("6")
    page.get_by_label("Borrowing limit in GPUs").fill("3")
    page.get_by_label("Reason").fill("research needs more")
    tab.screenshot("form")
    tab.assert_accessible()
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), f"{tree.prod} uses 5 GPUs beyond its limits")
    expect_text(page.locator("main"), re.compile(r"0\s*→\s*5"))
    tab.screenshot("effect")
    page.get_by_role("button", name="Save the cohort").click()
    expect_text(page.locator("main"), f"{tree.prod} uses 5 more GPUs than its limits allow")
    expect_text(page.locator("main"), "research needs more")
    tab.screenshot("debt")
