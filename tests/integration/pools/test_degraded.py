"""A cluster that has lost GPUs: every interface says what its pools can have now, and nobody learns of other pools."""

from __future__ import annotations

from typing import Any

import pytest

from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.changes.backends import PutBackend
from pools.models import Backend, Node, Pool, User
from pools.selectors.quotas.degraded import capacity_warnings
from scheduling.models import NodeState, Task
from scheduling.selectors.status.overview import read_overview
from tests.support import world
from tests.support.world import ModuleData

PROMISES = "/api/backend/sim/promises"


@pytest.fixture(scope="module")
def halved_once(module_data: ModuleData) -> Backend:
    with module_data():
        backend = world.make_backend("sim", namespace="ns", nodes=4, gpus=8)
        for name, quota in (("vision", 16), ("speech", 8), ("secret", 8)):
            world.make_pool(name, quota, on=backend)
        NodeState.objects.create(node=Node.objects.get(name="sim-n1"), ready=False)
        world.make_user("root", "osmo-admin")
        world.make_user("ann", "osmo-vision-user")
        return backend


@pytest.fixture
def halved(halved_once: Backend, db: None) -> Backend:
    """Four nodes of 8 GPUs for quotas of 32, of which one takes no work."""
    return halved_once


def _metrics() -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: {tuple(s.labels.values()): s.value for s in family.samples} for family in _collect_capacity()}


def test_the_platform_sees_all_and_a_pool_sees_itself(halved: Backend, caller: Any) -> None:
    whole = caller("root").get(PROMISES)
    assert (whole["degraded"], whole["rule"], whole["usable"], whole["gpus"], whole["missing"]) == (
        True, "proportional", 24, 32, 8,
    )  # fmt: skip
    assert [(each["pool"], each["held"], each["missing"]) for each in whole["pools"]] == [
        ("vision", 12, 4), ("secret", 6, 2), ("speech", 6, 2),
    ]  # fmt: skip
    for name in ("ann", "paul"):
        part = caller(name, "osmo-vision-admin").get(PROMISES)
        assert part["pools"] == [{"pool": "vision", "quota": 16, "held": 12, "missing": 4}]
        assert (part["degraded"], part["usable"], part["gpus"], part["missing"]) == (True, None, None, None)
    assert caller("eve")("GET", PROMISES).status == 404
    assert caller("root")("GET", "/api/backend/gone/promises").status == 404


def test_in_order_the_largest_weight_has_its_quota(halved: Backend, caller: Any) -> None:
    admin = caller("root")
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


def test_pages_and_metrics_of_what_is_missing(halved: Backend) -> None:
    ann, root = world.sign_in("ann"), world.sign_in("root")
    for page in ("/pools", "/pools/vision", "/cohorts"):
        text = ann.get(page).content.decode()
        assert ("vision can have 12 of its 16" in text, "secret" in text) == (True, False), page
    text = root.get("/clusters/sim").content.decode()
    assert "8 GPUs missing" in text and "Quotas that it cannot give now" in text
    found = _metrics()
    assert found["osmo_backend_missing_gpus"] == {("sim",): 8}
    assert found["osmo_pool_missing_gpus"] == {("vision",): 4, ("speech",): 2, ("secret",): 2}
    Backend.objects.update(offline=True)
    assert _metrics()["osmo_backend_missing_gpus"] == {("sim",): 0}
    Backend.objects.update(offline=False)
    NodeState.objects.update(ready=True)
    assert "Quotas that it cannot give now" not in root.get("/clusters/sim").content.decode()


def test_work_on_a_node_that_takes_no_more_counts(halved: Backend, caller: Any) -> None:
    """It holds its GPUs until it ends, so they are not missing."""
    NodeState.objects.update(ready=True)
    caller("ann").submit("vision", world.workflow_file("w", 8))
    world.reconcile()
    node = Node.objects.get(name=Task.objects.get(status="RUNNING").node_name)
    NodeState.objects.all().delete()
    NodeState.objects.create(node=node, ready=False)
    assert caller("root").get(PROMISES)["missing"] == 0


def test_a_drained_node_makes_no_quota_too_large(halved: Backend, caller: Any) -> None:
    """It comes back, so the cluster is not oversubscribed: the problem says how many GPUs are on drained nodes."""
    NodeState.objects.all().delete()
    root = caller("root")
    root.post("/api/backend/sim/nodes/sim-n1/drain", {})
    (problem,) = [each for each in read_overview(world.admin_actor()).problems if each.subject == "backend/sim"]
    assert (problem.code, problem.numbers) == ("degraded", {"quota": 32, "usable": 24, "missing": 8})
    assert problem.message.startswith("Cluster sim can use 24 of its 32 GPUs (8 are on drained nodes) now, ")
    assert capacity_warnings(world.admin_actor(), [halved.pk]) == [problem.message]
    (mine,) = capacity_warnings(User.objects.get(username="ann").as_actor(), [halved.pk])
    assert mine.startswith("Cluster sim has fewer usable GPUs than the quotas of its pools together, while nodes are")
    found = _metrics()
    assert found["osmo_backend_capacity_gpus"] == {("sim",): 32}
    assert found["osmo_backend_missing_gpus"] == {("sim",): 8}
    root.post("/api/backend/sim/nodes/sim-n1/restore", {})
    assert capacity_warnings(world.admin_actor(), [halved.pk]) == []


@pytest.fixture
def with_platforms(halved: Backend) -> Backend:
    """Two nodes of the platform `default` for vision and speech, and two of h100 for secret."""
    NodeState.objects.all().delete()
    Pool.objects.filter(name="vision").update(guarantee=8)
    Pool.objects.filter(name="secret").update(guarantee=16)
    Node.objects.filter(name__in=["sim-n3", "sim-n4"]).update(platform="h100")
    secret = Pool.objects.get(name="secret")
    Pool.objects.filter(pk=secret.pk).update(config={**secret.config, "platforms": {"h100": {}}})
    return halved


def test_a_lost_node_is_missing_on_its_platform(with_platforms: Backend, caller: Any) -> None:
    """In the table of single losses, in a what-if, and afterwards."""
    root = caller("root")
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
    found = _metrics()
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
    mine = capacity_warnings(User.objects.get(username="ann").as_actor(), everything)
    assert mine[0] == "Now vision can have 4 of its 16."
    assert all("fewer GPUs than the quotas" in text for text in mine[1:])
