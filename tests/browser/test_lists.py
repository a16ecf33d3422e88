"""Lists: whole rows on one screen, names in one piece, the bar of filters, rows that unfold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Request

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from pools.domain.changes.users import CreateUser
from tests.browser.pool_scene import PoolScene
from tests.support.browser import Tab, expect, expect_text
from tests.support.nightly_parts import samples
from tests.support.stack import Stack

pytestmark = pytest.mark.browser

ROWS = 32
WORKFLOWS = "/workflows"
LONG_LISTS = ("/inbox", WORKFLOWS, "/pools?q={pool}", "/users?q={pool}-member", "/activity/audit?q={pool}")
SHORT_LISTS = (
    "/clusters", "/tokens", "/activity/approvals?state=all", "/views",
    "/clusters/-/sync", "/jobs", "/settings", "/notices", "/nodes", "/activity", "/usage", "/replay",
)  # fmt: skip
DESK_HEIGHT = 900
FIRST_LOAD_BYTES = 120_000
OPENED = samples(("/", "/usage"), (WORKFLOWS, "/pools", "/queue", "/nodes"))
_ROWS = """() => {
  const rows = [...document.querySelectorAll('main tbody tr')].filter((row) => row.checkVisibility());
  const place = rows.map((row) => row.getBoundingClientRect());
  return {
    shown: place.length, first: place[0]?.top, whole: place.filter(({ bottom }) => bottom <= innerHeight).length,
    tallest: Math.max(...place.map(({ height }) => height)),
  };
}"""
_CUT = """() => {
  const isCut = (part) => part.scrollWidth > part.clientWidth + 1;
  const isFolded = (part) => part.closest('details:not([open]) > :not(summary)');
  const found = [document.documentElement, ...document.querySelectorAll('main .oa-scroll, .oa-tabs')].filter(
    (part) => isCut(part) && !isFolded(part));
  const names = [...document.querySelectorAll('main tbody :is(th[scope=row]:not(.oa-give), td.oa-wide)')].filter(isCut);
  const controls = [...document.querySelectorAll('main :is(a, button, summary, input)')].filter((each) => {
    const { left, right, width } = each.getBoundingClientRect();
    const mayBeCut = each.closest('.oa-give, .oa-views, details:not([open]) > :not(summary)');
    return width && !mayBeCut && (left < -1 || right > innerWidth + 1);
  });
  const bare = [...document.querySelectorAll('main select')].filter(
    (each) => each.checkVisibility() && getComputedStyle(each).backgroundImage === 'none');
  return [...found, ...names, ...controls, ...bare].map((each) => each.outerHTML.slice(0, 120));
}"""


@pytest.fixture(scope="module")
def full_lists(stack: Stack) -> PoolScene:
    """Each long list has more rows than one screen: subpools, waiting work with reasons, users, audit entries, news."""
    scene = PoolScene.build(stack)
    scene.create_subpool("a-subpool-with-a-long-name", 10)
    for number in range(ROWS):
        scene.create_subpool(f"part{number}", 1)
    leaf = f"{scene.pool}--a-subpool-with-a-long-name"
    scene.run_workflows(leaf, gpus=8)
    for _ in range(ROWS):
        scene.submit_workflow(leaf, gpus=8)
    with scene.stack.orm():
        from pools.domain.people.roles import SYSTEM
        from pools.services.people.users import create_user

        for number in range(ROWS):
            roles = (f"osmo-{scene.pool}-user", f"osmo-{scene.pool}-admin", "osmo-viewer")
            create_user(CreateUser(id=f"{scene.pool}-member-{number}", roles=roles), actor=SYSTEM)
        from pools.models import InboxNotice, User

        owner = User.objects.get(username="admin")
        text = "Workflow was preempted: HIGH work needed its quota back, and this work was LOW. " * 3
        subject = f"workflow/{scene.pool}-train-1"
        InboxNotice.objects.bulk_create(
            InboxNotice(
                entry=-number - 1, kind="preempted", subject=subject, title="x", text=text, page="/", owner=owner
            )
            for number in range(ROWS)
        )
        for _ in range(2):
            _promise_more_than_there_is(stack.unique_name("small"))
    return scene


def _promise_more_than_there_is(name: str) -> None:
    """A cluster of 8 GPUs with a pool of 100: the lists of pools warn of it."""
    from pools.domain.people.roles import SYSTEM
    from pools.services.configuration.backends import put_backend
    from pools.services.configuration.pools import put_pool

    put_backend(PutBackend(name=name, body={"namespace": name, "nodes": [{"name": "n", "gpus": 8}]}), actor=SYSTEM)
    gpu = {"guarantee": 100, "maximum": -1, "weight": 1}
    put_pool(PutPool(name=name, body={"backend": name, "resources": {"gpu": gpu}}), actor=SYSTEM)


def resize(tab: Tab, width: int) -> None:
    """The window gets another width, and the page that is open has laid itself out anew: its observers run before the
    next frame is painted."""
    tab.page.set_viewport_size({"width": width, "height": DESK_HEIGHT})
    tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_screen_of_each_list(full_lists: PoolScene, signed_in: Callable[..., Tab]) -> None:
    tab = signed_in("admin", viewport={"width": 1440, "height": DESK_HEIGHT})
    for path in LONG_LISTS:
        resize(tab, 1440)
        page = tab.open(path.format(pool=full_lists.pool))
        rows = page.evaluate(_ROWS)
        assert rows["whole"] >= 18 and rows["first"] < 250, (path, rows)
        assert rows["tallest"] <= 36.5, (path, rows)
        assert page.evaluate(_CUT) == [], path
        tab.assert_accessible_in_both_colours()
        for width, first in ((768, 320), (390, 300)):
            resize(tab, width)
            rows = page.evaluate(_ROWS)
            assert rows["first"] < first, (path, width, rows)
            assert rows["tallest"] <= 70, (path, width, rows)
            assert page.evaluate(_CUT) == [], (path, width)
    tab.assert_accessible()
    page.get_by_text("+ Filter").click()
    for width in (390, 768):
        resize(tab, width)
        assert page.evaluate(_CUT) == [], "the open filters"
    for path in SHORT_LISTS:
        page = tab.open(path)
        for width in (768, 390, 1440):
            resize(tab, width)
            assert page.evaluate(_CUT) == [], (path, width)
        tab.assert_accessible_in_both_colours()


@pytest.mark.parametrize("path", OPENED)
def test_the_first_load_of_a_page_is_small(path: str, full_lists: PoolScene, signed_in: Callable[..., Tab]) -> None:
    """Nothing is in the browser's cache: the page, its styles, scripts and fonts, as they are sent."""
    tab = signed_in(full_lists.pool_admin)
    sent: list[Request] = []

    def note(request: Request) -> None:  # Playwright takes no method of a list
        sent.append(request)

    tab.page.on("requestfinished", note)
    page = tab.open(path)
    page.wait_for_load_state("networkidle")
    sizes = {request.url: request.sizes() for request in sent}
    total = sum(each["responseHeadersSize"] + each["responseBodySize"] for each in sizes.values())
    assert len(sizes) > 5, "with its files"
    assert total <= FIRST_LOAD_BYTES, {url: each["responseBodySize"] for url, each in sizes.items()}


def test_a_filter_becomes_a_chip_by_keyboard_in_forced_colours(
    full_lists: PoolScene, signed_in: Callable[..., Tab]
) -> None:
    tab = signed_in(full_lists.pool_user, forced_colors="active")
    page = tab.open(WORKFLOWS)
    page.get_by_text("+ Filter").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("search").get_by_label("Status")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("search").get_by_label("Status")).to_be_hidden()
    page.keyboard.press("Enter")
    page.get_by_role("search").get_by_label("Status").select_option("RUNNING")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Filter", exact=True).click()
    chip = page.get_by_role("link", name="Remove the filter Status: RUNNING")
    expect(chip).to_be_visible()
    expect(page.locator("main tbody tr[id]")).to_have_count(1)
    expect_text(page.locator("main tbody tr[id]"), "RUNNING")
    tab.assert_accessible()
    chip.click()
    expect(page.locator("main")).to_contain_text(f"{ROWS + 1} workflows")


def test_a_reason_unfolds_and_selected_rows_have_their_actions(
    full_lists: PoolScene, signed_in: Callable[..., Tab]
) -> None:
    tab = signed_in(full_lists.pool_user, java_script_enabled=False)
    page = tab.open(f"{WORKFLOWS}?status=PENDING")
    reason = page.locator("main .oa-unfold > summary").first
    full = page.locator("main .oa-unfolded").first
    expect(full).to_be_hidden()
    reason.focus()
    page.keyboard.press("Enter")
    expect_text(full, "leaves 2 GPUs: 6 GPUs missing", "What would unblock it")
    expect(page.get_by_role("button", name="Cancel the selected")).to_be_hidden()
    page.locator("main input[type=checkbox]").first.check()
    expect(page.get_by_role("button", name="Cancel the selected")).to_be_visible()
    page.get_by_role("link", name="Select all on this page").click()
    expect(page.locator("main input[type=checkbox]:checked")).to_have_count(ROWS)


def test_a_column_in_which_no_row_has_anything_gives_its_place(
    full_lists: PoolScene, signed_in: Callable[..., Tab]
) -> None:
    tab = signed_in(full_lists.pool_user, viewport={"width": 1440, "height": DESK_HEIGHT})
    page = tab.open(f"{WORKFLOWS}?status=PENDING")
    ended = page.locator("main thead th", has_text="Ended")
    expect(page.locator("main thead th", has_text="First wait")).to_be_visible()
    expect(ended).to_be_hidden()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("group", name="Columns of the table").get_by_label("Ended").check()
    expect(ended).to_be_visible()


def test_a_screen_of_a_pool_its_queue_its_tree_and_home(full_lists: PoolScene, signed_in: Callable[..., Tab]) -> None:
    pool, cohort = full_lists.pool, full_lists.stack.unique_name("org")
    answer = full_lists.stack.admin_client.patch(f"/api/configs/pool/{pool}", json={"cohort": cohort})
    assert answer.status_code == 200, answer.text
    tab = signed_in(full_lists.create_platform_admin(), viewport={"width": 1440, "height": DESK_HEIGHT})
    lists = (f"/pools/{pool}", f"/cohorts?root={cohort}", f"/queue/{pool}", "/queue", "/")
    for path in lists:
        for width, first, whole, tallest in ((1440, 250, 18, 36.5), (768, 320, 15, 36.5), (390, 300, 7, 82)):
            resize(tab, width)
            if width == 1440 or "cohorts" in path:  # a tree is folded when it is loaded
                page = tab.open(path)
            rows = page.evaluate(_ROWS)
            if path == "/":
                assert rows["whole"] >= 1, ("the tables of Home begin on the first screen", width, rows)
                if width == 1440:
                    page.locator(".oa-problems").evaluate("each => each.style.minHeight = '700px'")
                    waits = page.get_by_role("region", name="Pools with waiting work").bounding_box()
                    assert waits and waits["y"] + 2 * 36 < DESK_HEIGHT * 0.75, "who waits is above the fold"
                    page.locator(".oa-problems").evaluate("each => each.style.minHeight = ''")
            else:
                assert rows["first"] < first, (path, width, rows)
                assert rows["whole"] >= min(whole, rows["shown"]), "whole rows, or all of a tree folded on phones"
                assert rows["tallest"] <= tallest, (path, width, rows)
            assert page.evaluate(_CUT) == [], (path, width)
            if width != 768:
                tab.assert_accessible_in_both_colours()
    resize(tab, 1440)
    page = tab.open(f"/cohorts?root={cohort}")
    expect(page.get_by_role("button", name="Collapse all")).to_be_visible()
    page.emulate_media(forced_colors="active")
    for path in (*lists[:2], "/"):
        part = tab.open(path).locator("main .oa-part--guaranteed").first
        back = part.evaluate("each => getComputedStyle(each).backgroundColor")
        assert back != "rgba(0, 0, 0, 0)", (path, "the parts of a bar keep their colours")


@pytest.fixture(scope="module")
def wide_pools(stack: Stack) -> tuple[str, ...]:
    """Pages of pools whose names, numbers and warnings are as long as they may be."""
    scene = PoolScene.build(stack)
    leaf, wide = "a-subpool-with-a-name-of-limit", stack.unique_name("a-pool-with-quite-a-long-name")
    scene.create_subpool(leaf, 50)
    scene.run_workflows(f"{scene.pool}--{leaf}", gpus=8)
    gone = stack.admin_client.delete(f"/api/configs/pool/{scene.pool}/subpool/{leaf}")
    assert gone.status_code == 200, gone.text
    gpu = {"guarantee": 1_000_000, "maximum": -1, "weight": 1}
    body = {"backend": scene.pool, "description": "without-a-space-" * 20, "resources": {"gpu": gpu}}
    with stack.orm():
        from pools.domain.people.roles import SYSTEM
        from pools.services.configuration.pools import put_pool

        put_pool(
            PutPool(name=wide, body={**body, "cohort": stack.unique_name("a-cohort-with-a-long-name")}), actor=SYSTEM
        )
    made = stack.admin_client.post(f"/api/configs/pool/{wide}/subpool", json={"subpool_name": "part", "quota": 900_000})
    assert made.status_code == 200, made.text
    return scene.pool_page, f"/pools/{wide}", f"/pools?q={wide}", f"/queue/{wide}", f"/pools/{wide}/quota"


@pytest.mark.parametrize("has_run", [False, True], ids=["before its scripts", "after its scripts"])
def test_no_text_makes_a_page_of_pools_wider_than_the_window(
    has_run: bool, wide_pools: tuple[str, ...], signed_in: Callable[..., Tab]
) -> None:
    """Also in the moment before columns are left out."""
    tab = signed_in("admin")
    if not has_run:
        tab.page.route("**/osmo/columns*", lambda route: route.fulfill(body="", content_type="text/javascript"))
    for path in wide_pools:
        page = tab.open(path)
        for width in (1024, 768, 390):
            resize(tab, width)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
