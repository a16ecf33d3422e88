"""The one place that takes the row locks of pools and cohorts.

The scarce thing is a pool's tree: slices share its guarantee, work shares its leaves. So the lock is the top-level row,
taken late, once, and (for several) in the order of ids. Give-backs take it too: the last workflow that ends archives
its slice, and that must not meet a recreate half way.

Pools of one cohort share what the cohort's tree can lend, so whoever starts work in such a pool also holds the row at
the top of that tree. The order is: configuration, pools, tops of cohort trees. Giving back takes no cohort's lock: what
others read without it is only less than there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from pools.domain.quota.pool_balance import accounting_quota, unallocated_quota
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Cohort, GpuQuota, GpuUsage, Pool
from pools.models.triggers import CONFIGURATION_LOCK
from pools.selectors.gpu_namespace import QUOTAS_SQL, USAGE_COLUMNS, GpuNamespace, namespace_facts, quota_row
from pools.selectors.submission_path import ROOT_COLUMNS, columns_sql, known_row

# The sum is a statement of its own: inside the first it would be read as of before the lock was had.
_LOCK_SQL = f"""
    SELECT {columns_sql("root", ROOT_COLUMNS)} FROM pools_pool root
        WHERE root.id = %s AND root.parent_id IS NULL FOR NO KEY UPDATE;
    SELECT leaf.subpool_state, leaf.last_quota,
            (SELECT COALESCE(sum(part.last_quota), 0) FROM pools_pool part
                WHERE part.parent_id = %s AND part.subpool_state = '{SubpoolState.ACTIVE}')
        FROM pools_pool leaf WHERE leaf.id = %s
"""

# Two statements: inside the first the quota would be read as of before the lock was had.
_LOCK_NAMESPACES_SQL = f"""
    SELECT {", ".join(USAGE_COLUMNS)} FROM pools_gpuusage WHERE namespace = ANY(%s) ORDER BY namespace FOR NO KEY UPDATE;
    {QUOTAS_SQL}
"""
_NEW_NAMESPACES_SQL = """
    INSERT INTO pools_gpuusage (namespace, requests_tflops, requests_vram, limits_tflops, limits_vram, workers,
        assumed_requests_tflops, assumed_requests_vram, assumed_limits_tflops, assumed_limits_vram, assumed_workers,
        families, revision)
    SELECT unnest(%s::text[]), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'DDDD', 0 ON CONFLICT DO NOTHING
"""


def lock_configuration() -> None:
    """Let one change of the configuration of pools or backends happen at a time, until the transaction ends.

    Revisions are numbered and read back in the order of their changes, and a pool's backend must not move while the
    pool is put there. Taken before any tree; work, which takes only trees, never waits for it.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CONFIGURATION_LOCK])


def lock_pool_tree(root_id: int) -> Pool:
    """Lock the tree of a top-level pool until the transaction ends and return the row as it is now.

    Raises `Pool.DoesNotExist` when it went meanwhile.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return Pool.objects.select_for_update(no_key=True).get(pk=root_id, parent__isnull=True)


def lock_pool_trees(root_ids: Collection[int]) -> list[Pool]:
    """Lock several trees in the one order that everybody keeps."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return list(Pool.objects.select_for_update(no_key=True).filter(pk__in=root_ids, parent__isnull=True).order_by("pk"))


def lock_cohort_trees(cohort_ids: Collection[int]) -> list[int]:
    """Lock the cohort trees in which these cohorts stand and return the ids of their tops, in the order of the locks.

    The pools' locks come before, so that a pool cannot change its cohort meanwhile; a tree may still be hung below
    another one, and is looked for again then.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    tops = cohort_roots(cohort_ids)
    while True:
        wanted = set(tops.values())
        held = [pk for (pk,) in _locked_cohorts(wanted)]
        tops = cohort_roots(cohort_ids)
        if set(tops.values()) == set(held) == wanted:
            return held


def cohort_roots(cohort_ids: Collection[int]) -> dict[int, int]:
    """For each of these cohorts the top of its tree. Where parents run in a circle there is no top, so one of them
    stands for all: nothing starts there, and nothing waits for ever."""
    if not cohort_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH RECURSIVE way (start, id, parent_id) AS (
                SELECT id, id, parent_id FROM pools_cohort WHERE id = ANY(%s)
                UNION
                SELECT way.start, above.id, above.parent_id
                FROM way JOIN pools_cohort above ON above.id = way.parent_id
            )
            SELECT start, COALESCE(min(id) FILTER (WHERE parent_id IS NULL), min(id)) FROM way GROUP BY start
            """,
            [list(cohort_ids)],
        )
        return dict(cursor.fetchall())


def _locked_cohorts(ids: Collection[int]) -> list[tuple[int]]:
    rows = Cohort.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    return list(rows.values_list("pk"))


@dataclass(frozen=True, slots=True)
class LockedLeaf:
    """A leaf as it is under its tree's lock. `allocated` is the sum of the pool's ACTIVE slices, in GPUs."""

    root: Pool
    state: SubpoolState | None
    last_quota: int
    allocated: int

    @property
    def quota(self) -> int:
        """The leaf's accounting quota."""
        if self.state is None:
            return unallocated_quota(self.root.effective_guarantee, self.allocated)
        return accounting_quota(self.state, self.last_quota)


def lock_leaf(leaf: Pool) -> LockedLeaf:
    """Lock the tree of a leaf until the transaction ends, and say what a submission there is judged by, in one round
    trip.

    Raises `Pool.DoesNotExist` when it went meanwhile. See :mod:`pools.locking`, whose order this keeps.
    """
    root_id = leaf.parent_id or leaf.pk
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_SQL, [root_id, root_id, leaf.pk])
        row = cursor.fetchone()
        cursor.nextset()
        facts = cursor.fetchone()
    if row is None or facts is None:
        raise Pool.DoesNotExist
    state, last_quota, allocated = facts
    return LockedLeaf(
        known_row(Pool, ROOT_COLUMNS, row), SubpoolState(state) if state else None, last_quota or 0, allocated
    )


def lock_namespace(name: str) -> GpuNamespace:
    """Lock one namespace until the transaction ends, and say what is true of it."""
    return lock_namespaces([name])[name]


def lock_namespaces(names: Iterable[str]) -> dict[str, GpuNamespace]:
    """Lock several in the one order that everybody keeps. A namespace that nobody knew gets its row."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    wanted = sorted(set(names))
    with connection.cursor() as cursor:
        usage, quotas = _locked_namespaces(cursor, wanted)
        if len(usage) < len(wanted):
            cursor.execute(_NEW_NAMESPACES_SQL, [wanted])
            usage, quotas = _locked_namespaces(cursor, wanted)
    return namespace_facts(wanted, usage, quotas)


def _locked_namespaces(cursor: Any, wanted: Sequence[str]) -> tuple[list[GpuUsage], list[GpuQuota]]:
    cursor.execute(_LOCK_NAMESPACES_SQL, [wanted, wanted])
    usage = [GpuUsage.from_db(connection.alias, USAGE_COLUMNS, row) for row in cursor.fetchall()]
    cursor.nextset()
    return usage, [quota_row(row) for row in cursor.fetchall()]
