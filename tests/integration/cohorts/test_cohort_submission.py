"""Submissions to a pool in a cohort: requests above the potential of the tree are refused with node and limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.errors import BadInput, ErrorCode
from pools.models import Pool
from pools.selectors.quotas.quota_potential import potential_limit
from scheduling.domain.priorities import Priority
from scheduling.services.workflows.submission import Submission
from tests.integration.cohorts.conftest import (
    create_cohorts,
    create_member_pool,
    gpu_quota_row,
    set_parent_past_trigger,
)
from tests.support import world

pytestmark = pytest.mark.django_db
LOW = Priority.LOW


def submission_error(pool: str, gpus: int, priority: Priority = LOW) -> BadInput:
    with pytest.raises(BadInput) as error:
        world.submit_workflow(world.admin_actor(), pool, gpus, priority=priority)
    return error.value


def test_low_work_is_refused_only_above_the_potential_of_the_tree(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    world.make_reservation("train", 16)
    admin = world.admin_actor()
    for pool, potential in (("serve", 28), ("batch", 7), ("train", 40), ("labs", 2)):
        assert world.submit_workflow(admin, pool, potential, priority=LOW).status == "PENDING"
        assert submission_error(pool, potential + 1).details[0].code == "above_tree"
    error = submission_error("batch", 8)
    assert error.error_code == ErrorCode.RESOURCE
    assert error.message == (
        "The largest gang asks for 8 GPUs at once, batch may never hold more than 7: "
        "the borrowing limit of batch is 3. Ask for at most 7 at once."
    )
    assert dict(error.details[0].numbers) == {
        "requested": 8,
        "limit": 7,
        "node": "batch",
        "node_limit": "borrowing_limit",
    }
    assert "the borrowing limit of prod is 8" in submission_error("serve", 29).message
    assert "no more than 29 of everything under corp can reach it" in submission_error("train", 41).message


def test_high_and_normal_stay_inside_their_leaf(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    admin = world.admin_actor()
    world.submit_workflow(admin, "serve", 10)
    assert submission_error("serve", 11, Priority.NORMAL).details[0].code == "above_quota"
    assert submission_error("labs", 1, Priority.HIGH).details[0].code == "above_quota"


def test_the_answer_follows_every_change_of_the_tree(create_corp_example: Callable[[], None]) -> None:
    create_corp_example()
    admin = world.admin_actor()

    def read_potential(pool: str) -> object:
        found = potential_limit(Pool.objects.get(name=pool))
        return found and found.gpus

    assert read_potential("serve") == 28
    world.apply_change(PutCohort(name="prod", body={"parent": "corp", "quotas": [gpu_quota_row(6, 2)]}))
    assert read_potential("serve") == 22
    world.apply_change(PatchPool(name="batch", patch={"resources": {"gpu": {"guarantee": 1}}}))
    assert read_potential("serve") == 19
    world.apply_change(PatchPool(name="serve", patch={"resources": {"gpu": {"maximum": 12}}}))
    assert read_potential("serve") == 12
    world.apply_change(PatchPool(name="serve", patch={"cohort": None}))
    assert read_potential("serve") is None
    assert submission_error("serve", 13).details[0].code == "above_maximum"
    world.submit_workflow(admin, "serve", 12, priority=LOW)


def test_on_a_cycle_work_is_accepted_and_waits() -> None:
    create_cohorts("a 0", "  b 0")
    create_member_pool("p", "b", 4)
    set_parent_past_trigger("a", "b")
    assert world.submit_workflow(world.admin_actor(), "p", 99, priority=LOW).status == "PENDING"


def test_the_number_of_statements_is_that_of_a_pool_without_a_cohort_and_one() -> None:
    create_cohorts("org 0")
    for number in range(12):
        create_member_pool(f"p{number}", "org", 4)
    world.make_pool("alone", 4)
    admin = world.admin_actor()
    world.submit_workflow(admin, "p0", priority=LOW)

    def count_statements(pool: str) -> int:
        submission = Submission(file=world.workflow_file(gpus=2), priority=LOW)
        with CaptureQueriesContext(connection) as captured:
            world.check_submission(actor=admin, pool=pool, submission=submission)
        return len(captured)

    assert count_statements("p7") == count_statements("alone") + 1
