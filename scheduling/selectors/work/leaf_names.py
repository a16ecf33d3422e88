"""The leaves that the name of a pool in a request refers to."""

from __future__ import annotations

from pools.database.prepared import read_rows
from pools.domain import names
from pools.domain.people.roles import Actor, Permission


def leaf_names_of(actor: Actor, *texts: str) -> list[str]:
    """The canonical names of the leaves that the texts name: a pool with its subpools, one subpool, or with `--_shared`
    the shared remainder of a pool."""
    return [name for text in texts for name in _leaf_names(actor, text)]


def _leaf_names(actor: Actor, text: str) -> list[str]:
    path = names.split_name(text)
    if path.subpool == names.SHARED_QUEUE:
        return [path.parent]
    if path.subpool is not None:
        return [text]
    if not actor.can_read_all and text not in actor.pools_with(Permission.POOL_READ):
        return [text]
    return [text, *(name for (name,) in read_rows(_SUBPOOLS_SQL, [text]))]


# By hand, because every question about the queue of a pool begins with it.
_SUBPOOLS_SQL = """
    SELECT leaf.name FROM pools_pool leaf JOIN pools_pool root ON root.id = leaf.parent_id WHERE root.name = %s
    ORDER BY leaf.name
"""
