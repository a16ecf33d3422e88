"""Who sees and who moves GPU quota. It is kept by namespace, and a namespace belongs to the pools that name it.

Whoever may see such a pool sees the namespace's quota and its allocations; an admin of such a pool allocates, adjusts
and releases there, as cancelling work is an admin's. Quotas themselves, and namespaces that no pool names, are the
house's: `osmo-admin` writes them, `osmo-viewer` reads them (D10).
"""

from __future__ import annotations

from pools.domain.errors import Forbidden, NotFound
from pools.domain.gpu_config import GPU_NAMESPACE
from pools.domain.roles import Action, Actor, allows
from pools.models import Pool


def namespaces_for(actor: Actor, action: Action = Action.POOL_READ) -> set[str] | None:
    """The namespaces of the pools on which `actor` may do this; None means all there are."""
    if actor.is_admin or (actor.reads_all and action is Action.POOL_READ):
        return None
    pools = Pool.objects.roots().filter(name__in=actor.pools_for(action), archived=False)
    return {name for name in pools.values_list(f"config__{GPU_NAMESPACE}", flat=True) if name}


def require_namespace(actor: Actor, namespace: str, action: Action = Action.POOL_READ) -> None:
    """Refuse unless `actor` may do this in the namespace: NotFound if it may not even be seen, else Forbidden."""
    allowed = namespaces_for(actor, action)
    if allowed is None or namespace in allowed:
        return
    seen = namespaces_for(actor)
    if seen is not None and namespace not in seen:
        raise unseen(namespace)
    raise Forbidden(
        f"This needs the role osmo-admin, or osmo-POOL-admin of a pool whose namespace is {namespace}; "
        f"{actor.username} does not have it."
    )


def may_allocate(actor: Actor, namespace: str) -> bool:
    """Whether :func:`require_namespace` would let this actor allocate and release there."""
    allowed = namespaces_for(actor, Action.POOL_MANAGE_WORK)
    return allowed is None or namespace in allowed


def may_write(actor: Actor) -> bool:
    """Whether this actor may write quotas."""
    return allows(actor, Action.HOUSE_WRITE)


def unseen(namespace: str) -> NotFound:
    """The answer for a namespace that is not there or not to be seen; the same on purpose."""
    return NotFound(f"Namespace {namespace[:100]} has no GPU quota, or you have no role on a pool that uses it.")
