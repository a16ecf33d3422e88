"""What is said of a pool with quotas by GPU flavor where it is not about one flavor: idle quota, notices, nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.people.roles import SYSTEM
from pools.domain.values.amounts import GPU, gpu_key
from pools.models import Node, Pool, User
from pools.selectors.quotas.quota_tree import NO_FLAVOR, read_quota_view
from scheduling.domain.priorities import Priority
from scheduling.models import Task
from scheduling.selectors.cluster.nodes import read_node_usage
from scheduling.selectors.queue.waiting_pools import read_idle_pools
from scheduling.services.notices.conditions import _nearly_used
from tests.integration.admin.conftest import confirm_change
from tests.support import world
from tests.support.flavors import add_flavored_pool, make_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db


def test_use_beyond_the_quota_of_one_flavor_does_not_fill_another() -> None:
    """LOW work holds 16 H100 of a quota of 8, and 8 A100 of 32, of which 24 are idle."""
    make_flavored_pool()
    quotas = {"h100": {"guarantee": 8}, "a100": {"guarantee": 32}}
    world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))
    actor = world.admin_actor()
    for flavor in ("h100", "h100", "a100"):
        submit_gpus(actor, 8, flavor, to="team", priority=Priority.LOW)
    world.reconcile()
    [idle] = read_idle_pools(SYSTEM, {"sim"}, {}, limit=5)
    assert (idle.pool, idle.quota, idle.used, idle.idle) == ("team", 40, 16, 24)


def test_a_notice_names_the_fullest_flavor() -> None:
    make_flavored_pool()
    actor = world.admin_actor()
    submit_gpus(actor, 8, "h100")
    submit_gpus(actor, 2, "a100")
    world.reconcile()
    found = {each.subject: each.message for each in _nearly_used(())}
    assert found == {"pool/team--a": "The quota of team--a is nearly used: 8 of 8 h100 GPUs."}


def test_a_node_says_what_counts_in_another_flavor() -> None:
    make_flavored_pool()
    submit_gpus(world.admin_actor(), 4, "h100")
    world.reconcile()
    [name] = Task.objects.values_list("node_name", flat=True)
    before = {use.name: use.notes for use in read_node_usage()}
    nodes = [
        {"name": row.name, "gpus": 8, "labels": {"gpu": "a100" if row.name == name else row.flavor}}
        for row in Node.objects.filter(backend__name="sim")
    ]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    after = {use.name: use.notes for use in read_node_usage()}
    assert not any(before.values())
    assert after.pop(name) == ["running work with 4 GPUs counts as h100, in which it was admitted, until it ends"]
    assert not any(after.values())


def _page(path: str) -> str:
    if not User.objects.filter(username="root").exists():
        world.make_user("root", "osmo-admin")
    return world.sign_in("root").get(path).content.decode()


def test_lists_say_which_flavor_is_full() -> None:
    """8 h100 GPUs of a are in use, and 8 of b wait for an a100: the sums look half free."""
    make_flavored_pool()
    actor = world.admin_actor()
    submit_gpus(actor, 8, "h100")
    world.reconcile()
    line = 'oa-nowrap oa-strong">h100 8 of 8</span>, <span class="oa-nowrap">a100 0 of 8</span>'
    assert all(line in _page(path) for path in ("/pools", "/pools/team"))
    assert 'oa-strong">h100 8 of 8</span>' in _page("/queue/team")
    assert "h100 8 of 16" in _page("/") and "a100 0 of 32" in _page("/")


def test_the_tree_has_sums_and_each_flavor() -> None:
    make_flavored_pool()
    world.apply_change(PutCohort(name="org", body={}))
    world.apply_change(PatchPool(name="team", patch={"cohort": "org"}))
    actor = world.admin_actor()
    for _ in range(2):
        submit_gpus(actor, 8, "h100")
    submit_gpus(actor, 8, "a100", "h100", to="team")
    world.reconcile()
    view = read_quota_view(SYSTEM, root="org")
    found = {
        key: (
            total.quota,
            total.total_usage,
            number.subtree_quota,
            number.usage,
            view.pending.get(key, {}).get("pool/team", 0),
        )
        for key in view.tree.keys
        for total, number in [(view.totals[key]["pool/team"], view.numbers[key]["pool/team"])]
    }
    assert found == {
        GPU: (48, 16, 48, 16, 8), gpu_key("h100"): (16, 8, 16, 8, 8), gpu_key("a100"): (32, 8, 32, 8, 0)
    }  # fmt: skip
    assert view.flavor_keys() == [gpu_key("h100"), gpu_key("a100")]
    page = _page("/pools/team/quota")
    assert "By flavor" in page and "How the numbers are computed" not in page
    assert "How the numbers are computed" in _page("/pools/team/quota?resource=h100/gpu")


def test_sums_name_the_quotas_and_limits_of_the_flavors() -> None:
    make_flavored_pool()
    rows = [{"flavor": "h100", "resource": "gpu", "nominal": 4}, {"flavor": "a100", "resource": "gpu", "nominal": 2}]
    world.apply_change(PutCohort(name="org", body={"quotas": rows}))
    quotas = {"h100": {"guarantee": 16}, "a100": {"guarantee": 32, "borrowing_limit": 8, "lending_limit": 3}}
    world.apply_change(PatchPool(name="team", patch={"cohort": "org", "resources": {"flavors": quotas}}))
    assert '<dd id="nominal">6 GPUs' in _page("/cohorts/org")
    page = _page("/pools/team/quota")
    assert '<dd id="borrowing_limit">8 a100</dd>' in page and '<dd id="lending_limit">3 a100</dd>' in page
    assert '<dd id="borrowing_limit">none</dd>' in _page("/pools/team/quota?resource=h100/gpu")


def test_a_tree_says_what_is_in_no_flavor() -> None:
    pool = make_flavored_pool()
    old = world.make_pool("old", 8, on=pool.backend)
    for each in (pool, old):
        world.apply_change(PatchPool(name=each.name, patch={"cohort": "org"}))
    view = read_quota_view(SYSTEM, root="org")
    assert view.flavor_keys() == [gpu_key("h100"), gpu_key("a100"), NO_FLAVOR]
    assert [view.totals[key]["cohort/org"].quota for key in (GPU, *view.flavor_keys())] == [56, 16, 32, 8]
    assert "without a flavor" in _page("/cohorts/org")


def test_a_tree_lists_the_flavors_of_each_pool_in_its_order(caller: Callable[..., Any]) -> None:
    make_flavored_pool()
    add_flavored_pool("ampere", {"a100": 8, "h100": 0}, {"a100": 4})
    for name in ("team", "ampere"):
        world.apply_change(PatchPool(name=name, patch={"cohort": "org"}))
    nodes = caller("root", "osmo-admin").get("/api/quota_tree")["nodes"]
    found = {node["name"]: [row["flavor"] for row in node["quotas"]] for node in nodes}
    assert found["team"] == found["team--a"] == ["default", "h100", "a100"]
    assert found["ampere"] == found["ampere--a"] == ["default", "a100", "h100"]


def test_the_queue_names_the_flavor_that_is_missing(caller: Callable[..., Any]) -> None:
    make_flavored_pool()
    actor = world.admin_actor()
    for _ in range(2):
        submit_gpus(actor, 8, "h100")
    world.reconcile()
    [entry] = caller("root", "osmo-admin").get("/api/queue")["entries"]
    assert (entry["reason"]["missing"], entry["reason"]["flavor"]) == (8, "h100")
    assert "8 h100</td>" in world.sign_in("root").get("/queue").content.decode()


def test_nodes_are_summed_by_flavor(caller: Callable[..., Any]) -> None:
    make_flavored_pool()
    submit_gpus(world.admin_actor(), 4, "h100")
    world.reconcile()
    answer = caller("root", "osmo-admin").get("/api/backend/sim/nodes")
    assert [(each["flavor"], each["gpus"], each["used"], each["free"]) for each in answer["flavors"]] == [
        ("h100", 16, 4, 12), ("a100", 32, 0, 32)
    ]  # fmt: skip
    assert answer["flavors"][0]["fits"][-1] == {"gpus": 8, "tasks": 1}
    client = world.sign_in("root")
    assert "4 of 16 in use, 12 free" in client.get("/nodes").content.decode()
    page = client.get("/nodes?flavor=h100&free=8").content.decode()
    assert [name for name in ("h0", "h1", "a0") if f"/nodes/sim/{name}" in page] in (["h0"], ["h1"])


def test_the_capacity_of_a_pool_is_of_the_flavors_that_it_may_use(caller: Callable[..., Any]) -> None:
    make_flavored_pool()
    add_flavored_pool("ampere", {"a100": 8}, {"a100": 4})
    world.make_pool("plain", 8, on=world.make_backend())
    submit_gpus(world.admin_actor(), 4, "h100")
    world.reconcile()
    admin = caller("root", "osmo-admin")
    (both, alone) = admin.get("/api/pool_quota", pools=["ampere", "team", "plain"])["node_sets"]
    sums = [
        (row["name"], *(row["resource_usage"][f"total_{key}"] for key in ("capacity", "free"))) for row in both["pools"]
    ]
    assert sums == [("ampere", "48", "44"), ("team", "48", "44")]
    assert alone["pools"][0]["resource_usage"]["total_capacity"] == "0"
    (node,) = [each for each in admin.get("/api/resources")["resources"] if each["hostname"] == "a0"]
    assert {pool: of["default"]["gpu"] for pool, of in node["platform_available_fields"].items()} == {
        "ampere": "8", "plain": "0", "team": "8",
    }  # fmt: skip


def test_the_form_of_a_new_pool_has_the_flavors_of_the_chosen_cluster() -> None:
    """Without scripts: the first cluster, then another by a button, then one that was given numbers of the first."""
    for name, flavors in (("a", ["h100", "a100"]), ("b", ["l40s"]), ("c", [])):
        named = [{"name": flavor, "node_labels": {"gpu": flavor}} for flavor in flavors]
        world.apply_change(PutBackend(name=name, body={"nodes": [], "flavors": named}))
    world.make_user("root", "osmo-admin")
    root, address = world.sign_in("root"), "/pools/-/create"

    def inputs(answer: Any) -> list[str]:
        return [name for name in answer.context["form"].fields if name.startswith("guarantee")]

    first = root.get(address)
    assert inputs(first) == ["guarantee", "guarantee-h100", "guarantee-a100"]
    assert "The form has the numbers of its flavors." in first.content.decode()
    assert "<summary>Flavor h100</summary>" not in first.content.decode()
    assert first.context["form"].fields["guarantee-h100"].widget.attrs["placeholder"] == "none"
    typed = {"name": "fresh", "guarantee-h100": "8", "guarantee": "8", "weight": "1"}
    for backend, flavors in (("b", ["l40s"]), ("c", [])):
        shown = root.post(address, {**typed, "backend": backend, "step": "edit"}, follow=True)
        assert inputs(shown) == ["guarantee", *(f"guarantee-{flavor}" for flavor in flavors)]
        assert 'value="fresh"' in shown.content.decode()
        refused = root.post(address, {**typed, "backend": backend, "step": "preview"}, follow=True)
        assert refused.status_code == 400
        [message] = refused.context["form"].errors["backend"]
        own = "Its own are below: l40s." if flavors else "It has none."
        assert message == f"This cluster does not have the flavor h100, of which numbers were given. {own}"
    assert root.post(address, {**typed, "backend": "a", "step": "preview"}, follow=True).status_code == 200
    assert not Pool.objects.filter(name="fresh").exists()


def test_the_form_of_a_pool_with_flavors_asks_for_no_sum() -> None:
    """The sum follows from the flavors, so a number typed for it would be dropped."""
    make_flavored_pool()
    world.make_user("root", "osmo-admin")
    root, address = world.sign_in("root"), "/pools/team/configuration"
    form = root.get(address).context["form"]
    assert not {"guarantee", "maximum", "borrowing_limit", "lending_limit"} & form.fields.keys()
    typed = {"guarantee-h100": "16", "guarantee-a100": "40", "weight": "2"}
    assert confirm_change(root, address, **typed).status_code == 302
    pool = Pool.objects.get(name="team")
    assert (pool.guarantee, pool.weight) == (56, 2)


def test_a_new_pool_with_another_sum_than_its_flavors_is_refused() -> None:
    make_flavored_pool()
    world.make_user("root", "osmo-admin")
    root, address = world.sign_in("root"), "/pools/-/create"
    form = root.get(f"{address}?backend=sim").context["form"]
    assert not next(is_open for group, _, is_open in form.grouped_fields() if group.title == "The choice among flavors")
    typed = {"name": "fresh", "backend": "sim", "guarantee-h100": "1", "guarantee-a100": "2", "weight": "1"}
    refused = root.post(address, {**typed, "guarantee": "7", "step": "preview"}, follow=True)
    assert refused.status_code == 400
    assert list(refused.context["form"].errors) == ["guarantee"]
    assert confirm_change(root, address, **typed, guarantee="0").status_code == 302
    assert Pool.objects.get(name="fresh").guarantee == 3
