"""The permissions of users: one table of roles and actions (design, D10).

A role is a name: `osmo-admin`, `osmo-viewer`, `osmo-{pool}-admin`, `osmo-{pool}-user`. The prefix and the suffix are
removed, the rest is the pool, so each name means exactly one thing: `osmo-a-admin` is the admin of pool `a`, and the
admin of a pool called `a-admin` is `osmo-a-admin-admin`. No permission depends on a prefix alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

PREFIX = "osmo-"
PLATFORM_ADMIN = "osmo-admin"
PLATFORM_VIEWER = "osmo-viewer"
PLATFORM_ROLES = (PLATFORM_ADMIN, PLATFORM_VIEWER)


class PoolRoleKind(StrEnum):
    """The kinds of pool roles."""

    ADMIN = "admin"
    USER = "user"


class Permission(StrEnum):
    """The permissions. Pool permissions apply to one top-level pool, platform permissions to the whole installation."""

    POOL_READ = "pool:Read"
    POOL_SUBMIT = "workflow:Create"
    POOL_PARTITION = "subpool:Write"
    POOL_MANAGE_WORK = "workflow:Manage"
    POOL_AUDIT = "audit:Read"
    POOL_CONFIGURE = "pool:Write"
    PLATFORM_READ = "platform:Read"
    PLATFORM_WRITE = "platform:Write"


_POOL_USER = frozenset({Permission.POOL_READ, Permission.POOL_SUBMIT})
_POOL_ADMIN = _POOL_USER | {Permission.POOL_PARTITION, Permission.POOL_MANAGE_WORK, Permission.POOL_AUDIT}
_PLATFORM_VIEWER = frozenset({Permission.POOL_READ, Permission.POOL_AUDIT, Permission.PLATFORM_READ})


def pool_role(pool: str, kind: PoolRoleKind) -> str:
    """The name of the role for a top-level pool."""
    return f"{PREFIX}{pool}-{kind}"


def parse_pool_role(role: str) -> tuple[str, PoolRoleKind] | None:
    """(pool, kind) from the name of a pool role; None for platform roles and all other names."""
    if not role.startswith(PREFIX) or role in PLATFORM_ROLES:
        return None
    pool, _, kind = role.removeprefix(PREFIX).rpartition("-")
    return (pool, PoolRoleKind(kind)) if pool and kind in {PoolRoleKind.ADMIN, PoolRoleKind.USER} else None


@dataclass(frozen=True)
class Actor:
    """The actor of a change: a person with roles, possibly through a token (its name and id), or the system itself.
    `is_limited`: the token has a list of roles, and not those of its owner."""

    username: str
    user_id: int | None = None
    roles: frozenset[str] = field(default_factory=frozenset)
    token: str | None = None
    token_id: int | None = None
    is_limited: bool = False
    is_system: bool = False

    @property
    def is_admin(self) -> bool:
        """Whether every action is allowed."""
        return self.is_system or PLATFORM_ADMIN in self.roles

    @property
    def can_read_all(self) -> bool:
        """Whether every row is visible."""
        return self.is_admin or PLATFORM_VIEWER in self.roles

    @property
    def sees_own_account(self) -> bool:
        """Whether the own account as a whole is the actor's business: all its tokens, its mail address, its targets of
        notices. A limited token has to do with itself and the tokens that it made."""
        return self.is_admin or not self.is_limited

    @cached_property
    def permissions_by_pool(self) -> dict[str, frozenset[Permission]]:
        """The top-level pools of the own pool roles, each with the permissions that these roles give."""
        granted: dict[str, frozenset[Permission]] = {}
        for role in self.roles:
            if parsed := parse_pool_role(role):
                pool, kind = parsed
                more = _POOL_ADMIN if kind is PoolRoleKind.ADMIN else _POOL_USER
                granted[pool] = granted.get(pool, frozenset()) | more
        return granted

    def pools_with(self, permission: Permission) -> set[str]:
        """The names of the pools for which an own pool role gives `permission`."""
        return {pool for pool, actions in self.permissions_by_pool.items() if permission in actions}


SYSTEM = Actor(username="system", is_system=True)


def is_allowed(actor: Actor, permission: Permission, pool: str | None = None) -> bool:
    """Whether `actor` has `permission` for the top-level `pool` (None: a platform permission)."""
    if actor.is_admin:
        return True
    if PLATFORM_VIEWER in actor.roles and permission in _PLATFORM_VIEWER:
        return True
    return pool is not None and permission in actor.permissions_by_pool.get(pool, frozenset())


def may_as_owner(actor: Actor, permission: Permission, pool: str) -> bool:
    """Whether the owner of an object of the top-level `pool` may change it as its owner. Persons and their full tokens
    always may, also after the loss of a role; a token with fewer roles needs one that gives `permission` there."""
    return not actor.is_limited or is_allowed(actor, permission, pool)
