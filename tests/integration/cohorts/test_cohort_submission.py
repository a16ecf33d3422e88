"""What a submission to a pool in a cohort is told: what the tree could never give is refused with node and limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.domain.errors import BadInput, ErrorCode
from pools.domain.roles import SYSTEM
from pools.models import Pool
from pools.selectors.quota_potential import ceiling
from pools.services.cohorts import put_cohort
from pools.services.pools import patch_pool
from scheduling.domain.priorities import Priority
from scheduling.services.workflows.submission import Submission, check
from tests.integration.cohorts.conftest import bend, draw, gpu, join
from tests.support import houses

pytestmark = pytest.mark.django_db
LOW = Priority.LOW


def refused(pool: str, gpus: int, priority: Priority = LOW) -> BadInput:
    with pytest.raises(BadInput) as error:
        houses.submitted(houses.admin(), pool, gpus, priority=priority)
    return error.value


def test_low_work_is_refused_only_above_what_the_tree_could_ever_give(corp: Callable[[], None]) -> None:
    corp()
    houses.holding("train", 16)
    admin = houses.admin()
    for pool, most in (("serve", 28), ("batch", 7), ("train", 40), ("labs", 2)):
        assert houses.submitted(admin, pool, most, priority=LOW).status == "PENDING"
        assert refused(pool, most + 1).details[0].code == "above_tree"
    error = refused("batch", 8)
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
    assert "the borrowing limit of prod is 8" in refused("serve", 29).message
    assert "everything under corp is 29" in refused("train", 41).message


def test_high_and_normal_stay_inside_their_leaf(corp: Callable[[], None]) -> None:
    corp()
    admin = houses.admin()
    houses.submitted(admin, "serve", 10)
    assert refused("serve", 11, Priority.NORMAL).details[0].code == "above_quota"
    assert refused("labs", 1, Priority.HIGH).details[0].code == "above_quota"


def test_the_answer_follows_every_change_of_the_tree(corp: Callable[[], None]) -> None:
    corp()
    admin = houses.admin()

    def most(pool: str) -> object:
        found = ceiling(Pool.objects.get(name=pool))
        return found and found.gpus

    assert most("serve") == 28
    put_cohort(actor=SYSTEM, name="prod", body={"parent": "corp", "quotas": [gpu(6, 2)]})
    assert most("serve") == 22
    patch_pool(actor=SYSTEM, name="batch", patch={"resources": {"gpu": {"guarantee": 1}}})
    assert most("serve") == 19
    patch_pool(actor=SYSTEM, name="serve", patch={"resources": {"gpu": {"maximum": 12}}})
    assert most("serve") == 12
    patch_pool(actor=SYSTEM, name="serve", patch={"cohort": None})
    assert most("serve") is None
    assert refused("serve", 13).details[0].code == "above_maximum"
    houses.submitted(admin, "serve", 12, priority=LOW)


def test_a_tree_that_is_none_takes_work_and_lets_it_wait() -> None:
    draw("a 0", "  b 0")
    join("p", "b", 4)
    bend("a", "b")
    assert houses.submitted(houses.admin(), "p", 99, priority=LOW).status == "PENDING"


def test_the_number_of_statements_is_that_of_a_pool_without_a_cohort_and_one() -> None:
    draw("org 0")
    for number in range(12):
        join(f"p{number}", "org", 4)
    houses.pool("alone", 4)
    admin = houses.admin()
    houses.submitted(admin, "p0", priority=LOW)

    def statements(pool: str) -> int:
        submission = Submission(file=houses.spec(gpus=2), priority=LOW)
        with CaptureQueriesContext(connection) as captured:
            check(actor=admin, pool=pool, submission=submission)
        return len(captured)

    assert statements("p7") == statements("alone") + 1
