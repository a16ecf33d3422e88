"""The generation of a backend: every change of its quotas is counted in its own transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from pools.domain.roles import SYSTEM
from pools.models import Backend, Cohort, LedgerGeneration, Pool
from pools.services.backends import put_backend
from pools.services.pools import delete_pool, put_pool
from pools.services.subpools import create_subpool, delete_subpool, resize_subpool
from tests.support.threads import run_concurrently

pytestmark = pytest.mark.usefixtures("ledger")


@pytest.fixture
def moved() -> Callable[..., set[str]]:
    """Which backends' numbers an operation moves."""
    for name in ("one", "two"):
        put_backend(actor=SYSTEM, name=name, body={"namespace": name, "nodes": []})
    _pool("team", "one")

    def numbers() -> dict[str, int]:
        rows = LedgerGeneration.objects.values_list("backend__name", "number")
        return {name: number for name, number in rows if name in {"one", "two"}}

    def of(operation: Callable[..., Any], **arguments: Any) -> set[str]:
        before = numbers()
        operation(**arguments)
        after = numbers()
        return {name for name, number in after.items() if number > before.get(name, 0)}

    return of


def _pool(name: str, backend: str, guarantee: int = 10) -> None:
    put_pool(actor=SYSTEM, name=name, body={"backend": backend, "resources": {"gpu": {"guarantee": guarantee}}})


def test_each_change_of_a_promise_moves_its_own_backend(moved: Callable[..., set[str]]) -> None:
    assert moved(_pool, name="other", backend="two") == {"two"}
    assert moved(create_subpool, actor=SYSTEM, parent="team", subpool_name="a", quota=3) == {"one"}
    assert moved(resize_subpool, actor=SYSTEM, parent="team", subpool_name="a", quota=4) == {"one"}
    assert moved(delete_subpool, actor=SYSTEM, parent="team", subpool_name="a") == {"one"}
    assert moved(delete_pool, actor=SYSTEM, name="other") == {"two"}
    assert moved(lambda: Pool.objects.filter(name="team").update(weight=7)) == {"one"}
    assert moved(lambda: list(Pool.objects.all())) == set()


def test_a_pool_that_moves_moves_both(moved: Callable[..., set[str]]) -> None:
    assert moved(_pool, name="team", backend="two") == {"one", "two"}


def test_what_is_rolled_back_moves_nothing(moved: Callable[..., set[str]]) -> None:
    def rolled_back() -> None:
        with transaction.atomic():
            Pool.objects.filter(name="team").update(weight=7)
            transaction.set_rollback(True)

    assert moved(rolled_back) == set()


def test_cohorts_move_every_backend_that_has_pools(moved: Callable[..., set[str]]) -> None:
    _pool("other", "two")
    assert moved(lambda: Cohort.objects.create(name="org")) == {"one", "two"}


def test_a_backend_takes_its_number_along(moved: Callable[..., set[str]]) -> None:
    _pool("gone", "two")
    delete_pool(actor=SYSTEM, name="gone")
    Backend.objects.get(name="two").delete()
    assert not LedgerGeneration.objects.filter(backend__name="two").exists()


@pytest.mark.race
def test_changes_of_many_pools_at_once_do_not_wait_in_a_circle(moved: Callable[..., set[str]]) -> None:
    names = [f"p{number}" for number in range(4)]
    for name in names:
        _pool(name, "one")

    def all_of_them(order: list[str]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '30s'")
            for name in order[:2]:  # two trees each, no two writers share one
                Pool.objects.filter(name=name).update(weight=5)

    before = LedgerGeneration.objects.get(backend__name="one").number
    outcome = run_concurrently([lambda: all_of_them(names[:2]), lambda: all_of_them(names[:1:-1])])
    assert outcome == [None, None]
    assert LedgerGeneration.objects.get(backend__name="one").number == before + 4
