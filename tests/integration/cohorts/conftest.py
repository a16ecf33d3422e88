"""Cohorts through their services: the builder takes an indented drawing of a tree.

cohorts("corp 4", "  prod 6 borrow 8", "  research 0 lend 5")
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pgtrigger
import pytest

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.models import Cohort, Pool
from tests.support import world

_LINE = re.compile(r"( *)(\S+) (\d+)(?: borrow (\d+))?(?: lend (\d+))?")


def gpu_quota_row(
    nominal: int, borrow: int | None = None, lend: int | None = None, resource: str = "gpu"
) -> dict[str, Any]:
    """One row of quotas."""
    return {
        "flavor": "default",
        "resource": resource,
        "nominal": nominal,
        "borrowing_limit": borrow,
        "lending_limit": lend,
    }


def create_cohorts(*lines: str) -> None:
    """Create the cohorts of an indented drawing."""
    above: list[str] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        assert match, line
        depth = len(match[1]) // 2
        del above[depth:]
        limits = [None if text is None else int(text) for text in (match[4], match[5])]
        body = {"parent": above[-1] if above else None, "quotas": [gpu_quota_row(int(match[3]), *limits)]}
        world.apply_change(PutCohort(name=match[2], body=body))
        above.append(match[2])


def create_member_pool(
    pool: str, cohort: str, quota: int, *, borrow: int | None = None, lend: int | None = None
) -> Pool:
    """Create a pool with a quota of `quota` GPUs in a cohort."""
    row = world.make_pool(pool, quota)
    world.apply_change(PatchPool(name=pool, patch={"cohort": cohort, "borrowing_limit": borrow, "lending_limit": lend}))
    row.refresh_from_db()
    return row


def set_parent_past_trigger(name: str, parent: str) -> None:
    """Give a cohort a parent past the trigger that refuses cycles."""
    with pgtrigger.ignore("pools.Cohort:no_cycle"):
        Cohort.objects.filter(name=name).update(parent=Cohort.objects.get(name=parent))


@pytest.fixture
def create_corp_example(db: None) -> Callable[..., None]:
    """Worked example A (design, Q6), which shows all borrowing."""

    def make() -> None:
        create_cohorts("corp 4", "  prod 6 borrow 8", "  research 0 lend 5")
        create_member_pool("serve", "prod", 10)
        create_member_pool("batch", "prod", 4, borrow=3)
        create_member_pool("train", "research", 16, lend=12)
        create_member_pool("labs", "research", 0, borrow=2)

    return make
