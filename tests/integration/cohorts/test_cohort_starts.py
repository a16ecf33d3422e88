"""Starts in a tree of cohorts: LOW work borrows within every limit, lenders get back what is theirs, debts block."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pools.domain.amounts import GPU
from pools.domain.roles import SYSTEM
from pools.models import Backend, Cohort, LeafUsage
from pools.selectors.quota_facts import read_admission_tree
from pools.services.cohorts import put_cohort
from pools.services.pools import patch_pool
from scheduling.domain.priorities import Priority
from scheduling.models import Workflow
from scheduling.selectors.visible_queue import WaitingGang, list_waiting_gangs
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.user_actions import cancel_workflow
from tests.integration.cohorts.conftest import (
    create_cohorts,
    create_member_pool,
    gpu_quota_row,
    set_parent_past_trigger,
)
from tests.support import factories

pytestmark = pytest.mark.django_db
LOW, NORMAL = Priority.LOW, Priority.NORMAL


def run(backend: str = "sim") -> None:
    assert reconcile_backend(Backend.objects.get(name=backend).pk)["settled"]


def work(pool: str, gpus: int = 1, count: int = 1, priority: Priority = LOW) -> list[str]:
    return [
        factories.submit_workflow(factories.admin_actor(), pool, gpus, priority=priority).name for _ in range(count)
    ]


def used(*pools: str) -> list[int]:
    found = dict(LeafUsage.objects.values_list("pool__name", "total_usage"))
    return [found[pool] for pool in pools]


def why(name: str) -> tuple[object, ...]:
    reason = _entry(name).reason
    return reason.code, reason.queue, reason.limit, reason.requested, reason.free, reason.missing


def told(name: str) -> str:
    return _entry(name).reason.message


def _entry(name: str) -> WaitingGang:
    (entry,) = [entry for entry in list_waiting_gangs(factories.admin_actor(), limit=100)[0] if entry.workflow == name]
    return entry


def status(name: str) -> str:
    return Workflow.objects.get(name=name).status


def test_low_work_borrows_through_the_tree_up_to_every_limit(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    work("batch", count=8)
    work("labs", count=3)
    run()
    assert used("batch", "labs") == [7, 2], "batch has 4 and borrows 3, labs has none and borrows 2"
    work("serve", gpus=21)
    run()
    assert used("serve", "batch", "labs") == [21, 7, 2], "prod owns 20 and borrows 8, of which batch has 7"
    (more,) = work("serve")
    run()
    assert status(more) == "PENDING"
    assert why(more) == ("over_borrowing_limit", "prod", "borrowing_limit", 1, 0, 1)
    assert told(more) == "It asks for 1 GPU; borrowing limit of prod reached: 8 of 8."
    put_cohort(actor=SYSTEM, name="prod", body={"parent": "corp", "quotas": [gpu_quota_row(6, 9)]})
    assert why(more)[0] == "next_pass"
    assert verify() == []


def test_a_lender_gets_its_gpus_back_from_who_borrowed_them(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    work("serve", gpus=4, count=7)
    run()
    assert used("serve") == [28]
    (wanted,) = work("batch", gpus=4, priority=NORMAL)
    run()
    assert (used("serve", "batch"), status(wanted)) == ([24, 4], "RUNNING")
    (wanted,) = work("train", gpus=16, priority=NORMAL)
    run()
    assert (used("batch", "train"), status(wanted)) == ([4, 16], "RUNNING")
    tree = read_admission_tree([Cohort.objects.get(name="corp").pk])
    assert {name: tree.columns[GPU].debt(x) for name, x in tree.index.items()} == dict.fromkeys(tree.index, 0)
    assert verify() == []


def test_a_debt_blocks_its_own_path_and_nobody_else() -> None:
    create_cohorts("root 0", "  x 0 borrow 0", "  y 0")
    create_member_pool("xq", "x", 8)
    create_member_pool("yq", "y", 5)
    work("xq", gpus=8, priority=NORMAL)
    run()
    patch_pool(actor=SYSTEM, name="xq", patch={"resources": {"gpu": {"guarantee": 6}}})
    (waits,) = work("xq")
    work("yq", count=5)
    run()
    assert used("xq", "yq") == [8, 3], "root has 11, 8 are held; what x owes is no business of y"
    assert status(waits) == "PENDING"


def test_a_limit_that_is_cut_takes_nothing_and_what_ends_pays_it_back() -> None:
    create_cohorts("pool 0")
    create_member_pool("a", "pool", 10, lend=4)
    create_member_pool("b", "pool", 2)
    names = work("b", gpus=2, count=3)
    run()
    assert used("b") == [6]
    patch_pool(actor=SYSTEM, name="a", patch={"lending_limit": 1})
    run()
    assert used("b") == [6]
    (waits,) = work("b")
    (starts,) = work("a", 6)
    run()
    assert (status(starts), status(waits)) == ("RUNNING", "PENDING")
    for name in names[:2]:
        cancel_workflow(actor=factories.admin_actor(), name=name)
    run()
    assert (used("a", "b"), status(waits)) == ([6, 3], "RUNNING")


def test_nothing_starts_on_a_cycle_and_what_runs_goes_on() -> None:
    create_cohorts("a 0", "  b 0")
    create_member_pool("p", "b", 4)
    create_member_pool("free", "elsewhere", 4)
    work("p", count=2)
    run()
    set_parent_past_trigger("a", "b")
    waits = work("p", count=2)
    work("free", count=4)
    run()
    assert used("p", "free") == [2, 4]
    assert {status(name) for name in waits} == {"PENDING"}
    assert why(waits[0])[0] == "cycle"
    assert "form a cycle: b → a → b;" in told(waits[0])
    put_cohort(actor=SYSTEM, name="a", body={"parent": None, "quotas": [gpu_quota_row(0)]})
    run()
    assert used("p") == [4]
    assert verify() == []


def test_a_pool_s_maximum_holds_inside_a_cohort() -> None:
    create_cohorts("org 20")
    create_member_pool("p", "org", 4)
    patch_pool(actor=SYSTEM, name="p", patch={"resources": {"gpu": {"maximum": 6}}})
    work("p", count=7)
    run()
    assert used("p") == [6]
