"""Facts that list new work alone: running work is in them as totals, and each total limits new work to free
capacity."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pools.domain.changes.pools import PatchPool
from pools.models import Backend, Node, Pool
from scheduling.domain.engine.cycle import run_cycle as plan
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.priorities import Priority
from scheduling.models import Task
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.cohorts.conftest import create_cohorts
from tests.support import world

pytestmark = pytest.mark.django_db

LOW, NORMAL = Priority.LOW, Priority.NORMAL


def run(pool: str, gpus: int, priority: Priority) -> None:
    """Running work."""
    workflow = world.submit_workflow(world.admin_actor(), pool, gpus, name="old", priority=priority)
    reconcile_backend(workflow.root_pool.backend_id or 0)
    workflow.refresh_from_db()
    assert workflow.status == "RUNNING"


def _quota() -> tuple[str, Priority, int]:
    world.make_pool("team", 6)
    run("team", 4, NORMAL)
    return "team", NORMAL, 2


def _low_work_in_a_quota() -> tuple[str, Priority, int]:
    """LOW work does not count against the quota."""
    world.make_pool("team", 6)
    run("team", 4, LOW)
    run("team", 1, NORMAL)
    return "team", NORMAL, 5


def _maximum_with_low_work() -> tuple[str, Priority, int]:
    world.make_pool("team", 2)
    world.apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"maximum": 6}}}))
    run("team", 3, LOW)
    return "team", LOW, 3


def _maximum_with_firm_work_of_a_subpool() -> tuple[str, Priority, int]:
    world.make_pool("team", 4, a=4)
    world.apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"maximum": 6}}}))
    run("team--a", 4, NORMAL)
    return "team", LOW, 2


def _node() -> tuple[str, Priority, int]:
    world.make_pool("team", 100, on=world.make_backend(nodes=1, gpus=8))
    run("team", 5, NORMAL)
    return "team", LOW, 3


def _node_shared_by_pools() -> tuple[str, Priority, int]:
    backend = world.make_backend(nodes=1, gpus=8)
    world.make_pool("team", 100, on=backend)
    world.make_pool("other", 100, on=backend)
    run("other", 5, LOW)
    return "team", NORMAL, 3


def _node_of_the_same_name_elsewhere() -> tuple[str, Priority, int]:
    far = world.make_backend("far", namespace="far", nodes=0)
    Node.objects.create(backend=far, name="sim-n1", gpus=8)
    world.make_pool("far", 100, on=far)
    run("far", 8, NORMAL)
    world.make_pool("team", 100, on=world.make_backend(nodes=1, gpus=8))
    run("team", 1, NORMAL)
    assert set(Task.objects.values_list("node_name", flat=True)) == {"sim-n1"}
    return "team", NORMAL, 7


def _cohort_over_two_backends() -> tuple[str, Priority, int]:
    create_cohorts("org 0")
    for pool, quota, where in (("team", 4, "left"), ("far", 0, "right")):
        world.make_pool(pool, quota, on=world.make_backend(where, namespace=where, nodes=1, gpus=8))
        world.apply_change(PatchPool(name=pool, patch={"cohort": "org"}))
    run("far", 3, LOW)
    return "team", LOW, 1


@pytest.mark.parametrize(
    "bound",
    [
        _quota, _low_work_in_a_quota, _maximum_with_low_work, _maximum_with_firm_work_of_a_subpool, _node,
        _node_shared_by_pools, _node_of_the_same_name_elsewhere, _cohort_over_two_backends,
    ],
)  # fmt: skip
def test_totals_limit_new_work_to_free_capacity(bound: Callable[[], tuple[str, Priority, int]]) -> None:
    leaf, priority, free = bound()
    assert started(leaf, free, priority) == ["fits-1"]
    assert started(leaf, free + 1, priority) == []


def started(leaf: str, gpus: int, priority: Priority) -> list[str]:
    """The gangs that would start after this submission."""
    name = world.submit_workflow(world.admin_actor(), leaf, gpus, name="fits", priority=priority).name
    backend = Backend.objects.get(pk=Pool.objects.get(name=leaf).backend_id)
    live = read_live_facts(backend, new_workflows=[name], totals_only=True)
    assert set(live.gangs) == {name}
    steps = plan(live.facts).steps
    assert {step.action for step in steps} <= {StepAction.START}, "a total cannot be evicted"
    return [step.gang for step in steps]
