"""The frequent tasks of a platform admin, a pool admin and a researcher, each in few clicks from the home page: at a
desk in every run, and nightly at three widths, in both colours. One walk of each uses the keyboard alone, in forced
colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pool_scene import GPUS, NODES, WORKFLOW, PoolScene
from tests.support.browser import Tab, expect, expect_text

pytestmark = pytest.mark.browser
DESK = {"width": 1440, "height": 900}
SIZES = {"phone": {"width": 390, "height": 844}, "tablet": {"width": 768, "height": 1024}, "desk": DESK}
VIEWS = [
    pytest.param(SIZES[size], colours, id=f"{size}-{colours}", marks=[] if first else [pytest.mark.nightly])
    for size, colours, first in (
        ("desk", "light", True),
        ("desk", "dark", False),
        ("tablet", "light", False),
        ("tablet", "dark", False),
        ("phone", "light", False),
        ("phone", "dark", False),
    )
]


@dataclass
class Journey:
    """A tab and the clicks of the present task. Typing is not counted; opening the folded menu of a phone is."""

    tab: Tab
    name: str
    clicks: int = 0
    taken: dict[str, int] = field(default_factory=dict)

    @property
    def page(self) -> Any:
        return self.tab.page

    def begin(self) -> None:
        """Back to the home page."""
        self.tab.open("/")
        self.clicks = 0

    def click(self, role: str, name: str, *, inside: str = "body", exact: bool = True) -> None:
        self.page.locator(inside).get_by_role(role, name=name, exact=exact).first.click()
        self.clicks += 1

    def menu(self, name: str) -> None:
        """A link of the navigation."""
        opener = self.page.locator("#oa-menu")
        if opener.is_visible():
            opener.click()
            self.clicks += 1
        self.click("link", name, inside="nav[aria-label=Main]")
        self.page.locator("main").wait_for()

    def search(self, text: str) -> None:
        """Ctrl-K, the text, Enter: nothing is clicked."""
        before = self.page.url
        self.page.keyboard.press("Control+k")
        self.page.keyboard.type(text)
        self.page.get_by_role("option", name=text).first.wait_for()
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(lambda url: url != before)

    def preview(self) -> None:
        """The effect of a form: beside it on wide screens, else a click away."""
        if self.page.viewport_size["width"] < 1280:
            self.click("button", "Preview")

    def end(self, task: str, at_most: int) -> None:
        """The task is done: few clicks, no sideways scroll, no serious finding of axe (at a desk, other tests look)."""
        self.taken[task] = self.clicks
        is_folded = self.page.viewport_size["width"] < 1024
        assert self.clicks <= at_most + is_folded, f"{task}: {self.clicks} clicks"
        size = self.page.viewport_size["width"]
        assert self.page.evaluate("document.documentElement.scrollWidth") <= size, f"{task} at {self.page.url}"
        if self.page.viewport_size != DESK:
            self.tab.assert_accessible()


@pytest.fixture
def travel(signed_in: Callable[..., Any]) -> Callable[..., Journey]:
    """A journey of a user."""

    def begin(username: str, size: dict[str, int], colours: str, **options: Any) -> Journey:
        return Journey(signed_in(username, viewport=size, color_scheme=colours, **options), username)

    return begin


@pytest.mark.parametrize(("size", "colours"), VIEWS)
def test_a_platform_admin(scene: PoolScene, travel: Callable[..., Journey], size: dict[str, int], colours: str) -> None:
    scene.create_subpool("a", 8)
    (running,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    waiting = scene.submit_workflow(f"{scene.pool}--a", gpus=8)
    walk = travel("admin", size, colours)

    walk.begin()
    expect(walk.page.locator("#problems-title")).to_be_visible()
    expect(walk.page.locator("#idle-title")).to_be_visible()
    walk.end("Is anything wrong, and who wastes", 0)

    walk.begin()
    walk.menu("Queue")
    # Other tests have work in the queue too.
    walk.page.get_by_label("Pool or subpool").fill(scene.pool)
    walk.page.get_by_label("Pool or subpool").press("Enter")
    walk.page.get_by_role("link", name=waiting, exact=True).wait_for()
    expect_text(walk.page.locator(f"#gang-{waiting}-main-group"), f"{scene.pool}--a", "Too little free quota")
    walk.end("Who waits in all pools, and why", 1)

    walk.begin()
    walk.search(scene.pool)
    walk.page.wait_for_url(f"**/pools/{scene.pool}")
    expect_text(walk.page.locator("main"), f"system created pool {scene.pool}")
    walk.end("Who changed this pool", 0)

    name = scene.stack.unique_name("new")
    walk.begin()
    walk.search("create a pool")
    walk.page.get_by_label("Name").first.fill(name)
    walk.page.get_by_label("Cluster").first.select_option(scene.pool)
    walk.page.get_by_label("Quota", exact=False).first.fill("4")
    walk.preview()
    walk.click("button", f"Create {name}")
    walk.page.wait_for_url(f"**/pools/{name}")
    walk.end("Create a pool", 1)

    walk.begin()
    walk.search(name)
    walk.click("link", "Edit")
    walk.page.get_by_label("Weight", exact=False).first.fill("3")
    walk.preview()
    walk.click("button", "Save the configuration")
    walk.page.wait_for_url(f"**/pools/{name}")
    walk.end("Change a limit of a pool", 2)

    node = scene.stack.query(
        "SELECT node_name FROM scheduling_task t JOIN scheduling_group g ON g.uuid = t.group_id "
        "JOIN scheduling_workflow w ON w.uuid = g.workflow_id WHERE w.name = %s",
        running,
    )
    walk.begin()
    walk.tab.open(f"/nodes?backend={scene.pool}")  # each cluster of these tests has a node of this name
    walk.click("link", node[0]["node_name"])
    walk.page.get_by_role("link", name=running, exact=True).wait_for()
    walk.end("Who holds GPUs on this node", 1)

    walk.begin()
    walk.search(node[0]["node_name"])
    walk.page.wait_for_url("**/nodes/**")
    walk.page.get_by_role("heading", name=node[0]["node_name"]).wait_for()
    walk.end("What runs on this node, by its name", 0)


@pytest.mark.parametrize(("size", "colours"), VIEWS)
def test_a_pool_admin(scene: PoolScene, travel: Callable[..., Journey], size: dict[str, int], colours: str) -> None:
    scene.create_subpool("other", 80)
    walk = travel(scene.pool_admin, size, colours)
    walk.begin()
    walk.click("link", scene.pool, inside="main")  # "My pools" on the home page
    walk.click("link", "Create a subpool")
    walk.page.get_by_label("Name").first.fill("fresh")
    walk.page.get_by_label("Quota").first.fill("8")
    walk.preview()
    walk.click("button", f"Create {scene.pool}--fresh")
    walk.page.wait_for_url(f"**{scene.pool_page}**")
    walk.end("Create a subpool", 3)

    walk.begin()
    walk.click("link", scene.pool, inside="main")
    walk.page.get_by_label(f"New quota of {scene.pool}--fresh").fill("12")
    expect_text(walk.page.locator("#oa-resize"), "fresh: Quota 8 → 12")
    walk.click("button", f"Resize {scene.pool}--fresh")
    expect_text(walk.page.locator("#page"), f"{scene.pool}--fresh", "from 8 to 12")
    assert scene.subpool_state(f"{scene.pool}--fresh") == ("ACTIVE", 12)
    walk.end("Resize a subpool", 2)

    walk.begin()
    walk.search(scene.pool)
    walk.page.get_by_label(f"New quota of {scene.pool}--fresh").fill("20")
    walk.click("link", "Until a time")
    walk.click("button", "Friday 18:00")
    walk.preview()
    walk.click("button", f"Resize {scene.pool}--fresh")
    expect_text(walk.page.locator("#page"), "from 12 to 20 until")
    walk.end("8 GPUs more until Friday", 3)

    walk.begin()
    walk.click("link", scene.pool, inside="main")
    walk.click("link", "Resize several")
    walk.page.get_by_label("fresh", exact=True).fill("40")
    walk.page.get_by_label("other", exact=True).fill("60")
    walk.click("button", "Preview")
    walk.page.wait_for_url("**/quotas/-/preview**")
    walk.click("button", "Save the quotas")
    walk.page.wait_for_url(f"**{scene.pool_page}**")
    assert scene.subpool_state(f"{scene.pool}--other") == ("ACTIVE", 60)
    walk.end("Move GPUs between subpools", 4)


@pytest.mark.parametrize(("size", "colours"), VIEWS)
def test_a_researcher(scene: PoolScene, travel: Callable[..., Journey], size: dict[str, int], colours: str) -> None:
    scene.create_subpool("a", 8)
    scene.create_subpool("b", 8)
    (running,) = scene.run_workflows(f"{scene.pool}--a", gpus=8)
    walk = travel(scene.pool_user, size, colours)

    walk.begin()
    walk.click("link", "Submit work", inside="main")
    walk.page.get_by_label("Pool or subpool").select_option(f"{scene.pool}--a")
    walk.page.get_by_label("Workflow or PodGroup").fill(WORKFLOW.format(name=scene.stack.unique_name("job"), gpus=8))
    walk.click("button", "Submit")
    walk.page.wait_for_url("**/workflows/*")
    job = walk.page.url.split("/")[-1]
    walk.end("Submit from text", 2)

    walk.begin()
    row = walk.page.locator("tr", has_text=job)
    expect_text(row, "leaves 0 GPUs")
    walk.end("My work, and why it waits", 0)

    walk.begin()
    walk.click("link", "All my workflows", inside="main")
    walk.page.get_by_role("link", name=job, exact=True).wait_for()
    expect(walk.page.get_by_role("link", name=running, exact=True)).to_have_count(1)
    walk.end("My workflows", 1)

    walk.begin()
    walk.menu("Usage")
    expect_text(walk.page.locator("#over-time-title"), "The last 30 days")
    with walk.page.expect_download() as file:
        walk.click("link", "CSV", inside="main")
    assert scene.pool in Path(file.value.path()).read_text()
    walk.end("Use of my team in 30 days, as a file", 2)

    walk.begin()
    walk.click("link", job, inside="main")
    expect_text(walk.page.locator("main"), f"{scene.pool}--b has 8 guaranteed GPUs free")
    assert "osmo-pool-" not in walk.page.inner_text("main .oa-note")
    walk.page.get_by_role("link", name=running, exact=True).wait_for()  # the holder
    walk.click("link", "Output of all tasks")
    walk.page.get_by_text("These are the recorded facts about its tasks").wait_for()
    walk.end("Output of my job", 2)

    walk.begin()
    walk.click("link", job, inside="main")
    walk.click("link", "Cancel")
    walk.page.locator("main button.oa-button--danger").click()
    walk.clicks += 1
    expect_text(walk.page.locator("#page"), "was cancelled")
    rows = scene.stack.query("SELECT status FROM scheduling_workflow WHERE name = %s", job)
    assert [each["status"] for each in rows] == ["FAILED_CANCELED"]
    walk.end("Cancel my job", 3)


def test_a_researcher_whose_work_was_preempted(scene: PoolScene, travel: Callable[..., Journey]) -> None:
    scene.create_subpool("a", 8)
    scene.create_subpool("b", GPUS)
    scene.run_workflows(f"{scene.pool}--a", gpus=GPUS, count=NODES, priority="LOW")
    (urgent,) = scene.run_workflows(f"{scene.pool}--b", gpus=GPUS)
    walk = travel(scene.pool_user, DESK, "light")
    walk.begin()
    news = walk.page.locator("section[aria-labelledby=mine-title]")
    why = f"by {urgent} ({scene.pool_user}): {scene.pool}--b took back {GPUS} GPUs that {scene.pool}--a had borrowed"
    expect_text(news, "Preempted", why)
    walk.end("Who preempted me, and why", 0)

    walk.begin()
    walk.page.get_by_role("link", name="Receipt").first.click()
    walk.clicks += 1
    receipt = walk.page.locator("#preempted details[open] dl")
    expect_text(receipt, "Reclaim of quota", "since the start", "It waits at place", "it was submitted earlier")
    walk.end("What was lost, and who else could have gone", 1)
    walk.begin()
    walk.click("link", urgent, inside="section[aria-labelledby=mine-title]")
    expect_text(walk.page.locator("#taken"), "This preempted")
    lost = walk.page.locator("#taken a").first.inner_text()
    walk.click("link", lost, inside="#taken")
    expect_text(walk.page.locator("#preempted"), "Preempted", why)
    walk.end("The work that took my place, and mine", 2)


def _tab_to(page: Any, condition: str, most: int) -> None:
    """Press Tab until the focused element `element` fulfils a condition in JavaScript."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(f"(element => {condition})(document.activeElement)"):
            return
    pytest.fail(f"{most} Tabs do not lead to {condition}")


def test_a_morning_look_by_keyboard_alone_in_forced_colours(scene: PoolScene, travel: Callable[..., Journey]) -> None:
    scene.create_subpool("a", 8)
    scene.run_workflows(f"{scene.pool}--a", gpus=8)
    waiting = scene.submit_workflow(f"{scene.pool}--a", gpus=8)
    walk = travel(scene.create_platform_admin(), DESK, "light", forced_colors="active")
    page = walk.page
    walk.begin()
    _tab_to(page, "element.matches('.oa-problem a, .oa-skip')", 1)
    page.keyboard.press("Enter")
    _tab_to(page, "element.matches('.oa-fleet a, .oa-problems a')", 2)  # after the words of the page
    walk.search("Queue")
    page.keyboard.press("/")
    expect(page.get_by_label("Pool or subpool")).to_be_focused()
    page.keyboard.type(scene.pool)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**pool={scene.pool}**")
    _tab_to(page, f"element.textContent === '{waiting}'", 60)
    page.keyboard.press("Enter")
    page.wait_for_url("**/workflows/*")
    expect_text(page.locator("main"), f"the quota of {scene.pool}--a (8) leaves 0 GPUs")
    walk.end("A morning look", 0)


def test_a_submission_by_keyboard_alone_in_forced_colours(scene: PoolScene, travel: Callable[..., Journey]) -> None:
    walk = travel(scene.pool_user, DESK, "dark", forced_colors="active")
    page, name = walk.page, scene.stack.unique_name("job")
    walk.begin()
    walk.search("Submit a workflow")
    expect(page.get_by_label("Pool or subpool"), "the first field has the focus").to_be_focused()
    page.keyboard.type(scene.pool)
    _tab_to(page, "element.name === 'file'", 4)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(WORKFLOW.format(name=name, gpus=1).replace("command", "comand"))
    _tab_to(page, "element.matches('main button') && element.textContent.trim() === 'Submit'", 5)
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]"), "the faults have the focus").to_be_focused()
    _tab_to(page, "element.name === 'file'", 12)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(WORKFLOW.format(name=name, gpus=1))
    _tab_to(page, "element.matches('main button') && element.textContent.trim() === 'Submit'", 5)
    page.keyboard.press("Enter")
    page.wait_for_url("**/workflows/*")
    walk.end("Submit", 0)


def test_a_resize_by_keyboard_alone_in_forced_colours(scene: PoolScene, travel: Callable[..., Journey]) -> None:
    scene.create_subpool("a", 8)
    walk = travel(scene.pool_admin, DESK, "light", forced_colors="active")
    walk.begin()
    page = walk.page
    page.keyboard.press("Control+k")
    page.keyboard.type(scene.pool)
    page.get_by_role("option", name=scene.pool).first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{scene.pool_page}")
    box = page.get_by_label(f"New quota of {scene.pool}--a")
    box.wait_for()
    page.keyboard.press("Tab")
    expect(page.locator(".oa-skip"), "the link past the navigation comes first").to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(25):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "quota-a":
            break
    page.keyboard.press("Control+a")
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    page.wait_for_url("**/-/preview**")
    expect(page.locator("#effect-title")).to_be_focused()
    for _ in range(15):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "confirm":
            break
    page.keyboard.press("Enter")
    expect_text(page.locator("#page"), f"{scene.pool}--a from 8 to 9")
    assert scene.subpool_state(f"{scene.pool}--a") == ("ACTIVE", 9)
    part = page.locator(".oa-bar > span").first
    assert part.evaluate("part => getComputedStyle(part).forcedColorAdjust") == "none", "a bar keeps its parts"
    walk.tab.screenshot("forced-colours")
