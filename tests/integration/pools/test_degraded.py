"""A cluster that has lost GPUs: every interface says what its pools can have now, and nobody learns of other pools."""

from __future__ import annotations

from typing import Any

import pytest

from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.changes.backends import PutBackend
from pools.models import Backend, Node, Pool
from pools.selectors.quotas.degraded import capacity_warnings
from scheduling.models import NodeState, Task
from scheduling.selectors.status.overview import read_overview
from tests.support import world

PROMISES = "/api/backend/sim/promises"


@pytest.fixture
def halved(db: None) -> Backend:
    """Four nodes of 8 GPUs for quotas of 32, of which one takes no work."""
    backend = world.make_backend("sim", namespace="ns", nodes=4, gpus=8)
    world.make_pool("vision", 16, on=backend)
    world.make_pool("speech", 8, on=backend)
    world.make_pool("secret", 8, on=backend)
    NodeState.objects.create(node=Node.objects.get(name="sim-n1"), ready=False)
    return backend


def test_the_platform_sees_all_and_a_pool_sees_itself(halved: Backend, caller: Any) -> None:
    whole = caller("root", "osmo-admin").get(PROMISES)
    assert (whole["degraded"], whole["rule"], whole["usable"], whole["gpus"], whole["missing"]) == (
        True, "proportional", 24, 32, 8,
    )  # fmt: skip
    assert [(each["pool"], each["held"], each["missing"]) for each in whole["pools"]] == [
        ("vision", 12, 4), ("secret", 6, 2), ("speech", 6, 2),
    ]  # fmt: skip
    for role in ("osmo-vision-admin", "osmo-vision-user"):
        part = caller("ann", role).get(PROMISES)
        assert part["pools"] == [{"pool": "vision", "quota": 16, "held": 12, "missing": 4}]
        assert (part["degraded"], part["usable"], part["gpus"], part["missing"]) == (True, None, None, None)
    nobody = caller("eve")
    nobody.get(PROMISES)
    assert nobody.status == 404
    missing = caller("root", "osmo-admin")
    missing.get("/api/backend/gone/promises")
    assert missing.status == 404


def test_in_order_the_largest_weight_has_its_quota(halved: Backend, caller: Any) -> None:
    admin = caller("root", "osmo-admin")
    assert admin("PUT", "/api/configs/backend/sim", {"degraded": "ordered"}).body["degraded"] == "ordered"
    assert admin("PUT", "/api/configs/backend/sim", {"degraded": "luck"}).status == 400
    # Equal weights: by name, so that vision, the last one, misses everything.
    assert {each["pool"]: each["missing"] for each in admin.get(PROMISES)["pools"]} == {
        "vision": 8, "secret": 0, "speech": 0,
    }  # fmt: skip
    speech = caller("sue", "osmo-speech-user")
    assert speech.get(PROMISES)["degraded"] is False
    assert not [each for each in speech.get("/api/overview")["problems"] if each["code"] == "degraded"]


def test_home_names_the_own_pools_only(halved: Backend) -> None:
    def problem(*roles: str) -> Any:
        actor = world.make_user("-".join(["u", *roles]), *roles)
        (found,) = [each for each in read_overview(actor).problems if each.code == "degraded"]
        return found

    whole = problem("osmo-viewer")
    assert (whole.is_urgent, dict(whole.numbers)) == (True, {"quota": 32, "usable": 24, "missing": 8})
    assert "24 of its 32 GPUs" in whole.message
    part = problem("osmo-vision-user")
    assert dict(part.numbers) == {"missing": 4}
    assert "vision can have 12 of its 16" in part.message
    assert not any(word in part.message for word in ("secret", "speech", "32"))


@pytest.mark.parametrize("page", ["/pools", "/pools/vision", "/cohorts"])
def test_pages_warn(halved: Backend, page: str) -> None:
    world.make_user("ann", "osmo-vision-user")
    text = world.sign_in("ann").get(page).content.decode()
    assert "vision can have 12 of its 16" in text
    assert "secret" not in text


def test_the_cluster_has_a_table(halved: Backend) -> None:
    world.make_user("root", "osmo-admin")
    text = world.sign_in("root").get("/clusters/sim").content.decode()
    assert "8 GPUs missing" in text and "Quotas that it cannot give now" in text
    NodeState.objects.update(ready=True)
    assert "Quotas that it cannot give now" not in world.sign_in("root").get("/clusters/sim").content.decode()


def test_work_on_a_node_that_takes_no_more_counts(halved: Backend, caller: Any) -> None:
    """It holds its GPUs until it ends, so they are not missing."""
    NodeState.objects.update(ready=True)
    caller("ann", "osmo-vision-user").submit("vision", world.workflow_file("w", 8))
    world.reconcile()
    (node,) = Node.objects.filter(name__in=_nodes_in_use())
    NodeState.objects.all().delete()
    NodeState.objects.create(node=node, ready=False)
    assert caller("root", "osmo-admin").get(PROMISES)["missing"] == 0


def _nodes_in_use() -> list[str]:
    return list(Task.objects.filter(status="RUNNING").values_list("node_name", flat=True))


def test_metrics_have_the_missing_gpus(halved: Backend) -> None:
    found = {family.name: {tuple(s.labels.values()): s.value for s in family.samples} for family in _collect_capacity()}
    assert found["osmo_backend_missing_gpus"] == {("sim",): 8}
    assert found["osmo_pool_missing_gpus"] == {("vision",): 4, ("speech",): 2, ("secret",): 2}
    Backend.objects.update(offline=True)
    found = {family.name: {tuple(s.labels.values()): s.value for s in family.samples} for family in _collect_capacity()}
    assert found["osmo_backend_missing_gpus"] == {("sim",): 0}


def test_a_drained_node_makes_no_quota_too_large(halved: Backend, caller: Any) -> None:
    """It comes back, so the cluster is not oversubscribed: the problem says how many GPUs are on drained nodes."""
    NodeState.objects.all().delete()
    root = caller("root", "osmo-admin")
    root.post("/api/backend/sim/nodes/sim-n1/drain", {})
    (problem,) = [each for each in read_overview(world.admin_actor()).problems if each.subject == "backend/sim"]
    assert (problem.code, problem.numbers) == ("degraded", {"quota": 32, "usable": 24, "missing": 8})
    assert problem.message.startswith("Cluster sim can use 24 of its 32 GPUs (8 are on drained nodes) now, ")
    assert capacity_warnings(world.admin_actor(), [halved.pk]) == [problem.message]
    (mine,) = capacity_warnings(world.make_user("ann", "osmo-vision-user"), [halved.pk])
    assert mine.startswith("Cluster sim has fewer usable GPUs than the quotas of its pools together, while nodes are")
    found = {family.name: {tuple(s.labels.values()): s.value for s in family.samples} for family in _collect_capacity()}
    assert found["osmo_backend_capacity_gpus"] == {("sim",): 32}
    assert found["osmo_backend_missing_gpus"] == {("sim",): 8}
    root.post("/api/backend/sim/nodes/sim-n1/restore", {})
    assert capacity_warnings(world.admin_actor(), [halved.pk]) == []


@pytest.fixture
def with_platforms(db: None) -> Backend:
    """Two nodes of the platform `default` for vision and speech, and two of h100 for secret."""
    backend = world.make_backend("sim", namespace="ns", nodes=4, gpus=8)
    for name, quota in (("vision", 8), ("speech", 8), ("secret", 16)):
        world.make_pool(name, quota, on=backend)
    Node.objects.filter(name__in=["sim-n3", "sim-n4"]).update(platform="h100")
    secret = Pool.objects.get(name="secret")
    Pool.objects.filter(pk=secret.pk).update(config={**secret.config, "platforms": {"h100": {}}})
    return backend


def test_a_lost_node_is_missing_on_its_platform(with_platforms: Backend, caller: Any) -> None:
    """In the table of single losses, in a what-if, and afterwards."""
    root = caller("root", "osmo-admin")
    assert root.get(PROMISES)["degraded"] is False
    expected = {"sim-n1": {"vision": 4, "speech": 4}, "sim-n3": {"secret": 8}}
    for loss in root.get("/api/backend/sim/losses")["losses"]:
        for node in set(loss["nodes"]) & expected.keys():
            assert {each["pool"]: each["missing"] for each in loss["pools"]} == expected[node]
    for node, missing in expected.items():
        body = {"live": True, "backend": "sim", "changes": [{"remove_node": node}]}
        found = root("POST", "/api/simulate", body).body["loss"]["guarantees"]
        assert sorted(each["missing"] for each in found) == sorted(missing.values())
    NodeState.objects.create(node=Node.objects.get(name="sim-n1"), ready=False)
    held = {each["pool"]: each["held"] for each in root.get(PROMISES)["pools"]}
    assert held == {"vision": 4, "speech": 4, "secret": 16}
    found = {family.name: {tuple(s.labels.values()): s.value for s in family.samples} for family in _collect_capacity()}
    assert found["osmo_pool_missing_gpus"] == {("vision",): 4, ("speech",): 4}


def test_enough_gpus_on_the_wrong_platform_are_said(with_platforms: Backend) -> None:
    Pool.objects.filter(name="vision").update(guarantee=4)
    Pool.objects.filter(name="secret").update(guarantee=20)
    (problem,) = [each for each in read_overview(world.admin_actor()).problems if each.subject == "backend/sim"]
    assert problem.code == "degraded"
    assert "4 GPUs are missing on the platforms of some pools. Now secret can have 16 of its 20." in problem.message


def test_smaller_nodes_are_told_as_well(halved: Backend) -> None:
    """A removed node makes the quotas too many: that problem has the parts of the pools, too."""
    NodeState.objects.all().delete()
    nodes = [{"name": f"sim-n{n}", "gpus": 8} for n in (1, 2, 3)]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    (problem,) = [each for each in read_overview(world.admin_actor()).problems if each.subject == "backend/sim"]
    assert problem.code == "oversubscribed"
    assert problem.message.startswith("Now vision can have 12 of its 16, ")


def test_a_folded_line_begins_with_what_pools_can_have_now(halved: Backend) -> None:
    """Whatever other clusters may do to their work later."""
    small = world.make_backend("a-small", namespace="small", nodes=1, gpus=8)
    world.make_pool("early", 64, on=small)
    Backend.objects.filter(pk=small.pk).update(offline=True)
    Pool.objects.filter(name="secret").update(guarantee=72)
    everything = Backend.objects.all().values("pk")
    now, *later = capacity_warnings(world.admin_actor(), everything)
    assert now == "Now secret can have 18 of its 72, vision can have 4 of its 16, speech can have 2 of its 8."
    assert [text.split(" has ")[0] for text in later] == ["Cluster a-small", "Cluster sim"]
    mine = capacity_warnings(world.make_user("ann", "osmo-vision-user"), everything)
    assert mine[0] == "Now vision can have 4 of its 16."
    assert all("fewer GPUs than the quotas" in text for text in mine[1:])
