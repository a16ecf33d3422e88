"""A tree of cohorts over several backends: quota is lent from one to the other, and reclaimed there."""

from __future__ import annotations

import pytest

from pools.domain.changes.pools import PatchPool
from pools.models import Backend, LeafUsage
from scheduling.domain.priorities import Priority
from scheduling.models import Decision, Workflow
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.services.verify import verify
from tests.integration.cohorts.conftest import create_cohorts
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def two_backends() -> None:
    """Pool `lender` of 4 GPUs on backend `left`, pool `borrower` without quota on `right`, both in `org`."""
    create_cohorts("org 0")
    for pool, quota, backend in (("lender", 4, "left"), ("borrower", 0, "right")):
        world.make_pool(pool, quota, on=world.make_backend(backend, namespace=backend, nodes=1, gpus=8))
        world.apply_change(PatchPool(name=pool, patch={"cohort": "org"}))


def submit(pool: str, gpus: int, priority: Priority) -> str:
    return world.submit_workflow(world.admin_actor(), pool, gpus, priority=priority).name


def total_usage_by_pool() -> dict[str, int]:
    return dict(LeafUsage.objects.values_list("pool__name", "total_usage"))


def test_quota_is_lent_to_another_backend_and_reclaimed_there(two_backends: None) -> None:
    borrowed = [submit("borrower", 1, Priority.LOW) for _ in range(5)]
    world.reconcile("right")
    assert total_usage_by_pool() == {"lender": 0, "borrower": 4}
    wanted = submit("lender", 3, Priority.NORMAL)
    world.reconcile("left")
    assert total_usage_by_pool() == {"lender": 3, "borrower": 1}
    assert Workflow.objects.get(name=wanted).status == "RUNNING"
    assert set(Decision.objects.filter(action="reclaim").values_list("backend__name", flat=True)) == {"right"}
    assert set(Decision.objects.filter(for_workflow__name=wanted).values_list("workflow__name", flat=True)) <= set(
        borrowed
    )
    world.reconcile("right")
    assert total_usage_by_pool() == {"lender": 3, "borrower": 1}
    (entry, *_) = list_waiting_gangs(world.admin_actor(), pools=["borrower"], limit=10)[0]
    assert entry.reason.message == "It asks for 1 GPU; everything under org leaves 0 GPUs of 4: 1 GPU missing."
    assert verify() == []


def test_work_that_cannot_be_reclaimed_continues_and_is_reported(two_backends: None) -> None:
    create_cohorts("org 2")
    world.apply_change(PatchPool(name="borrower", patch={"resources": {"gpu": {"guarantee": 2}}}))
    submit("borrower", 2, Priority.NORMAL)
    world.reconcile("right")
    submit("borrower", 4, Priority.LOW)
    world.reconcile("right")
    assert total_usage_by_pool() == {"lender": 0, "borrower": 6}
    wanted = submit("lender", 4, Priority.NORMAL)
    world.reconcile("left")
    assert total_usage_by_pool() == {"lender": 4, "borrower": 2}
    assert Workflow.objects.get(name=wanted).status == "RUNNING"


def test_other_backends_are_in_the_facts_outside(two_backends: None) -> None:
    submit("borrower", 2, Priority.LOW)
    world.reconcile("right")
    live = read_live_facts(Backend.objects.get(name="left"))
    queues = {queue.name: queue for queue in live.facts.queues}
    assert queues["osmo-pool-right-borrower"].is_external
    assert queues["osmo-pool-right-borrower"].parent == "org"
    assert not queues["osmo-pool-left-lender"].is_external
    assert set(live.roots) == {"osmo-pool-left-lender"}
    (gang,) = live.facts.gangs
    assert gang.tasks[0].allowed_nodes == frozenset()
    assert live.facts.usage["osmo-pool-right-borrower--_shared"] == {"default/gpu": 0}
