"""The generation of a backend: every change of its quotas is counted in its own transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import DeletePool, PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.models import Backend, ChangeToken, Cohort, Pool
from pools.selectors.change_tokens import read_generation
from tests.support.threads import run_concurrently
from tests.support.world import apply_change

pytestmark = pytest.mark.usefixtures("ledger")


PART: dict[str, Any] = {"parent": "team", "subpool_name": "a"}


@pytest.fixture
def changed_backends() -> Callable[..., set[str]]:
    """A function that runs an operation and returns the backends whose number it changed."""
    for name in ("one", "two"):
        apply_change(PutBackend(name=name, body={"namespace": name, "nodes": []}))
    _put_pool("team", "one")

    def read_numbers() -> dict[str, int]:
        return {each.name: read_generation(each.pk) for each in Backend.objects.filter(name__in=["one", "two"])}

    def run_and_compare(operation: Callable[..., Any], **arguments: Any) -> set[str]:
        before = read_numbers()
        operation(**arguments)
        after = read_numbers()
        return {name for name, number in after.items() if number > before.get(name, 0)}

    return run_and_compare


def _put_pool(name: str, backend: str, guarantee: int = 10) -> None:
    apply_change(PutPool(name=name, body={"backend": backend, "resources": {"gpu": {"guarantee": guarantee}}}))


def test_each_change_of_a_quota_changes_its_own_backend(changed_backends: Callable[..., set[str]]) -> None:
    assert changed_backends(_put_pool, name="other", backend="two") == {"two"}
    assert changed_backends(lambda: apply_change(CreateSubpool(**PART, quota=3))) == {"one"}
    assert changed_backends(lambda: apply_change(ResizeSubpool(**PART, quota=4))) == {"one"}
    assert changed_backends(lambda: apply_change(DeleteSubpool(**PART))) == {"one"}
    assert changed_backends(lambda: apply_change(DeletePool(name="other"))) == {"two"}
    assert changed_backends(lambda: Pool.objects.filter(name="team").update(weight=7)) == {"one"}
    assert changed_backends(lambda: list(Pool.objects.all())) == set()


def test_a_pool_that_moves_changes_both_backends(changed_backends: Callable[..., set[str]]) -> None:
    assert changed_backends(_put_pool, name="team", backend="two") == {"one", "two"}


def test_a_rollback_changes_nothing(changed_backends: Callable[..., set[str]]) -> None:
    def rolled_back() -> None:
        with transaction.atomic():
            Pool.objects.filter(name="team").update(weight=7)
            transaction.set_rollback(True)

    assert changed_backends(rolled_back) == set()


def test_cohorts_change_every_backend_that_has_pools_in_their_tree(changed_backends: Callable[..., set[str]]) -> None:
    _put_pool("other", "two")
    org = Cohort.objects.create(name="org")
    assert changed_backends(lambda: Pool.objects.filter(name="team").update(cohort=org)) == {"one"}
    assert changed_backends(lambda: Pool.objects.filter(name="other").update(cohort=org)) == {"one", "two"}
    assert changed_backends(lambda: Cohort.objects.update(weight=7)) == {"one", "two"}
    assert changed_backends(lambda: Cohort.objects.create(name="lonely")) == set()


def test_a_deleted_backend_loses_its_number(changed_backends: Callable[..., set[str]]) -> None:
    _put_pool("gone", "two")
    apply_change(DeletePool(name="gone"))
    two = Backend.objects.get(name="two")
    subject = f"backend/{two.pk}"
    assert ChangeToken.objects.filter(subject=subject).exists()
    two.delete()
    assert not ChangeToken.objects.filter(subject=subject).exists()


@pytest.mark.race
def test_concurrent_changes_of_many_pools_do_not_deadlock(changed_backends: Callable[..., set[str]]) -> None:
    names = [f"p{number}" for number in range(4)]
    for name in names:
        _put_pool(name, "one")

    def change_all_pools(order: list[str]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '30s'")
            for name in order[:2]:  # two trees each, no two writers share one
                Pool.objects.filter(name=name).update(weight=5)

    one = Backend.objects.get(name="one").pk
    before = read_generation(one)
    outcome = run_concurrently([lambda: change_all_pools(names[:2]), lambda: change_all_pools(names[:1:-1])])
    assert outcome == [None, None]
    assert read_generation(one) == before + 4
