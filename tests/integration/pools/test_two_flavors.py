"""Changes of a pool with two flavors through the API: several subpools, approvals, drains and temporary quotas."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.domain.changes.subpools import CreateSubpool
from pools.domain.names import REMAINDER_LABEL
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.models import AuditEntry, Pool
from pools.selectors.quotas.pool_balance import read_balance
from pools.services.configuration.subpools import end_temporary_quotas
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.flavors import make_flavored_pool, submit_gpus
from tests.support.world import ModuleData

pytestmark = pytest.mark.django_db
SEVERAL = "/api/configs/subpool_quotas"
SUBPOOL = "/api/configs/pool/team/subpool"


@pytest.fixture(scope="module")
def root_once(admin_once: ApiClient, module_data: ModuleData) -> ApiClient:
    with module_data():
        make_flavored_pool()
        world.apply_change(CreateSubpool(parent="team", subpool_name="b", quotas={"h100": 4, "a100": 8}))
    return admin_once


@pytest.fixture
def root(root_once: ApiClient, admin: ApiClient) -> ApiClient:
    """A pool of 16 h100 and 32 a100, its subpools a (8 and 8) and b (4 and 8)."""
    return admin


def _left() -> dict[str, int]:
    kinds = read_balance(Pool.objects.get(name="team")).kinds
    return {flavor: int(kind.unallocated) for flavor, kind in kinds.items()}


def test_several_subpools_trade_flavors_at_once(root: ApiClient) -> None:
    """Alone, neither change has room for its flavor; a flavor that is left out stays."""
    answer = root("PATCH", SEVERAL, {"quotas": {"team--a": {"h100": 2, "a100": 24}, "team--b": {"h100": 14}}})
    assert answer.status == 200
    assert [[each["quota"] for each in part["flavors"]] for part in answer.body["subpools"]] == [[2, 24], [14, 8]]
    assert root.get(SEVERAL)["quotas"] == {"team--a": {"h100": 2, "a100": 24}, "team--b": {"h100": 14, "a100": 8}}
    assert _left() == {"h100": 0, "a100": 0}
    world.check_deferred_constraints()


def test_a_drain_holds_the_flavor_of_its_work_alone(root: ApiClient) -> None:
    """8 h100 GPUs of a run when it is deleted: b gets its quota at once, and starts h100 work as a's work ends."""
    running = submit_gpus(world.admin_actor(), 8, "h100")
    world.reconcile()
    assert root("DELETE", f"{SUBPOOL}/a").body["subpool_state"] == "DELETING"
    answer = root("PATCH", f"{SUBPOOL}/b", {"quotas": {"h100": 16, "a100": 32}})
    assert answer.status == 200
    for flavor in ("h100", "a100"):
        submit_gpus(world.admin_actor(), 8, flavor, to="team--b")
    submit_gpus(world.admin_actor(), 8, "h100", to="team--b")
    world.reconcile()
    rows = {each["subpool_name"]: each for each in root.get(SUBPOOL)["subpools"]}
    used = {name: {each["flavor"]: each["used"] for each in row["flavors"]} for name, row in rows.items()}
    assert used["b"] == {"h100": 8, "a100": 8}
    assert used["a"]["h100"] == 8
    [drain] = root.get("/api/drains")["drains"]
    assert (drain["subpool"], drain["gpus"]) == ("team--a", 8)
    assert root("POST", f"/api/workflow/{running.name}/cancel").status == 200
    world.reconcile()
    rows = {each["subpool_name"]: each for each in root.get(SUBPOOL)["subpools"]}
    assert {each["flavor"]: each["used"] for each in rows["b"]["flavors"]} == {"h100": 16, "a100": 8}
    assert "a" not in rows


def test_a_temporary_quota_of_one_flavor_on_pages_and_in_the_audit(root: ApiClient) -> None:
    """Preview, start, end and revert of a raise of h100 alone."""
    browser, address = world.sign_in("root"), "/pools/team/subpools/a/resize"
    until = timezone.now() + timedelta(hours=5)
    typed = {"quotas-h100": "12", "quotas-a100": "8", "until": f"{until:%Y-%m-%dT%H:%M}", "step": "preview"}
    preview = browser.post(address, typed, follow=True)
    shown = {node.shown_label: (node.quota_before, node.quota_after) for node in preview.context["nodes"]}
    assert (shown["a, h100"], shown[f"{REMAINDER_LABEL}, h100"]) == ((8, 12), (4, 0)) and "a, a100" not in shown
    assert "it is 8 a100 GPUs and 8 h100 GPUs again" in preview.content.decode()
    assert browser.post(address, {**preview.context["hidden"], "step": "confirm"}).status_code == 302
    row = root.get(f"{SUBPOOL}/a")
    assert (row["quotas"], row["quotas_after"]) == ({"h100": 12, "a100": 8}, {"h100": 8, "a100": 8})
    assert "temporary; 8 a100 GPUs and 8 h100 GPUs again" in browser.get("/pools/team").content.decode()
    raised = AuditEntry.objects.filter(object="pool/team--a").latest("id")
    Pool.objects.filter(name="team--a").update(quota_until=timezone.now() - timedelta(seconds=1))
    assert end_temporary_quotas() == 1
    world.check_deferred_constraints()
    row = root.get(f"{SUBPOOL}/a")
    assert (row["quotas"], row["quota_until"]) == ({"h100": 8, "a100": 8}, None) and "quotas_after" not in row
    ended = AuditEntry.objects.filter(object="pool/team--a").latest("id")
    assert [gpus_by_flavor(each["flavors"]) for each in (ended.before, ended.after) if each] == [
        {"h100": 12, "a100": 8}, {"h100": 8, "a100": 8}
    ]  # fmt: skip
    back = browser.get(f"/activity/audit/{ended.pk}").context["revert"]
    assert "quotas-h100=12" in back and "until" not in back
    before = browser.get(f"/activity/audit/{raised.pk}").context["revert"]
    assert "quotas-h100=8" in before and browser.get(before).context["is_unchanged"]


def test_the_page_for_several_subpools_has_a_number_for_each_flavor(root: ApiClient) -> None:
    """The trade leaves both sums as they are, and the preview shows each flavor."""
    browser = world.sign_in("root")
    address = "/pools/team/quotas"
    form = browser.get(address).context["form"]
    assert {name: form[name].value() for name in form.fields if name.startswith("quota-")} == {
        "quota-a.h100": 8, "quota-a.a100": 8, "quota-b.h100": 4, "quota-b.a100": 8,
    }  # fmt: skip
    typed = {"quota-a.h100": "4", "quota-a.a100": "12", "quota-b.h100": "8", "quota-b.a100": "4", "step": "preview"}
    preview = browser.post(address, typed, follow=True)
    shown = {node.shown_label: (node.quota_before, node.quota_after) for node in preview.context["nodes"]}
    assert (shown["a"], shown["a, h100"], shown["b, a100"]) == ((16, 16), (8, 4), (8, 4))
    assert browser.post(address, {**preview.context["hidden"], "step": "confirm"}).status_code == 302
    assert root.get(SEVERAL)["quotas"]["team--b"] == {"h100": 8, "a100": 4}


def test_a_file_of_the_page_has_a_line_for_each_flavor(root: ApiClient) -> None:
    browser = world.sign_in("root")
    text = "pool,subpool,quota,flavor\nteam,a,4,h100\nteam,a,12,a100\nteam,b,4,h100\n"
    preview = browser.post("/pools/-/quotas", {"quotas": text, "step": "preview"}, follow=True)
    assert [node.shown_label for node in preview.context["nodes"] if node.kind == "subpool"] == ["a, h100", "a, a100"]
    done = browser.post("/pools/-/quotas", {**preview.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert root.get(SEVERAL)["quotas"] == {"team--a": {"h100": 4, "a100": 12}, "team--b": {"h100": 4, "a100": 8}}


def test_a_file_is_refused_in_the_words_of_a_file(root: ApiClient) -> None:
    world.make_pool("plain", 8, x=4)
    browser, head = world.sign_in("root"), "pool,subpool,quota,flavor\n"
    for text, said in {
        "pool,subpool,quota\nteam,a,12\n": "team--a: Pool team has quotas of 2 flavors (h100, a100). Give the file the "
        "column flavor, and team--a a ",
        f"{head}team,a,4,l40\n": "team--a: l40 is a flavor that pool team has no quota of. It has h100, a100.",
        f"{head}plain,x,4,h100\n": "plain--x: Pool plain has no quotas by flavor. Leave the column flavor empty.",
        f"{head}team,a,many,h100\n": "team--a, h100: This is not a valid quota: ",
    }.items():
        page = browser.post("/pools/-/quotas", {"quotas": text, "step": "preview"}, follow=True)
        [shown] = [message for messages in page.context["form"].errors.values() for message in messages]
        assert shown.startswith(said)
        assert "quotas." not in shown and "{" not in shown
