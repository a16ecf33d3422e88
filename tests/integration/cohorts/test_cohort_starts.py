"""Starts in a tree of cohorts: LOW work borrows within every limit, lenders reclaim their quota, debts block."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.values.amounts import GPU
from pools.models import Cohort, LeafUsage
from pools.selectors.quotas.quota_facts import read_admission_tree
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from scheduling.selectors.queue.visible_queue import WaitingGang, list_waiting_gangs
from scheduling.services.verify import verify
from tests.integration.cohorts.conftest import (
    create_cohorts,
    create_member_pool,
    gpu_quota_row,
)
from tests.support import world

pytestmark = pytest.mark.django_db
LOW, NORMAL = Priority.LOW, Priority.NORMAL


def submit(pool: str, gpus: int = 1, count: int = 1, priority: Priority = LOW) -> list[str]:
    return [world.submit_workflow(world.admin_actor(), pool, gpus, priority=priority).name for _ in range(count)]


def total_usage_of(*pools: str) -> list[int]:
    found = dict(LeafUsage.objects.values_list("pool__name", "total_usage"))
    return [found[pool] for pool in pools]


def reason_fields(name: str) -> tuple[object, ...]:
    reason = _waiting_gang(name).reason
    return reason.code, reason.queue, reason.limit, reason.requested, reason.free, reason.missing


def reason_message(name: str) -> str:
    return _waiting_gang(name).reason.message


def _waiting_gang(name: str) -> WaitingGang:
    (entry,) = [entry for entry in list_waiting_gangs(world.admin_actor(), limit=100)[0] if entry.workflow == name]
    return entry


def read_status(name: str) -> str:
    return Workflow.objects.get(name=name).status


def test_low_work_borrows_through_the_tree_up_to_every_limit(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    submit("batch", count=8)
    submit("labs", count=3)
    world.reconcile()
    assert total_usage_of("batch", "labs") == [7, 2], "batch has 4 and borrows 3, labs has none and borrows 2"
    submit("serve", gpus=21)
    world.reconcile()
    assert total_usage_of("serve", "batch", "labs") == [21, 7, 2], "prod owns 20 and borrows 8, of which batch has 7"
    (more,) = submit("serve")
    world.reconcile()
    assert read_status(more) == "PENDING"
    assert reason_fields(more) == ("over_borrowing_limit", "prod", "borrowing_limit", 1, 0, 1)
    assert reason_message(more) == "It asks for 1 GPU; borrowing limit of prod reached: 8 of 8."
    world.apply_change(PutCohort(name="prod", body={"parent": "corp", "quotas": [gpu_quota_row(6, 9)]}))
    assert reason_fields(more)[0] == "next_pass"
    assert verify() == []


def test_a_lender_reclaims_its_gpus_from_the_borrowers(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    submit("serve", gpus=4, count=7)
    world.reconcile()
    assert total_usage_of("serve") == [28]
    (wanted,) = submit("batch", gpus=4, priority=NORMAL)
    world.reconcile()
    assert (total_usage_of("serve", "batch"), read_status(wanted)) == ([24, 4], "RUNNING")
    (wanted,) = submit("train", gpus=16, priority=NORMAL)
    world.reconcile()
    assert (total_usage_of("batch", "train"), read_status(wanted)) == ([4, 16], "RUNNING")
    tree = read_admission_tree([Cohort.objects.get(name="corp").pk])
    assert {name: tree.columns[GPU].debt(x) for name, x in tree.index.items()} == dict.fromkeys(tree.index, 0)
    assert verify() == []


def test_a_debt_blocks_only_its_own_path() -> None:
    create_cohorts("root 0", "  x 0 borrow 0", "  y 0")
    create_member_pool("xq", "x", 8)
    create_member_pool("yq", "y", 5)
    submit("xq", gpus=8, priority=NORMAL)
    world.reconcile()
    world.apply_change(PatchPool(name="xq", patch={"resources": {"gpu": {"guarantee": 6}}}))
    (waits,) = submit("xq")
    submit("yq", count=5)
    world.reconcile()
    assert total_usage_of("xq", "yq") == [8, 3], "root has 11, 8 are held; the debt of x does not block y"
    assert read_status(waits) == "PENDING"


def test_a_smaller_limit_stops_nothing_and_ending_work_reduces_the_debt() -> None:
    create_cohorts("pool 0")
    create_member_pool("a", "pool", 10, lend=4)
    create_member_pool("b", "pool", 2)
    names = submit("b", gpus=2, count=3)
    world.reconcile()
    assert total_usage_of("b") == [6]
    world.apply_change(PatchPool(name="a", patch={"lending_limit": 1}))
    world.reconcile()
    assert total_usage_of("b") == [6]
    (waits,) = submit("b")
    (starts,) = submit("a", 6)
    world.reconcile()
    assert (read_status(starts), read_status(waits)) == ("RUNNING", "PENDING")
    for name in names[:2]:
        world.apply_change(CancelWorkflow(name=name), actor=world.admin_actor())
    world.reconcile()
    assert (total_usage_of("a", "b"), read_status(waits)) == ([6, 3], "RUNNING")


def test_a_pool_s_maximum_holds_inside_a_cohort() -> None:
    create_cohorts("org 20")
    create_member_pool("p", "org", 4)
    world.apply_change(PatchPool(name="p", patch={"resources": {"gpu": {"maximum": 6}}}))
    submit("p", count=7)
    world.reconcile()
    assert total_usage_of("p") == [6]
