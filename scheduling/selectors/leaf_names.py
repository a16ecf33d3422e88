"""The leaves that the name of a pool in a request refers to."""

from __future__ import annotations

from pools.domain import names
from pools.domain.roles import Actor
from pools.models import Pool


def leaf_names_of(actor: Actor, text: str) -> list[str]:
    """The canonical names of the leaves that `text` names: a pool with its subpools, one subpool, or with `--_shared`
    the shared remainder of a pool."""
    path = names.split_name(text)
    if path.subpool == names.SHARED_QUEUE:
        return [path.parent]
    if path.subpool is not None:
        return [text]
    subpools = Pool.objects.visible_to(actor).filter(parent__name=text).values_list("name", flat=True)
    return [text, *subpools]
