"""The policy of all interfaces: the actions that an actor may do, and the objects that an actor may see."""

from __future__ import annotations

from pools.domain.errors import Forbidden, NotFound
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE
from pools.domain.names import split_name
from pools.domain.people.roles import Actor, Permission, is_allowed, may_as_owner
from pools.models import Pool

_NEEDED = {
    Permission.POOL_SUBMIT: "osmo-{pool}-user or osmo-{pool}-admin",
    Permission.POOL_PARTITION: "osmo-{pool}-admin",
    Permission.POOL_MANAGE_WORK: "osmo-{pool}-admin",
    Permission.POOL_AUDIT: "osmo-{pool}-admin",
}


def unknown_pool(name: str) -> NotFound:
    """The same error for a pool that does not exist and for one that the actor may not see, on purpose."""
    return NotFound(f"Pool {name} does not exist, or you have no role on it.")


def require_platform(actor: Actor, permission: Permission = Permission.PLATFORM_WRITE) -> None:
    """Refuse actors without the platform role. Platform objects are not secret, so the error is always Forbidden."""
    if not is_allowed(actor, permission):
        raise Forbidden(f"This needs the role {platform_roles(permission)}; {actor.username} does not have it.")


def platform_roles(permission: Permission | None) -> str:
    """The platform roles that give a permission, for a sentence."""
    return "osmo-admin or osmo-viewer" if permission is Permission.PLATFORM_READ else "osmo-admin"


def require_own_account(actor: Actor) -> None:
    """Refuse a token with fewer roles than its owner: where news of all the owner's work goes is not its business, and
    would stay changed after its end; nor is what its owner has saved and read."""
    if not actor.sees_own_account:
        raise Forbidden(
            f"The token {actor.token} has only some roles of {actor.username}: of the account it changes neither the "
            "mail address, the notices and their destinations, nor the saved views and what was read of the inbox. "
            "Log in as the user, or with a token of all roles."
        )


def require_as_owner(actor: Actor, permission: Permission, pool: str) -> None:
    """Refuse a token with fewer roles than the owner of an object of the top-level `pool`, unless its own roles give
    `permission` there. The owner sees the object, so the error is always Forbidden."""
    if not may_as_owner(actor, permission, pool):
        needed = _NEEDED.get(permission, "osmo-admin").format(pool=pool)
        raise Forbidden(
            f"The token {actor.token} has only some roles of {actor.username}, and this needs {needed}. Log in as the "
            "user, or with a token that has this role."
        )


def get_visible_pool(actor: Actor, name: str) -> Pool:
    """The pool or subpool of this canonical name. Raises NotFound if it does not exist or is not visible to `actor`."""
    pool = (
        Pool.objects.visible_to(actor).select_related("parent__backend", "backend", "cohort").filter(name=name).first()
    )
    if pool is None:
        raise unknown_pool(name)
    return pool


def get_visible_root(actor: Actor, name: str) -> Pool:
    """The top-level pool of this name, visible to `actor`. Raises NotFound."""
    roots = Pool.objects.visible_to(actor).roots().select_related("backend", "cohort")
    if (pool := roots.filter(name=name).first()) is None:
        raise unknown_pool(name)
    return pool


def require_permission(actor: Actor, permission: Permission, pool: str) -> None:
    """Refuse actors without `permission` on the tree of `pool` (canonical name): NotFound if the pool is not visible to
    the actor, else Forbidden with the missing role."""
    root = split_name(pool).parent
    if is_allowed(actor, permission, root):
        return
    if not is_allowed(actor, Permission.POOL_READ, root):
        raise unknown_pool(pool)
    needed = _NEEDED.get(permission, "osmo-admin").format(pool=root)
    raise Forbidden(f"This needs the role {needed}; {actor.username} does not have it.")


def namespaces_for(actor: Actor, permission: Permission = Permission.POOL_READ) -> set[str] | None:
    """The namespaces of the pools on which `actor` has this permission; None means all."""
    if actor.is_admin or (actor.can_read_all and permission is Permission.POOL_READ):
        return None
    pools = Pool.objects.roots().filter(name__in=actor.pools_with(permission), archived=False)
    return {name for name in pools.values_list(f"config__{GPU_NAMESPACE}", flat=True) if name}


def require_namespace(actor: Actor, namespace: str, permission: Permission = Permission.POOL_READ) -> None:
    """Refuse unless `actor` may do this in the namespace: NotFound if it may not even be seen, else Forbidden."""
    allowed = namespaces_for(actor, permission)
    if allowed is None or namespace in allowed:
        return
    readable = namespaces_for(actor)
    if readable is not None and namespace not in readable:
        raise unknown_namespace(namespace)
    raise Forbidden(
        f"This needs the role osmo-admin, or osmo-POOL-admin of a pool whose namespace is {namespace}; "
        f"{actor.username} does not have it."
    )


def may_allocate(actor: Actor, namespace: str) -> bool:
    """Whether :func:`require_namespace` would let this actor allocate and release there."""
    allowed = namespaces_for(actor, Permission.POOL_MANAGE_WORK)
    return allowed is None or namespace in allowed


def may_write_gpu_quota(actor: Actor) -> bool:
    """Whether this actor may write quotas."""
    return is_allowed(actor, Permission.PLATFORM_WRITE)


def unknown_namespace(namespace: str) -> NotFound:
    """The same error for a namespace that does not exist and for one that the actor may not see, on purpose."""
    return NotFound(f"Namespace {namespace[:100]} has no GPU quota, or you have no role on a pool that uses it.")
