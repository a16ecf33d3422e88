"""Two admins write the configuration at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pools.domain.changes.pools import PutPool
from pools.domain.errors import Conflict
from pools.models import ConfigRevision, Pool
from pools.services.configuration import config_history, pool_configuration
from pools.services.configuration.config_history import pools_at
from pools.services.configuration.pool_configuration import PoolResult
from tests.support import world
from tests.support.races import Rendezvous
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _put_pool_operation(name: str) -> Callable[[], PoolResult]:
    body = {"backend": "sim", "resources": {"gpu": {"guarantee": 1}}}
    return lambda: world.apply_change(PutPool(name=name, body=body))


def test_without_the_lock_two_writes_get_the_same_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_backend()
    monkeypatch.setattr(pool_configuration, "lock_configuration", lambda: None)
    Rendezvous(2, 20).after_call(monkeypatch, config_history, "next_revision")
    results = run_concurrently([_put_pool_operation("a"), _put_pool_operation("b")])
    assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict]
    assert ConfigRevision.objects.count() == 1


def test_with_the_lock_each_revision_contains_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_backend()
    Rendezvous(2, 0.2).after_call(monkeypatch, config_history, "next_revision")
    results = run_concurrently([_put_pool_operation(f"p{number}") for number in range(6)])
    assert all(isinstance(result, PoolResult) for result in results), results
    revisions = list(ConfigRevision.objects.order_by("revision"))
    assert [row.revision for row in revisions] == [1, 2, 3, 4, 5, 6]
    names: list[str] = []
    for row in revisions:
        names.append(row.name)
        assert [pool.name for pool in pools_at(row.audit_id)] == sorted(names)


def test_two_puts_of_one_new_name_create_one_pool() -> None:
    world.make_backend()
    results = run_concurrently([_put_pool_operation("a"), _put_pool_operation("a"), _put_pool_operation("a")])
    assert all(isinstance(result, PoolResult) for result in results), results
    assert Pool.objects.get().name == "a"
