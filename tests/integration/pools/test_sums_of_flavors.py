"""The numbers of a pool with flavors that are sums equal the sums over its flavors, in every answer, table and file."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.configuration.flavors import SHARED_GPUS, SHARED_GPUS_WHOLE
from pools.models import FlavorUsage, LeafUsage, Pool
from pools.selectors.quotas.pool_balance import read_balance
from scheduling.configuration.texts import file_texts
from scheduling.domain.priorities import Priority
from scheduling.selectors.cluster.configuration import read_export
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.flavors import add_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db
QUOTAS = {"h100": 16, "t4": 12, "l40": 4}
OF_A = {"h100": 8, "t4": 6, "l40": 1}


@pytest.fixture
def root(admin: ApiClient) -> ApiClient:
    """16 H100, 32 parts of T4 and no L40; work of three kinds runs and waits in the pool and its subpool."""
    labels = {"h100": {"gpu": "h100"}, "t4": {"gpu": "t4", SHARED_GPUS: SHARED_GPUS_WHOLE}, "l40": {"gpu": "l40"}}
    nodes = [
        {"name": name, "gpus": gpus, "labels": labels[of]} for name, gpus, of in (("h", 16, "h100"), ("t", 32, "t4"))
    ]
    flavors = [{"name": name, "node_labels": of_node} for name, of_node in labels.items()]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes, "flavors": flavors}))
    add_flavored_pool("team", QUOTAS, OF_A)
    maxima = {name: {"guarantee": gpus, "maximum": gpus + 2} for name, gpus in QUOTAS.items()}
    world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": maxima}, "cohort": "all"}))
    for gpus, flavor, leaf, priority in (
        (5, "h100", "team--a", "NORMAL"), (3, "h100", "team", "LOW"), (4, "t4", "team--a", "HIGH"),
        (1, "l40", "team--a", "NORMAL"), (7, "t4", "team", "LOW"), (6, "t4", "team--a", "NORMAL"),
        (14, "h100", "team", "LOW"),
    ):  # fmt: skip
        submit_gpus(admin.actor, gpus, flavor, to=leaf, priority=Priority(priority))
        world.reconcile()
    return admin


def _added(rows: list[Mapping[str, Any]], key: str) -> int:
    return sum(row[key] for row in rows)


def test_the_counters(root: ApiClient) -> None:
    for leaf in LeafUsage.objects.filter(pool__name__in=["team", "team--a"]):
        rows = list(FlavorUsage.objects.filter(pool=leaf.pool_id).values("used", "total_usage"))
        assert (leaf.used, leaf.total_usage) == (_added(rows, "used"), _added(rows, "total_usage"))
    assert LeafUsage.objects.get(pool__name="team--a").used == 9


@pytest.mark.parametrize("is_draining", [False, True])
def test_the_pool_its_subpools_and_the_shared_part(root: ApiClient, *, is_draining: bool) -> None:
    if is_draining:
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    tree = root.get("/api/configs/pool/team/subpool")
    [part] = tree["subpools"]
    assert root.get("/api/configs/pool/team/subpool/a")["flavors"] == part["flavors"]
    for body in (tree["shared"], part, tree):
        for key in ("quota", "scheduling_quota"):
            assert body[key] == _added(body["flavors"], key), key
    for body in (tree["shared"], part):
        for key in ("used", "total_usage", "available"):
            assert body[key] == _added(body["flavors"], key), key
    own = dict.fromkeys(OF_A, 0) if is_draining else OF_A
    assert (tree["quota"], part["quotas"], part["last_quotas"]) == (sum(QUOTAS.values()), own, OF_A)
    assert root.get("/api/configs/subpool_quotas")["quotas"] == ({} if is_draining else {"team--a": OF_A})
    balance = read_balance(Pool.objects.get(name="team"))  # the queues of a cluster have these
    assert [balance.scheduling_quota, balance.shared_scheduling_quota, balance.subpools[0].scheduling_quota] == [
        body["scheduling_quota"] for body in (tree, tree["shared"], part)
    ]
    config = root.get("/api/configs/pool/team")["resources"]
    assert config["gpu"]["guarantee"] == _added(list(config["flavors"].values()), "guarantee")
    assert config["gpu"]["maximum"] == _added(list(config["flavors"].values()), "maximum")


def test_the_wire_format_of_osmo(root: ApiClient) -> None:
    [node_set] = root.get("/api/pool_quota", pools=["team", "team--a"])["node_sets"]
    rows = {row["name"]: {key: int(value) for key, value in row["resource_usage"].items()} for row in node_set["pools"]}
    tree = root.get("/api/configs/pool/team/subpool")
    for name, body in (("team", tree["shared"]), ("team--a", tree["subpools"][0])):
        assert rows[name]["quota_used"] == _added(body["flavors"], "used"), name
        assert rows[name]["quota_limit"] == _added(body["flavors"], "quota"), name
        assert rows[name]["total_usage"] == _added(body["flavors"], "total_usage"), name
        assert rows[name]["quota_free"] == rows[name]["quota_limit"] - rows[name]["quota_used"], name
    assert node_set["pools"][0]["resource_usage"]["total_capacity"] == "48", "the GPUs and parts of its nodes"


def test_the_quota_tree(root: ApiClient) -> None:
    for node in root.get("/api/quota_tree")["nodes"]:
        rows = {row["flavor"]: row for row in node["quotas"] if row["resource"] == "gpu"}
        whole = rows.pop("default")
        for key in ("quota", "total_usage", "usage", "subtree_quota", "pending", "debt", "can_start_now"):
            assert whole[key] == _added(list(rows.values()), key), (node["name"], key)


def test_the_tables_the_metrics_and_the_file(root: ApiClient) -> None:
    text = world.sign_in(root.user).get("/pools?format=csv").getvalue().decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    tree = root.get("/api/configs/pool/team/subpool")
    for kind, body in (("shared", tree["shared"]), ("subpool", tree["subpools"][0])):
        [row] = [row for row in rows if row["kind"] == kind]
        columns = {
            "quota": "quota", "total_in_use": "total_usage", "guaranteed_in_use": "used",
            "guaranteed_free": "available",
        }  # fmt: skip
        assert {each: int(row[each]) for each in columns} == {
            each: _added(body["flavors"], key) for each, key in columns.items()
        }, kind
    [row] = [row for row in rows if row["kind"] == "pool"]
    assert int(row["quota"]) == sum(QUOTAS.values())
    assert int(row["total_in_use"]) == _added(tree["flavors"], "total_usage")
    found: dict[tuple[str, str], int] = defaultdict(int)
    for name, labels, value in re.findall(
        r"^(osmo_leaf_\w+)\{(.*)\} (\S+)$", root("GET", "/metrics").text, re.MULTILINE
    ):
        if 'pool="team"' in labels:
            found[name, re.search(r'leaf="([^"]*)"', labels)[1]] += int(float(value))  # type: ignore[index]
    assert found["osmo_leaf_quota_gpus", "a"] == sum(OF_A.values())
    assert found["osmo_leaf_used_gpus", "a"] == LeafUsage.objects.get(pool__name="team--a").used
    files = {name: yaml.safe_load(text) for name, text in file_texts(read_export().objects).items()}
    [pool] = [file["pools"]["team"] for file in files.values() if "team" in (file.get("pools") or {})]
    assert {flavor: of["guarantee"] for flavor, of in pool["resources"]["flavors"].items()} == QUOTAS
    assert pool["subpools"] == {"a": OF_A}
    assert Pool.objects.get(name="team").guarantee == sum(QUOTAS.values())


def test_the_page_of_a_pool_without_a_cohort_has_its_sums(root: ApiClient) -> None:
    world.apply_change(PatchPool(name="team", patch={"cohort": None}))
    page = world.sign_in(root.user).get("/pools/team/quota")
    assert page.status_code == 200
    assert page.context["page"].row.totals.quota == sum(QUOTAS.values())
    assert [key for key, _ in page.context["page"].by_flavor] == [f"{flavor}/gpu" for flavor in QUOTAS]
