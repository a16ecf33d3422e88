"""What is said of a pool with quotas by GPU flavor where it is not about one flavor: idle quota, notices, nodes."""

from __future__ import annotations

import pytest

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.domain.people.roles import SYSTEM
from pools.models import Node
from scheduling.domain.priorities import Priority
from scheduling.models import Task
from scheduling.selectors.cluster.nodes import read_node_usage
from scheduling.selectors.queue.waiting_pools import read_idle_pools
from scheduling.services.notices.conditions import _nearly_used
from tests.support import world
from tests.support.flavors import make_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db


def test_use_beyond_the_quota_of_one_flavor_does_not_fill_another() -> None:
    """LOW work holds 16 H100 of a quota of 8, and 8 A100 of 32, of which 24 are idle."""
    make_flavored_pool()
    quotas = {"h100": {"guarantee": 8}, "a100": {"guarantee": 32}}
    world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))
    actor = world.admin_actor()
    for flavor in ("h100", "h100", "a100"):
        submit_gpus(actor, 8, flavor, to="team", priority=Priority.LOW)
    world.reconcile()
    [idle] = read_idle_pools(SYSTEM, {"sim"}, limit=5)
    assert (idle.pool, idle.quota, idle.used, idle.idle) == ("team", 40, 16, 24)


def test_a_notice_names_the_fullest_flavor() -> None:
    make_flavored_pool()
    actor = world.admin_actor()
    submit_gpus(actor, 8, "h100")
    submit_gpus(actor, 2, "a100")
    world.reconcile()
    found = {each.subject: each.message for each in _nearly_used(())}
    assert found == {"pool/team--a": "The quota of team--a is nearly used: 8 of 8 h100 GPUs."}


def test_a_node_says_what_counts_in_another_flavor() -> None:
    make_flavored_pool()
    submit_gpus(world.admin_actor(), 4, "h100")
    world.reconcile()
    [name] = Task.objects.values_list("node_name", flat=True)
    before = {use.name: use.notes for use in read_node_usage()}
    nodes = [
        {"name": row.name, "gpus": 8, "labels": {"gpu": "a100" if row.name == name else row.flavor}}
        for row in Node.objects.filter(backend__name="sim")
    ]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    after = {use.name: use.notes for use in read_node_usage()}
    assert not any(before.values())
    assert after.pop(name) == ["running work with 4 GPUs counts as h100, in which it was admitted, until it ends"]
    assert not any(after.values())
