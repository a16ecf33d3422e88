"""Every lock of the ledger, and the one order in which a transaction takes locks.

A transaction takes locks only downwards in this table, each as late as possible, and several of one kind in the order
given. Two transactions that keep the order can wait for each other, but never in a cycle.

| # | lock | row or advisory lock | several in the order of |
|---|------|----------------------|-------------------------|
| 1 | idempotency key | its row, by the INSERT that claims it (`pools.services.changes.idempotency`) | one only |
| 2 | account | `User` row; its name, by trigger | name (several only where files of the configuration are applied) |
| 3 | role | `Group` row, while a role is removed from accounts | one only |
| 4 | approval request | `ApprovalRequest` row | one only |
| 5 | configuration | advisory lock `CONFIGURATION_LOCK` | one only |
| 6 | pool tree | row of the top-level `Pool` | id |
| 7 | cohort tree | row of the `Cohort` at the root of the tree | id |
| 8 | GPU namespace | `GpuUsage` row | name |
| 9 | live work of a user | advisory lock `_LOCK_LIVE_WORK_SQL`, user id, by a submission before its commit | one only |
| 10 | stored answers of a user | advisory lock `LOCK_ANSWERS_SQL`, user id, as the last statement | one only |

Rows of change tokens are taken without a wait (`SKIP LOCKED`), in any order.

Locks outside the table: `lock_revision`, `lock_backend` and `lock_grants` are the only lock of their transaction; but
`lock_backend` is the last lock of the deletion of a backend. `lock_last` comes after all others, the rows of accounts
before those of their tokens. `lock_flavors` comes after the configuration, and before any row of a node. The locks of
scheduling's own tables are in :mod:`scheduling.locking`, whose table continues this one. Leases (agents, queue sync,
GPU quota controller) are rows claimed by a single UPDATE, so no lock is held while a lease is.

Triggers repeat locks 5 and 6 for writers that bypass the services; a service that keeps the order holds them already.

The pool tree is the contended lock: subpools share the guarantee of their pool, workflows share its leaves. A release
takes it too, because the last workflow that ends archives its subpool, and that must not interleave with a recreate.
Starting work in a pool of a cohort also takes the cohort tree, since the pools of a tree lend to each other. A release
needs no cohort lock: a reader without the lock sees at most less free quota than there is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Model, QuerySet

from pools.database.driver import is_in_transaction
from pools.database.prepared import Row, read_rows
from pools.database.statements import Statement, execute_sql, read_each
from pools.domain.configuration.flavors import Flavor, flavors_of
from pools.domain.people.roles import Actor
from pools.domain.quota.pool_balance import FlavorQuota, accounting_quota, unallocated_quota
from pools.domain.quota.stored_quotas import StoredFlavors, flavor_quotas, gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, Gpus
from pools.models import ApprovalRequest, Backend, Cohort, ConfigRevision, GpuAllocation, GpuUsage, Pool, User
from pools.models.triggers import CONFIGURATION_LOCK
from pools.selectors.gpu_namespace import (
    NEWEST_ALLOCATION_SQL,
    QUOTAS_SQL,
    USAGE_COLUMNS,
    GpuNamespace,
    allocation_row,
    namespace_facts,
    quota_row,
)
from pools.selectors.quotas.quota_facts import cohort_roots
from pools.selectors.submission_path import ROOT_COLUMNS, columns_sql, known_row

LastRow = TypeVar("LastRow", bound=Model)

LOCK_ANSWERS_SQL = f"SELECT pg_advisory_xact_lock({0x05A1}, %s)"
"""The lock under which the stored answers of a user (id) are counted; a part of the statement that stores one."""

GRANT_LOCK = 0x05A2

_LOCK_LIVE_WORK_SQL = f"SELECT pg_advisory_xact_lock({0x05EA}, %s)"
_LIVE_WORK_SQL = "SELECT COALESCE(sum(workflows), 0)::integer FROM pools_livework WHERE owner = %s"

_LOCK_LEAF_SQL = f"""
    SELECT {columns_sql("root", ROOT_COLUMNS)} FROM pools_pool root
        WHERE root.id = %s AND root.parent_id IS NULL FOR NO KEY UPDATE
"""
# A statement of its own: the first one reads a snapshot from before the lock was granted.
_LEAF_FACTS_SQL = f"""
    SELECT clock_timestamp(), leaf.subpool_state, leaf.last_quota, allocated.total, ({_LIVE_WORK_SQL}),
            leaf.flavors::text, allocated.flavors::text
        FROM pools_pool leaf, (
            SELECT COALESCE(sum(part.last_quota), 0) AS total,
                    jsonb_agg(part.flavors) FILTER (WHERE part.flavors <> '[]') AS flavors
                FROM pools_pool part WHERE part.parent_id = %s AND part.subpool_state = '{SubpoolState.ACTIVE}'
        ) allocated
        WHERE leaf.id = %s
"""

# Two statements: the first reads a snapshot from before the lock was granted, which is too old for the quota.
_LOCK_NAMESPACES_SQL = f"""
    SELECT {", ".join(USAGE_COLUMNS)} FROM pools_gpuusage WHERE namespace = ANY(%s) ORDER BY namespace
        FOR NO KEY UPDATE
"""
_NEW_NAMESPACES_SQL = """
    INSERT INTO pools_gpuusage (namespace, requests_tflops, requests_vram, limits_tflops, limits_vram, workers,
        assumed_requests_tflops, assumed_requests_vram, assumed_limits_tflops, assumed_limits_vram, assumed_workers,
        families, revision)
    SELECT unnest(%s::text[]), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'DDDD', 0 ON CONFLICT DO NOTHING RETURNING namespace
"""


def lock_user(username: str, *, for_deletion: bool = False) -> User | None:
    """Lock an account until the transaction ends, so that changes of one account happen one after the other. None if
    the account does not exist. Only `for_deletion` makes new rows that refer to the account wait, too."""
    _require_transaction()
    return User.objects.select_for_update(no_key=not for_deletion).filter(username=username).first()


def lock_users(usernames: Collection[str]) -> list[User]:
    """Lock several accounts, in the order of names; names without an account are left out."""
    _require_transaction()
    rows = User.objects.select_for_update(no_key=True).filter(username__in=usernames)
    return list(rows.order_by("username"))


def lock_role(role: str) -> None:
    """Let one transaction at a time remove this role from accounts. Granting the role does not wait."""
    _require_transaction()
    list(Group.objects.select_for_update(no_key=True).filter(name=role))


def lock_configuration() -> None:
    """Let one change of the configuration of pools, cohorts and backends happen at a time, until the transaction ends.

    Revisions are numbered and read back in the order of their changes, and the backend of a pool must not change while
    the pool is assigned to it. Submissions and reconciliation take only pool trees, so they never wait for this lock.
    """
    _require_transaction()
    execute_sql("SELECT pg_advisory_xact_lock(%s)", [CONFIGURATION_LOCK])


def lock_pool_tree(root_id: int) -> Pool:
    """Lock the tree of a top-level pool until the transaction ends and return the row as it is now.

    Raises `Pool.DoesNotExist` if the pool was deleted meanwhile.
    """
    _require_transaction()
    return Pool.objects.select_for_update(no_key=True).get(pk=root_id, parent__isnull=True)


def lock_pool_trees(root_ids: Collection[int]) -> list[Pool]:
    """Lock several pool trees, in the order of ids."""
    _require_transaction()
    return list(Pool.objects.select_for_update(no_key=True).filter(pk__in=root_ids, parent__isnull=True).order_by("pk"))


def lock_cohort_trees(cohort_ids: Collection[int]) -> list[int]:
    """Lock the trees of these cohorts and return the ids of the root cohorts, in the order of the locks.

    The locks of the pools come before, so no pool changes its cohort meanwhile. A tree may still be moved below another
    one while this transaction waits, so the roots are looked up again once the locks are held.
    """
    _require_transaction()
    roots = cohort_roots(cohort_ids)
    while True:
        wanted = set(roots.values())
        held = list(
            Cohort.objects.select_for_update(no_key=True)
            .filter(pk__in=wanted)
            .order_by("pk")
            .values_list("pk", flat=True)
        )
        roots = cohort_roots(cohort_ids)
        if set(roots.values()) == set(held) == wanted:
            return held


def lock_approval(pk: int) -> ApprovalRequest:
    """Lock one approval request until the transaction ends. Raises `ApprovalRequest.DoesNotExist`."""
    _require_transaction()
    return ApprovalRequest.objects.select_for_update(no_key=True).get(pk=pk)


def lock_revision(pk: int) -> ConfigRevision:
    """Lock one revision of the configuration until the transaction ends."""
    _require_transaction()
    return ConfigRevision.objects.select_for_update().get(pk=pk)


def lock_backend(pk: int) -> Backend:
    """Lock the row of a backend until the transaction ends, for a change of its dependent rows, such as its webhook,
    and for its deletion: no row that refers to it can be committed meanwhile."""
    _require_transaction()
    return Backend.objects.select_for_update().get(pk=pk)


def lock_flavors(backend: Backend) -> tuple[Flavor, ...]:
    """Lock the flavors of a backend until the transaction ends, for a change of them or of the labels of its nodes,
    from which the flavors of the nodes follow. Return them as they are now."""
    _require_transaction()
    rows = Backend.objects.select_for_update(no_key=True).values_list("flavors", flat=True)
    return flavors_of(rows.get(pk=backend.pk))


def lock_grants() -> None:
    """Let one migration at a time change the roles of the database and what they may do."""
    _require_transaction()
    execute_sql("SELECT pg_advisory_xact_lock(%s)", [GRANT_LOCK])


def lock_last(rows: QuerySet[LastRow]) -> list[LastRow]:
    """Lock rows of tokens, destinations of notices or saved views as the last locks of a transaction, and return them
    as they are then."""
    _require_transaction()
    return list(rows.select_for_update().order_by("pk"))


def _require_transaction() -> None:
    assert is_in_transaction(), "a lock outside a transaction protects nothing"


@dataclass(frozen=True, slots=True)
class LeafReading:
    """A leaf, read for a submission. `allocated` is the sum of the quotas of the pool's ACTIVE subpools; `live` counts
    the committed live workflows of the user on all leaves; `time` is that of the read, by the database's clock."""

    root: Pool
    time: datetime
    state: SubpoolState | None
    last_quota: int
    allocated: int
    live: int
    own_flavors: StoredFlavors = ()
    allocated_flavors: Sequence[StoredFlavors] = ()

    @property
    def quota(self) -> Gpus:
        """The leaf's accounting quota."""
        if self.state is None:
            return unallocated_quota(self.root.effective_guarantee, self.allocated)
        return accounting_quota(self.state, self.last_quota)

    @property
    def quotas(self) -> list[tuple[str, Gpus, Gpus]]:
        """The same by GPU flavor, each with the maximum of its pool: (flavor, quota, maximum)."""
        if not self.root.flavors:
            return [(DEFAULT_FLAVOR, self.quota, self.root.effective_maximum)]
        return [(each.flavor, self._quota_of(each), each.maximum) for each in flavor_quotas(self.root.flavors)]

    def _quota_of(self, pool: FlavorQuota) -> Gpus:
        if self.state is None:
            parts = (gpus_by_flavor(stored).get(pool.flavor, 0) for stored in self.allocated_flavors)
            return unallocated_quota(pool.quota, sum(parts))
        return accounting_quota(self.state, gpus_by_flavor(self.own_flavors).get(pool.flavor, 0))


def lock_leaf(leaf: Pool, user: Actor) -> LeafReading | None:
    """Lock the tree of a leaf until the transaction ends and return the facts that decide on a submission of a user, in
    one round trip. None if the leaf was deleted meanwhile."""
    _require_transaction()
    roots, facts = read_each((_LOCK_LEAF_SQL, [leaf.parent_id or leaf.pk]), _leaf_facts(leaf, user))
    return _leaf_reading(known_row(Pool, ROOT_COLUMNS, roots[0]), facts) if roots else None


def read_leaf(leaf: Pool, user: Actor) -> LeafReading | None:
    """The same facts without a lock, for a preview: they may be outdated as soon as they are read. `leaf` was read a
    moment ago, with its root."""
    [facts] = read_each(_leaf_facts(leaf, user))
    return _leaf_reading(leaf.root, facts)


def _leaf_facts(leaf: Pool, user: Actor) -> Statement:
    return _LEAF_FACTS_SQL, [user.username, leaf.parent_id or leaf.pk, leaf.pk]


def _leaf_reading(root: Pool, facts: Sequence[Row]) -> LeafReading | None:
    if not facts:
        return None
    time, state, last_quota, allocated, live, *flavors = facts[0]
    own, others = (() if written is None else json.loads(written) for written in flavors)
    state = SubpoolState(state) if state else None
    return LeafReading(root, time, state, last_quota or 0, allocated, live, own, others)


def lock_live_work(user: Actor) -> int:
    """Let one submission of a user at a time count the user's live workflows, until the transaction ends, and return
    their number on all leaves. The caller has inserted its own, so the lock is held for the commit only."""
    _require_transaction()
    _, [[live]] = read_each((_LOCK_LIVE_WORK_SQL, [user.user_id]), (_LIVE_WORK_SQL, [user.username]))
    return int(live)


def lock_namespace(name: str) -> GpuNamespace:
    """Lock one GPU namespace until the transaction ends and return its quota and usage."""
    return lock_namespaces([name])[name]


def lock_namespaces(names: Iterable[str]) -> dict[str, GpuNamespace]:
    """Lock several GPU namespaces, in the order of names. A namespace without a usage row gets one."""
    _require_transaction()
    wanted = sorted(set(names))
    usage, quotas = _lock_namespace_rows(wanted)
    if len(usage) < len(wanted):
        read_rows(_NEW_NAMESPACES_SQL, [wanted])
        usage, quotas = _lock_namespace_rows(wanted)
    return namespace_facts(wanted, usage, quotas)


def lock_namespace_and_worker(namespace: str, worker: str) -> tuple[GpuNamespace, GpuAllocation | None]:
    """Lock one GPU namespace like :func:`lock_namespace`, and read the newest allocation of a worker's id under the
    lock, in one round trip. At most one allocation of an id is live, and it is the newest."""
    _require_transaction()
    wanted = [namespace]
    newest_of_id: Statement = (NEWEST_ALLOCATION_SQL, [namespace, worker])
    usage, quotas, newest = _lock_namespace_rows(wanted, newest_of_id)
    if not usage:
        read_rows(_NEW_NAMESPACES_SQL, [wanted])
        usage, quotas, newest = _lock_namespace_rows(wanted, newest_of_id)
    facts = namespace_facts(wanted, usage, quotas)[namespace]
    return facts, allocation_row(newest[0]) if newest else None


def _lock_namespace_rows(wanted: Sequence[str], *more: Statement) -> Any:
    """The locked rows of usage, the quotas, and the rows of the statements that follow under the lock."""
    usage, quotas, *others = read_each((_LOCK_NAMESPACES_SQL, [wanted]), (QUOTAS_SQL, [wanted]), *more)
    return (
        [GpuUsage.from_db(connection.alias, USAGE_COLUMNS, row) for row in usage],
        [quota_row(row) for row in quotas],
        *others,
    )
