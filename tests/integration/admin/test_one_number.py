"""One label is one number: total in use adds up from the leaves to the top of the quota tree, a bar is the same on
every page, and pages, files and the client call a number by the same name."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from django.test import Client

from osmo_admin.cli.commands import subpool
from osmo_admin.cli.text import quota_tree_table
from osmo_admin.cli.text.pool_table import pool_table
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.numbers import POOL_NUMBERS, TREE_NUMBERS
from pools.domain.quota.usage_bar import BAR_PARTS
from pools.domain.values.amounts import NO_LIMIT
from tests.integration.admin.conftest import submit_workflow
from tests.support.world import ModuleData, apply_change, make_pool, reconcile, sign_in

pytestmark = pytest.mark.django_db

QUEUE = "/queue/other"


@pytest.fixture(scope="module")
def root(pools_and_users_once: None, module_data: ModuleData) -> Client:
    """`team` and `other` in a cohort that may lend little, with work of all kinds; the platform admin's browser."""
    with module_data():
        apply_change(PutCohort(name="org", body={"quotas": []}))
        apply_change(PatchPool(name="team", patch={"cohort": "org", "lending_limit": 5}))
        apply_change(PatchPool(name="team-admin", patch={"cohort": "org"}))
        apply_change(PatchPool(name="other", patch={"cohort": "org", "lending_limit": 10}))
        submit_workflow("team--a", gpus=8)
        submit_workflow("other--x", gpus=4, username="root", name="normal")
        submit_workflow("other--x", gpus=8, username="root", priority="LOW", name="low")
        submit_workflow("other--x", gpus=1, username="root", priority="LOW", name="low-1")
        reconcile()
        return sign_in("root")


def _nodes(root: Client) -> dict[tuple[str, str], dict[str, Any]]:
    nodes = root.get("/api/quota_tree").json()["nodes"]
    return {(node["kind"], node["name"]): node["quotas"][0] for node in nodes}


def test_total_in_use_and_quota_are_those_of_everything_below(root: Client) -> None:
    nodes = _nodes(root)
    for key in ("total_usage", "quota"):
        leaves = sum(row[key] for (kind, _), row in nodes.items() if kind in {"shared", "subpool"})
        pools = sum(row[key] for (kind, _), row in nodes.items() if kind == "pool")
        assert nodes["cohort", "org"][key] == pools == leaves
    top = nodes["cohort", "org"]
    assert top["total_usage"] == 21
    assert top["usage"] < 21, "counted use has another name, and is another number"


def _bars(text: str) -> dict[str, str]:
    """The text of the first bar with each label."""
    found = re.findall(r'class="oa-usage" role="group" aria-label="([^"]+)" title="([^"]+)"', text)
    return dict(reversed(found))


def test_a_subpool_has_the_same_bar_on_every_page(root: Client) -> None:
    pages = ("/pools/other", "/pools", "/cohorts", QUEUE)
    bars = [_bars(root.get(page).content.decode())["other--x"] for page in pages]
    assert set(bars) == {"4 guaranteed, 6 LOW inside, 3 over quota"}
    parts = _nodes(root)["subpool", "other--x"]["bar"]
    api = root.get("/api/configs/pool/other/subpool?start_room=true").json()["subpools"][0]["bar"]
    assert parts == api == {"guaranteed": 4, "low_inside": 6, "over_quota": 3, "draining": 0, "lent": 0, "free": 0}


def test_the_parts_of_a_bar_are_the_numbers_beside_it(root: Client) -> None:
    for row in _nodes(root).values():
        bar = row["bar"]
        assert sum(bar.values()) - bar["lent"] - bar["free"] == row["total_usage"]
        assert sum(bar.values()) == max(row["quota"], row["total_usage"])
        assert bar["lent"] == row["lent"]


@pytest.mark.parametrize("page", ["/pools/other", "/pools", "/cohorts", QUEUE])
def test_the_legend_names_the_same_parts_on_every_page(root: Client, page: str) -> None:
    text = root.get(page).content.decode()
    legend = re.search(r'aria-label="Legend of the bars">(.*?)</ul>', text, re.DOTALL)
    assert legend
    assert re.findall(r"</i>([^<]*)</li>", legend[1]) == [part.legend for part in BAR_PARTS]


def _totals(client: Client) -> str:
    text = client.get("/pools").content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text[text.index("oa-sumline") :][:1500]))


def test_the_totals_of_pools_add_up(root: Client) -> None:
    words = _totals(root)
    assert "Quota (GPUs) 160 Total in use 21 Unused quota 139" in words
    submit_workflow("team-admin", gpus=8, username="root", priority="LOW", name="beyond")
    submit_workflow("team-admin", gpus=6, username="root", priority="LOW", name="beyond-1")
    reconcile()
    words = _totals(root)
    assert "Quota (GPUs) 160 Total in use 35 (31 in quotas of pools + 4 over them) Unused quota 129" in words
    assert "Over quota (preemptible) 7 (of each subpool)" in words


def test_the_tree_has_a_file_with_the_numbers_and_names_of_the_page(root: Client) -> None:
    """The part that all share has one name on all pages and in the files; its canonical name stays in addresses."""
    rows = list(csv.DictReader(io.StringIO(root.get("/cohorts?format=csv").content.decode())))
    nodes = {
        name.replace("other--_shared", "Pool remainder (shared) of other"): row
        for (_, name), row in _nodes(root).items()
    }
    assert {"org", "other", "other--x", "Pool remainder (shared) of other"} <= {row["node"] for row in rows}
    assert {row["node"]: row["parent"] for row in rows}["other--x"] == "other"
    for row in rows:
        if (node := nodes.get(row["node"])) is not None:
            for column, key in (("quota", "quota"), ("total_in_use", "total_usage"), ("lent_out", "lent")):
                assert float(row[column]) == node[key], (row["node"], column)
    one = root.get("/cohorts?format=csv&q=other--x").content.decode().splitlines()
    assert [line.split(",")[0] for line in one] == ["node", "org", "other", "other--x"]
    for page in ("/cohorts", "/cohorts?root=org", QUEUE, "/pools/other"):
        assert ">Pool remainder (shared)<" in root.get(page).content.decode(), page
    for page in ("/cohorts", "/pools/other--_shared/quota", "/pools/other/quota"):
        words = re.sub(r"<[^>]+>", " ", root.get(page).content.decode())
        assert "_shared" not in words and "Pool remainder (shared)" in words, page


def test_a_file_of_the_client_has_the_numbers_of_the_file_of_the_page(root: Client) -> None:
    make_pool("endless", NO_LIMIT)
    submit_workflow("other", gpus=3, username="root", name="of-the-remainder")
    reconcile()
    page = list(csv.DictReader(io.StringIO(root.get("/pools?format=csv").content.decode())))
    client = list(csv.DictReader(io.StringIO(pool_table(root.get("/api/pool_quota").json()).csv())))
    names = ("quota", "guaranteed_in_use", "guaranteed_free")

    def numbers(row: dict[str, str], end: str = "") -> list[str]:
        return [row[f"{name}{end}"] for name in names]

    shown = {(row["pool"], row["subpool"] or row["kind"]): numbers(row) for row in page}
    assert len({tuple(numbers(row)) for row in client}) > 2
    for row in client:
        pool, _, part = row["pool"].partition("--")
        assert numbers(row) == shown[pool, part or "pool"], row
        assert numbers(row, "_own") == shown.get((pool, part or "shared"), shown[pool, part or "pool"]), row
    for each in ("other", "endless"):
        answer = root.get(f"/api/configs/pool/{each}/subpool?start_room=true").json()
        for row in csv.DictReader(io.StringIO(subpool.subpools_table(answer).csv())):
            pool, _, part = row["pool"].partition("--")
            assert numbers(row) == shown[pool, {"": "pool", "_shared": "shared"}.get(part, part)]


def _heads(text: str, table: str) -> list[str]:
    head = re.search(rf"{table}.*?<thead>(.*?)</thead>", text, re.DOTALL)
    assert head
    return [re.sub(r"<[^>]+>", "", each).strip() for each in re.findall(r"<th[^>]*>(.*?)</th>", head[1], re.DOTALL)]


def test_pages_files_and_the_client_call_a_number_by_the_same_name(root: Client) -> None:
    of_pools = [POOL_NUMBERS[key].label for key in ("quota", "used", "available", "can_start_now", "total_usage")]
    pages = [
        _heads(root.get(page).content.decode(), table)
        for page, table in (("/pools", "oa-pools"), ("/pools/other", "oa-pools"))
    ]
    assert [set(of_pools) - set(heads) for heads in pages] == [set(), set()]
    rows = list(csv.reader(io.StringIO(root.get("/pools?format=csv").content.decode())))
    named = {label.lower().replace(" ", "_") for label in (*of_pools, POOL_NUMBERS["low_can_start_now"].label)}
    assert named <= set(rows[0])
    answer = root.get("/api/configs/pool/other/subpool?start_room=true").json()
    assert {*of_pools, POOL_NUMBERS["low_can_start_now"].label} <= set(subpool.subpools_table(answer).header)
    of_tree = {
        TREE_NUMBERS[key].label
        for key in ("quota", "total_usage", "can_start_now", "low_can_start_now", "borrowed", "lent")
    }
    assert of_tree <= set(_heads(root.get("/cohorts").content.decode(), "oa-quota"))
    assert of_tree <= set(quota_tree_table.HEADER)
    shared = set(POOL_NUMBERS) & set(TREE_NUMBERS) - {"available"}
    assert {key: POOL_NUMBERS[key] for key in shared} == {key: TREE_NUMBERS[key] for key in shared}
