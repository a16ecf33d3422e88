"""The map of nodes, the page of one node, and `/api/backend/{name}/nodes`."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.test import Client

from pools.domain.changes.backends import PutBackend
from pools.models import Backend, Node
from scheduling.models import NodeState, Task
from scheduling.selectors.cluster.node_map import TaskFit, count_fits
from scheduling.selectors.cluster.node_tiles import HUES, OTHERS, choose_hues
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import apply_change, reconcile


def _map(client: Client, **query: Any) -> dict[str, Any]:
    answer = client.get("/api/backend/sim/nodes", {"limit": 100, **query})
    assert answer.status_code == 200, answer.content.decode()
    body: dict[str, Any] = answer.json()
    return body


def _start(leaf: str, gpus: int, name: str, **options: Any) -> str:
    """Run work of one task; the name of its node."""
    workflow = submit_workflow(leaf, gpus=gpus, name=name, **options)
    reconcile()
    return Task.objects.get(group__workflow=workflow).node_name


def _node_of(body: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [node for node in body["nodes"] if node["name"] == name]
    return dict(found)


@pytest.mark.parametrize(
    ("free", "largest", "fits"),
    [
        ([8, 8, 3], 8, [(1, 19), (2, 9), (4, 4), (8, 2)]),
        ([7, 7], 8, [(1, 14), (2, 6), (4, 2), (8, 0)]),
        ([6], 6, [(1, 6), (2, 3), (4, 1)]),
        ([0], 1, [(1, 0)]),
        ([], 0, []),
    ],
)
def test_each_size_is_counted_on_single_nodes(free: list[int], largest: int, fits: list[tuple[int, int]]) -> None:
    assert count_fits(free, largest) == [TaskFit(*each) for each in fits]


def test_the_map_names_the_work_on_each_node(as_person: SignedIn) -> None:
    node = _start("team--a", 6, "big")
    root = as_person("root")
    body = _map(root)
    assert (body["all_nodes"], body["gpus"], body["used"], body["free"], body["closed"]) == (20, 160, 6, 154, 0)
    assert body["fits"] == [
        {"gpus": 1, "tasks": 154}, {"gpus": 2, "tasks": 77}, {"gpus": 4, "tasks": 38}, {"gpus": 8, "tasks": 19},
    ]  # fmt: skip
    shown = _node_of(body, node)
    (work,) = shown["work"]
    assert work.pop("since")
    assert work == {
        "workflow": "big-1", "pool": "team--a", "user": "worker", "priority": "NORMAL", "gpus": 6, "tasks": 1,
    }  # fmt: skip
    assert (shown["used"], shown["unseen"], shown["free"]) == (6, 0, 2)
    page = root.get("/nodes").content.decode()
    assert f'title="{node}: 2 of 8 GPUs free: big-1 × 6"' in page


def test_work_of_other_pools_is_a_number_without_a_name(as_person: SignedIn) -> None:
    node = _start("other--x", 4, "secret", username="stranger")
    worker = as_person("worker")
    shown = _node_of(_map(worker), node)
    assert (shown["used"], shown["unseen"], shown["free"], shown["work"]) == (4, 4, 4, [])
    for address in ("/nodes", f"/nodes/sim/{node}"):
        page = worker.get(address).content.decode()
        assert "secret" not in page
        assert page.count('<i class="oa-part--unseen"></i>') == 4, "cells of the node, and no name"
    for colour in ("pool", "user", "priority"):
        answer = worker.get("/nodes", {"colour": colour})
        page = answer.content.decode()
        assert "4 of other pools" in page
        assert "stranger" not in page, colour
        assert [shade.name for shade in answer.context["drawn"].legend] == ["unseen", "free"], colour
    assert _node_of(_map(as_person("stranger")), node)["work"][0]["workflow"] == "secret-1"


def test_nodes_are_those_of_the_readers_pools(as_person: SignedIn) -> None:
    nodes = [{"name": "x1", "gpus": 4, "platform": "special"}]
    apply_change(PutBackend(name="hidden", body={"namespace": "hidden", "nodes": nodes}))
    Node.objects.create(backend=Backend.objects.get(name="sim"), name="x2", gpus=4, platform="special")
    for name, expected in (("root", 21), ("viewer", 21), ("worker", 20)):
        assert _map(as_person(name))["all_nodes"] == expected
    worker, nobody = as_person("worker"), as_person("nobody")
    for address in ("/api/backend/hidden/nodes", "/nodes?backend=hidden", "/nodes/sim/x2"):
        assert worker.get(address).status_code == 404, address
    assert as_person("root").get("/nodes/sim/x2").status_code == 200
    assert nobody.get("/api/backend/sim/nodes").status_code == 404
    assert "No nodes that you may see" in nobody.get("/nodes").content.decode()


def test_a_node_that_takes_no_work_has_nothing_free(as_person: SignedIn) -> None:
    node = Node.objects.get(name="n3")
    NodeState.objects.create(node=node, ready=False, other_gpus=2, conditions=["Ready=False"])
    root = as_person("root")
    body = _map(root)
    shown = _node_of(body, "n3")
    assert (shown["ready"], shown["other"], shown["free"], shown["closed"]) == (False, 2, 0, 6)
    assert (body["free"], body["other"], body["closed"]) == (152, 2, 6)
    page = root.get("/nodes/sim/n3").content.decode()
    assert "not ready" in page
    assert "Ready=False" in page


def test_a_tile_has_a_cell_for_each_gpu_in_the_colour_of_its_work(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=5, name="train-3", priority="HIGH")
    submit_workflow("team--b", gpus=8, name="batch", priority="LOW")
    node = _start("other--x", 2, "other", username="stranger")
    root = as_person("root")
    drawn = root.get("/nodes?colour=priority&name=n").context["drawn"]
    assert [(shade.name, shade.gpus) for shade in drawn.legend] == [
        ("high", 5), ("inside", 2), ("low", 8), ("free", 145),
    ]  # fmt: skip
    answer = root.get("/nodes")
    drawn = answer.context["drawn"]
    assert {shade.label: shade.gpus for shade in drawn.legend} == {"other": 2, "team": 13, "free": 145}
    (tile,) = [tile for tile in drawn.tiles if tile.node.usage.name == node]
    assert sum(gpus for _, gpus in tile.cells) == 8
    assert answer.content.decode().count("<i class=") == 160 + len(drawn.legend)
    assert "colour=user" in answer.content.decode()
    assert root.get("/nodes?colour=nothing").context["drawn"].colour_by == "pool"


def test_the_smaller_names_share_one_colour_and_the_others_keep_theirs() -> None:
    gpus = {f"pool{number}": 100 - number for number in range(HUES + 3)}
    hues = choose_hues(gpus)
    assert sorted(hues.values()) == [OTHERS] * 3 + [f"hue-{number + 1}" for number in range(HUES)]
    assert choose_hues({**gpus, "small": 1}) == {**hues, "small": OTHERS}


def test_a_thousand_nodes_are_one_page(as_person: SignedIn) -> None:
    backend = Backend.objects.get(name="sim")
    Node.objects.bulk_create(Node(backend=backend, name=f"more{number:04}", gpus=8) for number in range(980))
    page = as_person("root").get("/nodes").content
    assert page.count(b"/nodes/sim") == 1000
    assert len(page) < 500_000
    assert len(gzip.compress(page)) < 40_000


def test_filters_and_pages(as_person: SignedIn) -> None:
    full = _start("team--a", 8, "full")
    root = as_person("root")
    assert _map(root, free=8)["total"] == 19
    assert full not in [node["name"] for node in _map(root, free=8)["nodes"]]
    assert [node["name"] for node in _map(root, name="n1", limit=2, offset=1)["nodes"]] == ["n10", "n11"]
    assert root.get("/api/backend/sim/nodes?free=many").status_code == 400
    assert root.get("/nodes?free=many&page=x&name=n19").context["map"].total == 1
    assert root.get("/nodes?free=８").context["map"].total == _map(root)["total"]
    assert "No node matches" in root.get("/nodes?name=nothing").content.decode()


def test_the_page_of_a_node_lists_its_work_and_pools(as_person: SignedIn) -> None:
    node = _start("team--b", 3, "job", priority="LOW")
    answer = as_person("worker").get(f"/nodes/sim/{node}")
    page = answer.content.decode()
    assert [(work.workflow, work.gpus, work.priority) for work in answer.context["node"].work] == [("job-1", 3, "LOW")]
    assert answer.context["pools"] == ["team"]
    assert "5 of 8 GPUs free" in page
    assert as_person("worker").get("/nodes/sim/nowhere").status_code == 404


def test_a_node_that_shrinks_below_its_work_is_said_by_every_interface(as_person: SignedIn) -> None:
    """Nothing is below 0, and the excess of one node is not taken from the free GPUs of another."""
    apply_change(PutBackend(name="sim", body={"nodes": [{"name": name, "gpus": 8} for name in ("na", "nb")]}))
    _start("team--a", 8, "big")
    taken = Task.objects.get(group__workflow__name="big-1").node_name
    nodes = [{"name": name, "gpus": 7 if name == taken else 8} for name in ("na", "nb")]
    held = f"Running work holds more than the node has: {taken} (8 of 7 GPUs)."
    promised = "Cluster sim has 15 GPUs, and the quotas of its pools are 160 together, 145 more"
    root = as_person("root")
    dry = root.put("/api/configs/backend/sim?dry_run=true", {"nodes": nodes}, content_type="application/json").json()
    body = root.put("/api/configs/backend/sim", {"nodes": nodes}, content_type="application/json").json()
    for warnings in (dry["warnings"], body["warnings"]):
        assert [held in text for text in warnings] == [True, False], warnings
        assert promised in warnings[1]
    shown = _map(root)
    assert (shown["gpus"], shown["used"], shown["free"], shown["closed"]) == (15, 8, 8, 0)
    assert _node_of(shown, taken)["notes"] == ["running work holds more than the node has: 8 of 7 GPUs"]
    assert _node_of(shown, taken)["free"] == 0
    resources = root.get("/api/resources").json()["resources"]
    available = {
        each["hostname"]: {amounts["default"]["gpu"] for amounts in each["platform_available_fields"].values()}
        for each in resources
    }
    assert available == {taken: {"0"}, "nb" if taken == "na" else "na": {"8"}}

    def sums() -> set[tuple[str, str]]:
        rows = [row for nodes in root.get("/api/pool_quota").json()["node_sets"] for row in nodes["pools"]]
        return {(row["resource_usage"]["total_capacity"], row["resource_usage"]["total_free"]) for row in rows}

    assert sums() == {("15", "8")}
    apply_change(PutBackend(name="sim", body={"nodes": [{"name": "nc", "gpus": 8}]}))
    assert sums() == {("8", "8")}
