"""Rows whose parents form a cycle, written past every trigger: each entry point reports it and admits nothing there.

`a` → `b` → `a`, pool `p` in `b`; `c` is below the cycle with pool `q`; `free` is outside it.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from pools.domain.changes.cohorts import DeleteCohort, PatchCohort, PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.tokens import CreateToken
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, Backend, Cohort, LeafUsage
from pools.services.configuration.cohort_cycles import mark_cycles_now
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.services.verify import verify
from scheduling.tasks import find_cohort_cycles
from tests.integration.cohorts.conftest import create_cohorts, create_member_pool, gpu_quota_row
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.world import ModuleData, apply_change, reconcile, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]
TRY = {"dry_run": "True"}
SQL = "UPDATE pools_cohort SET parent_id = (SELECT id FROM pools_cohort WHERE name = 'b') WHERE name = 'a'"


def past_the_triggers(sql: str) -> None:
    world.check_deferred_constraints()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(sql)
        assert cursor.rowcount
        cursor.execute("SET LOCAL session_replication_role = origin")


def total_usage_by_pool() -> dict[str, int]:
    held = LeafUsage.objects.filter(pool__name__in=["p", "q", "free"])
    return dict(held.values_list("pool__name", "total_usage"))


@pytest.fixture(scope="module")
def cycle(module_data: ModuleData) -> None:
    with module_data():
        create_cohorts("a 0", "  b 2", "    c 1")
        for pool, cohort in (("p", "b"), ("q", "c"), ("free", "elsewhere")):
            create_member_pool(pool, cohort, 4)
            world.submit_workflow(world.admin_actor(), pool, 2, name=f"runs-{pool}", priority=Priority.LOW)
        reconcile()
        past_the_triggers(SQL)
        for pool in ("p", "q", "free"):
            world.submit_workflow(world.admin_actor(), pool, 2, name=f"waits-{pool}", priority=Priority.LOW)


def test_nothing_is_admitted_there_and_running_work_continues(cycle: None) -> None:
    for _ in range(2):
        reconcile()
        assert total_usage_by_pool() == {"p": 2, "q": 2, "free": 4}
    running = Workflow.objects.filter(status="RUNNING").values_list("name", flat=True)
    assert set(running) == {"runs-p-1", "runs-q-1", "runs-free-1", "waits-free-1"}
    reasons = {entry.workflow: entry.reason for entry in list_waiting_gangs(world.admin_actor(), limit=10)[0]}
    assert {reasons[name].code for name in ("waits-p-1", "waits-q-1")} == {"cycle"}
    assert "form a cycle: " in reasons["waits-q-1"].message


def test_the_cycle_is_a_condition_and_an_audit_entry(cycle: None, admin: ApiClient) -> None:
    assert mark_cycles_now() == ["a", "b", "c"], "a node below a cycle is in no tree either"
    assert mark_cycles_now() == []
    events = AuditEntry.objects.filter(action="cohort.inactive").order_by("object")
    assert [(event.object, event.actor) for event in events] == [
        (f"cohort/{name}", SYSTEM.username) for name in ("a", "b", "c")
    ]
    shown = admin("GET", "/api/configs/cohort/c").body
    assert (shown["active"], shown["condition"]["reason"], shown["version"]) == (False, "Cycle", 1)
    assert shown["inactive_since"] is not None
    assert admin("PUT", "/api/configs/cohort/elsewhere", shown | {"name": "elsewhere", "parent": None}).status == 200
    others = {row["name"]: row["inactive_since"] for row in admin("GET", "/api/configs/cohort").body["cohorts"]}
    assert others["elsewhere"] is None
    find_cohort_cycles.apply().get()
    assert AuditEntry.objects.filter(action__in=["cohort.inactive", "cohort.active"]).count() == 3


def test_the_change_that_ends_the_cycle_removes_the_marks(cycle: None, admin: ApiClient) -> None:
    mark_cycles_now()
    apply_change(PatchCohort(name="a", patch={"parent": None}))
    assert set(Cohort.objects.values_list("inactive_since", flat=True)) == {None}
    assert AuditEntry.objects.filter(action="cohort.active").count() == 3
    reconcile()
    assert total_usage_by_pool() == {"p": 4, "q": 4, "free": 4}
    assert verify() == []


def test_a_cohort_moved_below_a_cycle_is_marked_at_once(cycle: None) -> None:
    apply_change(PutCohort(name="elsewhere", body={"parent": "c"}))
    assert Cohort.objects.get(name="elsewhere").inactive_since is not None
    assert mark_cycles_now() == []


@pytest.mark.parametrize("sql", [SQL, "UPDATE pools_cohort SET parent_id = id WHERE name = 'a'"], ids=["two", "self"])
def test_every_read_of_the_api_answers(cycle: None, admin: ApiClient, sql: str) -> None:
    past_the_triggers(sql)
    nodes = {node["name"]: node for node in admin("GET", "/api/quota_tree").body["nodes"]}
    assert {name: nodes[name]["active"] for name in ("a", "b", "c", "p", "q", "free")} == {
        "a": False, "b": False, "c": False, "p": False, "q": False, "free": True,
    }  # fmt: skip
    assert nodes["q"]["condition"]["reason"] == "Cycle"
    for address, query in (
        ("/api/configs/cohort", {}), ("/api/configs/cohort/a", {}), ("/api/quota_tree", {"root": "b"}),
        ("/api/quota_tree", {"root": "q"}), ("/api/queue", {}), ("/api/configs/pool", {}), ("/api/pool_quota", {}),
        ("/api/workflow/waits-q-1", {}), ("/api/audit", {}),
    ):  # fmt: skip
        assert admin("GET", address, query=query).status == 200, (address, query)
    answer = admin("POST", "/api/simulate", {"live": True, "changes": [{"finish": ["runs-free-1"]}]})
    states = {name: work["state"] for name, work in answer.body["workloads"].items()}
    assert (states["waits-free-1"], states["waits-p-1"], states["waits-q-1"]) == ("running", "pending", "pending")
    page = Client().get("/metrics", headers={"Authorization": "Bearer " + _secret(admin)}).content.decode()
    assert 'osmo_cohort_active{cohort="a"} 0.0' in page
    assert 'osmo_cohort_active{cohort="elsewhere"} 1.0' in page
    assert 'osmo_cohort_subtree_quota{cohort="elsewhere",resource="default/gpu"} 4.0' in page


def _secret(caller: ApiClient) -> str:
    from pools.services.people.access_tokens import create_token

    return create_token(CreateToken(owner=caller.token.owner, name="scrape"), actor=SYSTEM)[1]


WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "/api/configs/cohort/c", {"parent": "b", "quotas": [gpu_quota_row(3)]}),
    ("PATCH", "/api/configs/cohort/c", {"parent": None, "quotas": [gpu_quota_row(1)]}),
    ("PATCH", "/api/configs/pool/q", {"cohort": "elsewhere"}),
    ("PATCH", "/api/configs/pool/free", {"cohort": "a"}),
    ("POST", "/api/configs/pool/p/subpool", {"subpool_name": "x", "quota": 1}),
]


@pytest.mark.parametrize(("method", "address", "body"), WRITES)
def test_every_change_around_it_answers(
    cycle: None, admin: ApiClient, method: str, address: str, body: dict[str, Any]
) -> None:
    tried = admin(method, address, body, query=TRY)
    assert (tried.status, tried.body["violations"]) == (200, [])
    assert admin(method, address, body).status == 200
    reconcile()
    assert total_usage_by_pool()["p"] == 2


def test_a_cohort_on_the_cycle_needs_another_parent_first(cycle: None, admin: ApiClient) -> None:
    refused = admin("PATCH", "/api/configs/cohort/b", {"quotas": [gpu_quota_row(5)]})
    assert (refused.status, refused.codes) == (400, {("parent", "cycle")})


def test_a_cohort_on_the_cycle_can_be_deleted(cycle: None, admin: ApiClient) -> None:
    refused = admin("DELETE", "/api/configs/cohort/b")
    assert (refused.status, {fault["code"] for fault in refused.body["details"]}) == (409, {"has_children"})
    apply_change(DeleteCohort(name="b", orphan=True))
    reconcile()
    assert total_usage_by_pool() == {"p": 4, "q": 4, "free": 4}


def test_every_page_answers_and_shows_it(cycle: None, admin: ApiClient) -> None:
    client = sign_in("root")
    tree = reverse("admin:pools_cohort_changelist")
    for page in (
        tree, f"{tree}?root=b", f"{tree}?root=q", reverse("admin:pools_quota_node", args=["cohort", "a"]),
        reverse("admin:pools_quota_node", args=["pool", "q"]), reverse("admin:pools_quota_node", args=["pool", "free"]),
        reverse("admin:pools_cohort_configure", args=["a"]), reverse("admin:pools_cohort_delete", args=["c"]),
        reverse("admin:index"), reverse("admin:pools_pool_change", args=["p"]),
    ):  # fmt: skip
        assert client.get(page).status_code == 200, page
    assert "form a cycle" in client.get(tree).content.decode()
    assert "form a cycle" in client.get(reverse("admin:pools_quota_node", args=["pool", "q"])).content.decode()
    typed = {"parent": "", "nominal": "1", "borrowing_limit": "", "lending_limit": "", "weight": "1", "others": ""}
    effect = client.post(reverse("admin:pools_cohort_configure", args=["a"]), typed | {"step": "preview"}, follow=True)
    assert "Effect of this change" in effect.content.decode()


def test_engine_queues_and_commands_end(cycle: None, capsys: pytest.CaptureFixture[str]) -> None:
    backend = Backend.objects.get(name="sim")
    assert {cohort.name for cohort in read_live_facts(backend).facts.cohorts} >= {"a", "b", "c"}
    found = [str(difference) for difference in verify()]
    assert [line.split(":")[0] for line in found] == ["circle"] * 3
    call_command("check")
    assert apply_change(PatchPool(name="q", patch={"cohort": None}))
    reconcile()
    assert total_usage_by_pool()["q"] == 4


def test_a_cluster_keeps_its_desired_queues(cycle: None, monkeypatch: Any) -> None:
    """Cohorts on a cycle are not levels of the queues; the pools below them keep their queues."""
    from scheduling.selectors.cluster import desired_queues

    facts, found = desired_queues._read_pools(Backend.objects.get(name="sim"))
    assert {fact.balance.name for fact in facts} == {"p", "q", "free"}
    assert set(found.pools) == {"free"}
    assert [level.name for level in found.cohorts] == ["elsewhere"]


def test_users_of_a_pool_below_the_cycle(cycle: None, caller: Callers) -> None:
    worker = caller("wanda", "osmo-q-user")
    nodes = worker("GET", "/api/quota_tree").body["nodes"]
    assert {node["name"]: node["active"] for node in nodes}["q"] is False
    assert not {"p", "free"} & {node["name"] for node in nodes}
