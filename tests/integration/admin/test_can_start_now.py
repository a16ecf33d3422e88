"""Guaranteed free and Can start now: one number each, the same on Pools, on the page of a pool, and in the tree."""

from __future__ import annotations

from typing import Any

from django.test import Client

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool
from pools.models import Backend
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import apply_change, reconcile


def _tree(client: Client) -> dict[tuple[str, str], Any]:
    nodes = client.get("/api/quota_tree").json()["nodes"]
    return {
        (node["kind"], node["name"]): tuple(node["quotas"][0][key] for key in ("can_start_now", "low_can_start_now"))
        for node in nodes
        if node["kind"] != "cohort"
    }


def _rows(client: Client, address: str) -> dict[tuple[str, str], Any]:
    context = client.get(address).context
    trees = context["pool_page"].trees if "pool_page" in context else [context["tree"]]
    return {
        (row.kind, f"{row.name}--_shared" if row.kind == "shared" else row.name): (
            row.can_start_now,
            row.low_can_start_now,
        )
        for tree in trees
        for row in (tree.head, *tree.leaves)
    }


def _starts(part: dict[str, Any]) -> tuple[int, int]:
    return part["can_start_now"], part["low_can_start_now"]


def test_the_same_number_on_pools_pool_and_tree(as_person: SignedIn) -> None:
    apply_change(PutCohort(name="org", body={"quotas": [{"flavor": "default", "resource": "gpu", "nominal": 7}]}))
    apply_change(PatchPool(name="team", patch={"cohort": "org", "lending_limit": 5}))
    apply_change(PatchPool(name="other", patch={"cohort": "org", "borrowing_limit": 9}))
    submit_workflow("team--a", gpus=8)
    submit_workflow("other--x", gpus=8, username="root", name="leaving")
    submit_workflow("other", gpus=6, username="root", priority="LOW", name="low")
    reconcile()
    apply_change(DeleteSubpool(parent="other", subpool_name="x"))
    root = as_person("root")
    tree = _tree(root)
    assert _rows(root, "/pools") == tree
    page = _rows(root, "/pools/other")
    assert page == {key: value for key, value in tree.items() if key in page}
    api = root.get("/api/configs/pool/other/subpool?start_room=true").json()
    parts = {("subpool", part["name"]): _starts(part) for part in api["subpools"]}
    parts |= {("pool", "other"): _starts(api), ("shared", "other--_shared"): _starts(api["shared"])}
    assert parts == page, "every number on a page is a REST answer too"
    assert len(set(tree.values())) >= 3, "the numbers must differ for this test to mean anything"


def test_a_team_that_has_used_up_its_quota_can_start_nothing_but_low_work(as_person: SignedIn) -> None:
    submit_workflow("other--x", gpus=8, username="root")
    submit_workflow("other--x", gpus=2, username="root", name="more")
    reconcile()
    rows = _rows(as_person("root"), "/pools/other")
    assert rows["subpool", "other--x"] == (0, 40), "the rest of the pool is not for NORMAL work of x"
    assert rows["shared", "other--_shared"] == (40, 40)
    assert rows["pool", "other"] == (40, 40)


def test_what_low_work_of_others_holds_cannot_start_now(as_person: SignedIn) -> None:
    apply_change(PatchPool(name="other", patch={"resources": {"gpu": {"maximum": 50}}}))
    for number in range(6):
        submit_workflow("other", gpus=8, username="root", priority="LOW", name=f"low{number}")
    reconcile()
    rows = _rows(as_person("root"), "/pools/other")
    assert rows["subpool", "other--x"] == (2, 2), "8 of its 10 guaranteed GPUs are lent out, and have to be taken back"


def test_nothing_new_starts_in_a_subpool_that_drains(as_person: SignedIn) -> None:
    submit_workflow("other--x", gpus=8, username="root", name="leaving")
    reconcile()
    before = _rows(as_person("root"), "/pools/other")
    assert before["subpool", "other--x"] == (2, 42)
    apply_change(DeleteSubpool(parent="other", subpool_name="x"))
    rows = _rows(as_person("root"), "/pools/other")
    assert rows["subpool", "other--x"] == (0, 0), "admission refuses all new work there"
    assert rows["shared", "other--_shared"] == rows["pool", "other"] == (42, 42)
    assert "42 until the drain ends" in as_person("root").get("/pools/other").content.decode()
    assert "no new work starts here" in as_person("root").get("/pools/other--x/quota").content.decode()


def test_nothing_new_starts_in_a_closed_pool(as_person: SignedIn) -> None:
    root = as_person("root")
    for is_offline in (True, False):
        Backend.objects.update(offline=is_offline)
        apply_change(PatchPool(name="other", patch={"enable_maintenance": not is_offline}))
        rows, tree = _rows(root, "/pools/other"), _tree(root)
        assert set(rows.values()) == {(0, 0)}
        assert {key: tree[key] for key in rows} == rows
