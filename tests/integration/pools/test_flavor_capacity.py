"""The quotas of each flavor against the GPUs of its nodes: GPUs of one flavor do not serve quotas of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.changes.pools import PatchPool
from pools.domain.quota.capacity import DRAIN_TAINT
from pools.models import Node, Pool
from pools.selectors.quotas.backend_capacity import read_capacities
from scheduling.models import NodeState
from scheduling.selectors.status.overview import read_overview
from scheduling.services.notices.conditions import _degraded_pools
from tests.support import world
from tests.support.flavors import add_flavored_pool, make_flavored_pool

pytestmark = pytest.mark.django_db


def _quotas(**gpus: int) -> dict[str, Any]:
    return {"resources": {"flavors": {flavor: {"guarantee": number} for flavor, number in gpus.items()}}}


def _metrics() -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: {tuple(s.labels.values()): s.value for s in family.samples} for family in _collect_capacity()}


def test_idle_gpus_of_one_flavor_hide_no_missing_ones_of_another() -> None:
    """24 h100 GPUs are promised of 16, 24 a100 of 32: the sums are equal."""
    make_flavored_pool()
    result = world.apply_change(PatchPool(name="team", patch=_quotas(h100=24, a100=24)))
    text = (
        "Cluster sim has 16 h100 GPUs, and the quotas of its pools are 24 together, 8 more: guaranteed work may wait "
        "for a node although its quota is free. Lower a quota, or add nodes."
    )
    assert text in result.warnings
    (problem,) = [each for each in read_overview(world.admin_actor()).problems if each.code == "oversubscribed"]
    assert problem.message == f"Now team can have 16 of its 24 h100. {text}"
    found = _metrics()
    assert found["osmo_backend_capacity_gpus"] == {("sim", "h100"): 16, ("sim", "a100"): 32}
    assert found["osmo_backend_promised_gpus"] == {("sim", "h100"): 24, ("sim", "a100"): 24}
    assert found["osmo_backend_missing_gpus"] == {("sim", "h100"): 8, ("sim", "a100"): 0}
    assert found["osmo_pool_missing_gpus"] == {("team", "h100"): 8}


def test_what_counts() -> None:
    """Archived pools, unlimited quotas, subpools and nodes whose taint keeps our pods away do not."""
    backend, empty = world.make_backend(nodes=4, gpus=8), world.make_backend("empty", nodes=0)
    for name, quota in (("counts", 10), ("unlimited", -1), ("gone", 7)):
        world.make_pool(name, quota, on=backend)
    world.make_subpool("counts", "a", 5)
    with world.triggers_off():
        Pool.objects.filter(name="gone").update(archived=True)
    Node.objects.filter(name="sim-n1").update(taint="of-others")
    Node.objects.filter(name="sim-n2").update(taint=DRAIN_TAINT)
    Node.objects.filter(name="sim-n3").update(gpus=0, advertised_gpus=3)
    found = read_capacities()
    numbers = {pk: (each.quota, each.gpus, each.tainted, each.drained, each.parts) for pk, each in found.items()}
    assert numbers == {backend.pk: (10, 16, 8, 8, 3), empty.pk: (0, None, 0, 0, 0)}
    assert [each.pool for each in found[backend.pk].promises] == ["counts"]


def test_a_quota_that_moves_to_a_full_flavor_is_warned_about() -> None:
    make_flavored_pool()
    before = world.apply_change(PatchPool(name="team", patch=_quotas(h100=15, a100=32))).warnings
    after = world.apply_change(PatchPool(name="team", patch=_quotas(h100=17, a100=30))).warnings
    assert (any("h100 GPUs" in each for each in before), any("h100 GPUs" in each for each in after)) == (False, True)


def test_a_pool_without_flavors_needs_nodes_without_one() -> None:
    pool = make_flavored_pool()
    world.make_pool("old", 8, on=pool.backend)
    capacity = read_capacities([pool.backend_id])[pool.backend_id]
    assert {flavor: (each.quota, each.gpus) for flavor, each in capacity.by_flavor.items()} == {
        "h100": (16, 16), "a100": (32, 32), "default": (8, 0)
    }  # fmt: skip
    assert capacity.excess == 8


def test_a_lost_node_is_missing_in_its_flavor(caller: Callable[..., Any]) -> None:
    """In the table of single losses, on the page of the cluster, in the answer and in the notice."""
    make_flavored_pool()
    add_flavored_pool("other", {"a100": 4}, {"a100": 4})
    world.apply_change(PatchPool(name="team", patch=_quotas(h100=16, a100=28)))
    root = caller("root", "osmo-admin")
    losses = {node: each for each in root.get("/api/backend/sim/losses")["losses"] for node in each["nodes"]}
    of_h100 = {"pool": "team", "quota": 16, "held": 8, "missing": 8, "flavor": "h100"}
    assert losses["h0"]["pools"] == losses["h1"]["pools"] == [of_h100]
    NodeState.objects.create(node=Node.objects.get(name="h0"), ready=False)
    answer = root.get("/api/backend/sim/promises")
    assert (answer["missing"], answer["pools"][0]) == (8, of_h100)
    assert {(each["pool"], each["flavor"]): each["missing"] for each in answer["pools"][1:]} == {
        ("other", "a100"): 0, ("team", "a100"): 0
    }  # fmt: skip
    page = world.sign_in("root").get("/clusters/sim").content.decode()
    assert "8 GPUs missing" in page and "<td>h100</td>" in page
    (notice,) = _degraded_pools()
    assert notice.message.endswith("pool team can have 8 of its 16 h100.")
    ann = caller("ann", "osmo-other-user").get("/api/backend/sim/promises")
    assert (ann["degraded"], {each["pool"] for each in ann["pools"]}) == (False, {"other"})


def test_a_platform_whose_nodes_have_no_flavor_of_the_pool_is_warned_about() -> None:
    make_flavored_pool()
    Node.objects.filter(name__startswith="h").update(platform="hopper")
    platforms = {"hopper": {}, "default": {}, "new": {}}
    body = {"platforms": platforms, **_quotas(h100=16, a100=32)}
    assert world.apply_change(PatchPool(name="team", patch=body)).warnings == ()
    add_flavored_pool("other", {"a100": 0}, {})
    (warning,) = world.apply_change(PatchPool(name="other", patch={"platforms": platforms})).warnings
    assert warning.startswith("The nodes of platform hopper are h100, which pool other has no quota of: work with")
