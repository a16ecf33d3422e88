"""Who may do what: one table of roles and actions (decision D10).

A role is a name: `osmo-admin`, `osmo-viewer`, `osmo-{pool}-admin`, `osmo-{pool}-user`. The name is taken apart from its
ends, so each name means exactly one thing: `osmo-a-admin` is the admin of pool `a`, and the admin of a pool called
`a-admin` is `osmo-a-admin-admin`. Nothing is ever matched by prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

PREFIX = "osmo-"
HOUSE_ADMIN = "osmo-admin"
HOUSE_VIEWER = "osmo-viewer"
HOUSE_ROLES = (HOUSE_ADMIN, HOUSE_VIEWER)


class Kind(StrEnum):
    """What a pool role lets its holder be to that pool."""

    ADMIN = "admin"
    USER = "user"


class Action(StrEnum):
    """What is asked. Pool actions are asked of one top-level pool; house actions of nothing."""

    POOL_READ = "pool:Read"
    POOL_SUBMIT = "workflow:Create"
    POOL_PARTITION = "subpool:Write"
    POOL_MANAGE_WORK = "workflow:Manage"
    POOL_AUDIT = "audit:Read"
    POOL_CONFIGURE = "pool:Write"
    HOUSE_READ = "house:Read"
    HOUSE_WRITE = "house:Write"


_POOL_USER = frozenset({Action.POOL_READ, Action.POOL_SUBMIT})
_POOL_ADMIN = _POOL_USER | {Action.POOL_PARTITION, Action.POOL_MANAGE_WORK, Action.POOL_AUDIT}
_HOUSE_VIEWER = frozenset({Action.POOL_READ, Action.POOL_AUDIT, Action.HOUSE_READ})


def pool_role(pool: str, kind: Kind) -> str:
    """The role's name for a top-level pool."""
    return f"{PREFIX}{pool}-{kind}"


def parse_pool_role(role: str) -> tuple[str, Kind] | None:
    """(pool, kind) of a pool role's name; None for house roles and everything else."""
    if not role.startswith(PREFIX) or role in HOUSE_ROLES:
        return None
    pool, _, kind = role.removeprefix(PREFIX).rpartition("-")
    return (pool, Kind(kind)) if pool and kind in {Kind.ADMIN, Kind.USER} else None


@dataclass(frozen=True)
class Actor:
    """Who acts: a person with roles, possibly through a token, or the system itself."""

    username: str
    user_id: int | None = None
    roles: frozenset[str] = field(default_factory=frozenset)
    token: str | None = None
    is_system: bool = False

    @property
    def is_admin(self) -> bool:
        """May everything in the house."""
        return self.is_system or HOUSE_ADMIN in self.roles

    @property
    def reads_all(self) -> bool:
        """Sees every row of the house."""
        return self.is_admin or HOUSE_VIEWER in self.roles

    @cached_property
    def pools(self) -> dict[str, frozenset[Action]]:
        """Top-level pools on which a role of one's own says something, and what it allows there."""
        granted: dict[str, frozenset[Action]] = {}
        for role in self.roles:
            if parsed := parse_pool_role(role):
                pool, kind = parsed
                more = _POOL_ADMIN if kind is Kind.ADMIN else _POOL_USER
                granted[pool] = granted.get(pool, frozenset()) | more
        return granted

    def pools_for(self, action: Action) -> set[str]:
        """Names of the pools on which one's own roles allow `action`."""
        return {pool for pool, actions in self.pools.items() if action in actions}


SYSTEM = Actor(username="system", is_system=True)


def allows(actor: Actor, action: Action, pool: str | None = None) -> bool:
    """Whether the table lets `actor` do `action` to the top-level `pool` (None: to the house)."""
    if actor.is_admin:
        return True
    if HOUSE_VIEWER in actor.roles and action in _HOUSE_VIEWER:
        return True
    return pool is not None and action in actor.pools.get(pool, frozenset())
