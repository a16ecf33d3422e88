"""The one place that takes pool row locks.

The scarce thing is a pool's tree: slices share its guarantee, work shares its leaves. So the lock is the top-level row,
taken late, once, and (for several) in the order of ids. Give-backs take it too: the last workflow that ends archives
its slice, and that must not meet a recreate half way.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection

from pools.models import Pool

_CONFIGURATION = 0x05A0  # the advisory lock of configuration writes


def lock_configuration() -> None:
    """Let one change of the configuration of pools or backends happen at a time, until the transaction ends.

    Revisions are numbered and read back in the order of their changes, and a pool's backend must not move while the
    pool is put there. Taken before any tree; work, which takes only trees, never waits for it.
    """
    assert connection.in_atomic_block, "a lock outside a transaction protects nothing"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CONFIGURATION])


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
