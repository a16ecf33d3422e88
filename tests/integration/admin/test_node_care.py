"""Suspect nodes and drains: how they come about, who is told, and who may end them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.changes.backends import PutBackend
from pools.models import AuditEntry, Backend, Node
from scheduling.domain.changes.nodes import ClearNode, DrainNode, RestoreNode
from scheduling.models import NodeState, SuspectNode, Task
from scheduling.selectors.status.overview import read_overview
from scheduling.services.node_care import clear_node, drain_node, find_suspect_nodes, restore_node
from tests.support import world
from tests.support.threads import run_concurrently
from tests.support.world import ModuleData

NODES = "/api/backend/sim/nodes"


@pytest.fixture(scope="module")
def cluster_once(module_data: ModuleData) -> Backend:
    with module_data():
        backend = world.make_backend("sim", namespace="ns", nodes=1, gpus=8)
        world.make_pool("team", 8, on=backend)
        world.make_user("root", "osmo-admin")
        return backend


@pytest.fixture
def cluster(cluster_once: Backend, db: None) -> Backend:
    """Pool `team` on one node of 8 GPUs; root is an osmo-admin."""
    return cluster_once


def fail(caller: Any, *names: str, person: str = "ann") -> None:
    """Workflows that run on the only node, and fail."""
    client, root = caller(person, "osmo-team-user"), caller("root")
    for name in names:
        client.submit("team", world.workflow_file(name))
        world.reconcile()
        root.post(f"/api/workflow/{name}-1/end", {"status": "FAILED"})
        assert root.status == 200


def node_metrics() -> dict[str, dict[str, float]]:
    """The values by node of the metrics of nodes."""
    return {
        family.name: {sample.labels["node"]: sample.value for sample in family.samples}
        for family in _collect_capacity()
        if "node" in family.name
    }


def test_three_failures_of_different_work_make_a_node_suspect(cluster: Backend, caller: Any) -> None:
    fail(caller, "a", "b")
    assert find_suspect_nodes() == 0
    fail(caller, "c")
    assert find_suspect_nodes() == 1
    assert find_suspect_nodes() == 0, "it is marked once"
    (node,) = caller("root").get(NODES)["nodes"]
    assert node["suspect_since"] is not None
    assert node["notes"] == ["suspect: 3 different workflows failed here within minutes"]
    (problem,) = [each for each in read_overview(world.admin_actor()).problems if each.code == "suspect_node"]
    assert (problem.subject, problem.is_urgent) == ("node/sim/sim-n1", True)
    ann = world.make_user("anna", "osmo-team-user")
    assert not [each for each in read_overview(ann).problems if each.code == "suspect_node"]
    assert node_metrics() == {"osmo_node_suspect": {"sim-n1": 1}, "osmo_node_excess_gpus": {}}
    entry = AuditEntry.objects.get(action="node.suspected")
    assert (entry.object, entry.actor) == ("suspicion/sim-n1", "system")


def test_a_person_ends_it_and_only_new_failures_count(cluster: Backend, caller: Any) -> None:
    fail(caller, "a", "b", "c")
    find_suspect_nodes()
    root = caller("root")
    preview = root.post(f"{NODES}/sim-n1/clear?dry_run=true", {})
    assert (root.status, SuspectNode.objects.open().count()) == (200, 1), preview
    assert root.post(f"{NODES}/sim-n1/clear", {"description": "a cable"})["suspect"] is False
    assert AuditEntry.objects.get(action="node.cleared").description == "a cable"
    assert find_suspect_nodes() == 0
    fail(caller, "d", "e")
    assert find_suspect_nodes() == 0, "with two of the old ones these would be three"
    fail(caller, "f")
    assert find_suspect_nodes() == 1, "three after it bring the suspicion back"


def test_a_done_drain_ends_it(cluster: Backend, caller: Any) -> None:
    fail(caller, "a", "b", "c")
    find_suspect_nodes()
    caller("ann", "osmo-team-user").submit("team", world.workflow_file("runs", 2))
    world.reconcile()
    root = caller("root")
    assert root.post(f"{NODES}/sim-n1/drain", {})["drained"] is True
    find_suspect_nodes()
    assert SuspectNode.objects.open().exists(), "its work has not ended"
    root.post("/api/workflow/runs-1/end", {"status": "COMPLETED"})
    find_suspect_nodes()
    assert not SuspectNode.objects.open().exists()
    assert find_suspect_nodes() == 0


def test_a_drained_node_takes_no_work_until_it_is_restored(cluster: Backend, caller: Any) -> None:
    root, ann = caller("root"), caller("ann", "osmo-team-user")
    for _ in range(2):
        assert root.post(f"{NODES}/sim-n1/drain", {}) == {
            "backend": "sim", "node": "sim-n1", "drained": True, "suspect": False,
        }  # fmt: skip
    ann.submit("team", world.workflow_file("w", 2))
    world.reconcile()
    assert not Task.objects.filter(status="RUNNING").exists()
    (node,) = root.get(NODES)["nodes"]
    assert (node["ready"], node["free"]) == (False, 0)
    world.apply_change(PutBackend(name="sim", body={"nodes": [{"name": "sim-n1", "gpus": 8}]}))
    assert Node.objects.get().taint, "a new size ends no drain"
    assert root.post(f"{NODES}/sim-n1/restore", {})["drained"] is False
    world.reconcile()
    assert Task.objects.filter(status="RUNNING").exists()
    assert not NodeState.objects.exists()


def test_only_the_platform_cares_for_nodes_on_the_page(cluster: Backend, caller: Any) -> None:
    """Over REST: tests/integration/identity/test_authorisation.py."""
    SuspectNode.objects.create(node=Node.objects.get(), failures=3, since="2026-01-01T00:00:00Z")
    for role in ("osmo-team-admin", "osmo-team-user", "osmo-viewer"):
        world.make_user(role, role)
        page: Client = world.sign_in(role)
        for action in ("drain", "restore", "clear"):
            page.post("/nodes/sim/sim-n1", {"do": action})
            assert (Node.objects.get().taint, SuspectNode.objects.open().count()) == ("", 1), (role, action)
    for action in ("drain", "restore", "clear"):
        assert caller("root")("POST", f"{NODES}/gone/{action}", {}).status == 404, action


def test_a_cluster_is_drained_with_its_own_tools(cluster: Backend, caller: Any) -> None:
    Backend.objects.update(kind="kubernetes")
    root = caller("root")
    refused = root.post(f"{NODES}/sim-n1/drain", {})
    assert (root.status, refused["message"].endswith("kubectl drain sim-n1")) == (409, True)
    SuspectNode.objects.create(node=Node.objects.get(), failures=3, since="2026-01-01T00:00:00Z")
    assert root.post(f"{NODES}/sim-n1/clear", {})["suspect"] is False


def test_the_page_has_the_buttons(cluster: Backend, caller: Any) -> None:
    fail(caller, "a", "b", "c")
    find_suspect_nodes()
    root = world.sign_in("root")
    text = root.get("/nodes/sim/sim-n1").content.decode()
    assert "suspect" in text and "It is in order" in text and ">Drain<" in text
    assert root.post("/nodes/sim/sim-n1", {"do": "drain"}).status_code == 302
    assert "Take work again" in root.get("/nodes/sim/sim-n1").content.decode()
    root.post("/nodes/sim/sim-n1", {"do": "restore"})
    root.post("/nodes/sim/sim-n1", {"do": "clear"})
    text = root.get("/nodes/sim/sim-n1").content.decode()
    assert "It is in order" not in text
    assert ">Drain<" in text


def test_eight_are_held_on_seven(cluster: Backend, caller: Any) -> None:
    """A node that shrinks below its use has nothing free, and its work stays."""
    caller("ann", "osmo-team-user").submit("team", world.workflow_file("w", 8))
    world.reconcile()
    world.apply_change(PutBackend(name="sim", body={"nodes": [{"name": "sim-n1", "gpus": 7}]}))
    world.reconcile()
    assert Task.objects.get().status == "RUNNING"
    root = caller("root")
    (node,) = root.get(NODES)["nodes"]
    assert (node["free"], node["used"], node["gpus"]) == (0, 8, 7)
    assert node["notes"] == ["running work holds more than the node has: 8 of 7 GPUs"]
    assert "8 of 7 GPUs" in world.sign_in("root").get("/nodes/sim/sim-n1").content.decode()
    assert node_metrics()["osmo_node_excess_gpus"] == {"sim-n1": 1}
    for page in ("/pools", "/pools/team", "/cohorts"):
        text = world.sign_in("root").get(page).content.decode()
        assert "On cluster sim work holds 1 GPU more than its nodes have" in text, page


@pytest.mark.usefixtures("ledger")
def test_writers_at_once_leave_one_state() -> None:
    """Drains, their ends, clearances and the search for suspects at the same time, while the node is resized."""
    backend = world.make_backend("lab", namespace="lab", nodes=1, gpus=8)
    world.make_pool("lab-team", 8, on=backend)
    node = backend.nodes.get()
    actor = world.make_user("root2", "osmo-admin")
    ids = {"backend": "lab", "node": node.name}
    resize = PutBackend(name="lab", body={"nodes": [{"name": node.name, "gpus": 7}]})
    for _ in range(3):
        SuspectNode.objects.all().delete()
        SuspectNode.objects.create(node=node, failures=3, since="2026-01-01T00:00:00Z")
        outcomes = run_concurrently([
            lambda: drain_node(DrainNode(**ids), actor=actor),
            lambda: restore_node(RestoreNode(**ids), actor=actor),
            lambda: drain_node(DrainNode(**ids), actor=actor),
            lambda: clear_node(ClearNode(**ids), actor=actor),
            find_suspect_nodes,
            lambda: world.apply_change(resize),
        ])  # fmt: skip
        assert not [each for each in outcomes if isinstance(each, Exception)], outcomes
        is_drained = Node.objects.get(pk=node.pk).taint != ""
        assert NodeState.objects.filter(node=node, ready=False).exists() is is_drained
        assert not SuspectNode.objects.open().exists()
        restore_node(RestoreNode(**ids), actor=actor)
    assert AuditEntry.objects.filter(action="node.cleared").count() == 3
