"""Parts of shared GPUs are never added to whole GPUs where numbers are about a cluster or all clusters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.configuration.flavors import SHARED_GPUS, SHARED_GPUS_WHOLE
from pools.models import User
from pools.selectors.quotas.backend_capacity import read_capacities, read_part_flavors, read_used_gpus
from pools.selectors.quotas.platform_totals import bars_of_clusters, platform_totals
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.priorities import Priority
from scheduling.selectors.reports.usage import UsageQuestion, read_usage
from tests.support import world
from tests.support.flavors import add_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared() -> None:
    """16 H100, of which 8 and 3 are in use, and 32 parts of T4 with 4 and 2 in use; all of it has a quota."""
    labels = {"gpu": "t4", SHARED_GPUS: SHARED_GPUS_WHOLE}
    nodes = [{"name": f"h{i}", "gpus": 8, "labels": {"gpu": "h100"}} for i in range(2)]
    nodes += [{"name": "t0", "gpus": 32, "labels": labels}]
    flavors = [{"name": "h100", "node_labels": {"gpu": "h100"}}, {"name": "t4", "node_labels": labels}]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes, "flavors": flavors}))
    add_flavored_pool("team", {"h100": 16, "t4": 32}, {"h100": 8, "t4": 8})
    actor = world.admin_actor()
    submit_gpus(actor, 8, "h100")
    submit_gpus(actor, 3, "h100", to="team", priority=Priority.LOW)
    submit_gpus(actor, 4, "t4")
    submit_gpus(actor, 2, "t4", to="team", priority=Priority.LOW)
    world.reconcile()


def _page(path: str) -> Any:
    if not User.objects.filter(username="root").exists():
        world.make_user("root", "osmo-admin")
    return world.sign_in("root").get(path)


def test_capacity_and_use_of_a_cluster_are_those_of_whole_gpus(shared: None) -> None:
    ((pk, capacity),) = read_capacities().items()
    assert (capacity.gpus, capacity.quota, capacity.excess) == (16, 16, 0)
    assert {flavor: (each.gpus, each.is_of_parts) for flavor, each in capacity.flavors.items()} == {
        "h100": (16, False), "t4": (32, True)
    }  # fmt: skip
    assert read_used_gpus(read_part_flavors()) == {pk: 11}
    totals = platform_totals(world.admin_actor(), read_part_flavors())
    assert (totals.quota, totals.used) == (16, 11)
    bar = totals.bar
    assert (bar.guaranteed, bar.low_inside, bar.over_quota, bar.draining, bar.free) == (8, 3, 0, 0, 5)
    assert bars_of_clusters(world.admin_actor(), read_part_flavors()) == {pk: bar}


def test_pages_name_the_parts_beside_the_gpus(shared: None) -> None:
    home = _page("/")
    assert (home.context["fleet"].gpus, home.context["fleet"].bar.in_use) == (16, 11)
    text = home.content.decode()
    assert "16 GPUs</h2>" in text and "t4 6 of 32 parts of GPUs" in text
    clusters = _page("/clusters").content.decode()
    assert "32 parts: t4" in clusters and ">48<" not in clusters
    assert ">parts</span>" in _page("/clusters/sim").content.decode()
    nodes = _page("/nodes").content.decode()
    assert "16 GPUs on 3 nodes" in nodes and "11 in use, 5 free" in nodes
    assert "5 and 26 parts</span>" in nodes and "26 parts</a>" not in nodes and "of 16 parts</a>" in nodes


def test_answers_name_the_parts_beside_the_gpus(shared: None, caller: Callable[..., Any]) -> None:
    answer = caller("root", "osmo-admin").get("/api/backend/sim/nodes")
    assert [answer[key] for key in ("gpus", "used", "free")] == [16, 11, 5]
    assert answer["fits"][-1] == {"gpus": 8, "tasks": 0}
    assert [(each["flavor"], each["gpus"], each.get("shared")) for each in answer["flavors"]] == [
        ("h100", 16, None), ("t4", 32, True)
    ]  # fmt: skip


def test_missing_parts_are_said_as_parts(shared: None) -> None:
    quotas = {"h100": {"guarantee": 16}, "t4": {"guarantee": 40}}
    result = world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))
    assert any("32 t4 parts of GPUs, and the quotas of its pools are 40 together" in each for each in result.warnings)
    assert "too many parts of GPUs" in _page("/clusters").content.decode()
    found = {family.name: {s.labels["flavor"]: s.value for s in family.samples if "flavor" in s.labels}
             for family in _collect_capacity()}  # fmt: skip
    assert found["osmo_backend_capacity_gpus"] == {"h100": 16, "t4": 32}
    assert found["osmo_backend_missing_gpus"] == {"h100": 0, "t4": 8}


def test_usage_by_backend_has_a_row_for_the_parts(shared: None) -> None:
    now = timezone.now()
    question = UsageQuestion(now - timedelta(hours=1), now + timedelta(seconds=1), UsageKey.BACKEND, Bucket.DAY)
    found = read_usage(world.admin_actor(), question)
    used = {row.key: row.used for row in found.rows}
    assert set(used) == {"sim", "sim/t4"}
    assert used["sim"] * 6 == pytest.approx(used["sim/t4"] * 11, rel=0.05)
    capacity = {row.key: row.sums["capacity"] for row in found.rows}
    assert capacity["sim"] * 2 == pytest.approx(capacity["sim/t4"], rel=0.05)
