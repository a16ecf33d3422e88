"""The one place that takes the row locks of pools and cohorts.

The scarce thing is a pool's tree: slices share its guarantee, work shares its leaves. So the lock is the top-level row,
taken late, once, and (for several) in the order of ids. Give-backs take it too: the last workflow that ends archives
its slice, and that must not meet a recreate half way.

Pools of one cohort share what the cohort's tree can lend, so whoever starts work in such a pool also holds the row at
the top of that tree. The order is: configuration, pools, tops of cohort trees. Giving back takes no cohort's lock: what
others read without it is only less than there is.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection

from pools.models import Cohort, Pool
from pools.triggers import CONFIGURATION_LOCK


def lock_configuration() -> None:
    """Let one change of the configuration of pools or backends happen at a time, until the transaction ends.

    Revisions are numbered and read back in the order of their changes, and a pool's backend must not move while the
    pool is put there. Taken before any tree; work, which takes only trees, never waits for it.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CONFIGURATION_LOCK])


def lock_tree(root_id: int) -> Pool:
    """Lock the tree of a top-level pool until the transaction ends and return the row as it is now.

    Raises `Pool.DoesNotExist` when it went meanwhile.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return Pool.objects.select_for_update(no_key=True).get(pk=root_id, parent__isnull=True)


def lock_trees(root_ids: Collection[int]) -> list[Pool]:
    """Lock several trees in the one order that everybody keeps."""
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    return list(Pool.objects.select_for_update(no_key=True).filter(pk__in=root_ids, parent__isnull=True).order_by("pk"))


def lock_cohort_trees(cohort_ids: Collection[int]) -> list[int]:
    """Lock the cohort trees in which these cohorts stand and return the ids of their tops, in the order of the locks.

    The pools' locks come before, so that a pool cannot change its cohort meanwhile; a tree may still be hung below
    another one, and is looked for again then.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    tops = cohort_tops(cohort_ids)
    while True:
        wanted = set(tops.values())
        held = [pk for (pk,) in _locked_cohorts(wanted)]
        tops = cohort_tops(cohort_ids)
        if set(tops.values()) == set(held) == wanted:
            return held


def cohort_tops(cohort_ids: Collection[int]) -> dict[int, int]:
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
