"""Random writes over pools with one to four flavors, through the services and past them: at every commit the remainder
and the ACTIVE subpools are the quota of their pool, flavor by flavor."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool, PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, ResizeSubpools
from pools.domain.errors import DomainError
from pools.models import Pool
from pools.selectors.quotas.pool_balance import read_balances
from pools.services.configuration.subpools import end_temporary_quotas
from tests.support import world
from tests.support.threads import run_concurrently

FLAVORS = ("h100", "a100", "l40", "default")
SEEDS = (7, 8, 9, 10)
WRITES = {"default": 120, "nightly": 10_000}  # of all seeds together
POOLS = tuple(f"p{count}" for count in range(1, len(FLAVORS) + 1))
PARTS = ("a", "b", "c")


def make_pools() -> None:
    """One pool with each number of flavors, 16 GPUs of each."""
    backend = world.make_backend(nodes=3, gpus=8)
    named = [{"name": name, "node_labels": {"gpu": name}} for name in FLAVORS[:-1]]
    world.apply_change(PutBackend(name=backend.name, body={"flavors": named}))
    for count, name in enumerate(POOLS, 1):
        quotas = {flavor: {"guarantee": 16} for flavor in FLAVORS[:count]}
        body = {"backend": backend.name, "resources": {"flavors": quotas}}
        world.apply_change(PutPool(name=name, body=body))


def broken_sums() -> list[str]:
    """What does not add up, read from the rows alone."""
    found = []
    for root in Pool.objects.roots():
        wanted = {row["flavor"]: row["quota"] for row in root.flavors}
        if wanted and sum(wanted.values()) != root.guarantee:
            found.append(f"{root.name}: {wanted} is not {root.guarantee}")
        given = dict.fromkeys(wanted, 0)
        for part in Pool.objects.filter(parent=root, subpool_state="ACTIVE"):
            own = {row["flavor"]: row["quota"] for row in part.flavors}
            after = {row["flavor"]: row["quota"] for row in part.flavors_after}
            if wanted and sum(own.values()) != part.last_quota:
                found.append(f"{part.name}: {own} is not {part.last_quota}")
            if wanted and part.quota_after is not None and sum(after.values()) != part.quota_after:
                found.append(f"{part.name}: {after} is not {part.quota_after}")
            for flavor, gpus in own.items():
                given[flavor] = given.get(flavor, 0) + gpus
        found += [f"{root.name}: {given} of {wanted}" for flavor in given if given[flavor] > wanted.get(flavor, 0)]
    for balance in read_balances(Pool.objects.roots()).values():
        for flavor, kind in balance.kinds.items():
            if kind.unallocated + kind.allocated != kind.guarantee or kind.unallocated < 0:
                found.append(f"{balance.name}: {flavor} {kind.unallocated} + {kind.allocated}")
        if balance.kinds and sum(kind.unallocated for kind in balance.kinds.values()) != balance.unallocated:
            found.append(f"{balance.name}: the flavors do not add up")
    return found


def random_write(random: Random) -> Callable[[], object]:
    """One write, through a service or as raw SQL; most are allowed, many are not."""
    pool, part = random.choice(POOLS), random.choice(PARTS)
    flavors = random.sample(FLAVORS, random.randint(1, len(FLAVORS)))
    quotas: dict[str, Any] = {flavor: random.choice([0, 1, 3, 7, 16, "25%", -1]) for flavor in flavors}
    address = {"parent": pool, "subpool_name": part}
    until = timezone.now() + timedelta(days=1)
    amounts = {flavor: {"guarantee": random.randint(0, 24)} for flavor in flavors}
    rows = [{"flavor": flavor, "quota": random.randint(0, 12)} for flavor in flavors]
    total = sum(row["quota"] for row in rows) + random.choice([0, 0, 1])
    raw = {
        "part": (
            f"UPDATE pools_pool SET flavors = '{json.dumps(rows)}', last_quota = {total} WHERE name = '{pool}--{part}'"
        ),
        "pool": f"UPDATE pools_pool SET flavors = '{json.dumps(rows)}', guarantee = {total} WHERE name = '{pool}'",
        "state": f"UPDATE pools_pool SET subpool_state = 'ARCHIVED' WHERE name = '{pool}--{part}'",
        "none": f"UPDATE pools_pool SET flavors = '[]' WHERE name = '{pool}--{part}'",
    }
    choices: list[Callable[[], object]] = [
        lambda: world.apply_change(CreateSubpool(**address, quotas=quotas)),
        lambda: world.apply_change(ResizeSubpool(**address, quotas=quotas)),
        lambda: world.apply_change(ResizeSubpool(**address, quotas=quotas, until=until)),
        lambda: world.apply_change(ResizeSubpool(**address, quota=random.randint(0, 9))),
        lambda: world.apply_change(ResizeSubpools(quotas={f"{pool}--{each}": quotas for each in PARTS[:2]})),
        lambda: world.apply_change(DeleteSubpool(**address)),
        lambda: world.apply_change(PatchPool(name=pool, patch={"resources": {"flavors": amounts}})),
        lambda: world.apply_change(
            PatchPool(name=pool, patch={"resources": {"flavors": {"$action": "replace", **amounts}}})
        ),
        lambda: _execute(random.choice(list(raw.values()))),
        lambda: _execute(raw["part"]),
        _end_temporary,
    ]
    return random.choice(choices)


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _end_temporary() -> None:
    Pool.objects.filter(quota_until__isnull=False).update(quota_until=timezone.now() - timedelta(seconds=1))
    end_temporary_quotas()


def attempt(write: Callable[[], object]) -> bool:
    """Make and commit the write, if nothing refuses it."""
    try:
        with transaction.atomic():
            write()
    except (DomainError, DatabaseError):
        return False
    return True


@pytest.mark.django_db(transaction=True)  # in one transaction, each write would read the row versions of all before
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_writes_keep_the_sums_of_every_flavor(seed: int, request: pytest.FixtureRequest) -> None:
    make_pools()
    nightly = bool(request.config.getoption("--nightly"))
    random = Random(seed)  # reproducible
    writes, done = WRITES["nightly" if nightly else "default"] // len(SEEDS), 0
    for number in range(writes):
        if attempt(random_write(random)):  # a refused write is rolled back
            done += 1
            assert broken_sums() == [], number
    assert broken_sums() == []
    assert done > writes / 10, "most writes were refused"


@pytest.mark.race
@pytest.mark.django_db(transaction=True)
def test_two_writers_at_once_keep_the_sums_of_every_flavor() -> None:
    """Each takes the whole of another flavor, and both want the last GPUs of one."""
    make_pools()
    for part in PARTS:
        world.apply_change(CreateSubpool(parent="p2", subpool_name=part, quotas={"h100": 0}))

    def raw(part: str) -> None:
        rows = json.dumps([{"flavor": "h100", "quota": 10}])
        with transaction.atomic():
            _execute(f"UPDATE pools_pool SET flavors = '{rows}', last_quota = 10 WHERE name = 'p2--{part}'")

    def resize(part: str) -> object:
        return world.apply_change(ResizeSubpool(parent="p2", subpool_name=part, quotas={"h100": 10, "a100": 5}))

    results = run_concurrently([lambda: raw("a"), lambda: raw("b"), lambda: resize("c")])
    assert len([each for each in results if isinstance(each, Exception)]) == 2
    assert broken_sums() == []
