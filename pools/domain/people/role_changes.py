"""The rights that a person gains or loses with a change of roles, by pool, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pools.domain.people.roles import Actor, Permission, is_allowed, parse_pool_role

PLATFORM = "all pools and the platform"
_WORDS: Mapping[Permission, str] = {
    Permission.POOL_READ: "see the pool and its work",
    Permission.POOL_SUBMIT: "submit work",
    Permission.POOL_PARTITION: "divide the pool into subpools",
    Permission.POOL_MANAGE_WORK: "cancel and retry the work of others",
    Permission.POOL_AUDIT: "read its audit log",
    Permission.POOL_CONFIGURE: "change its configuration",
    Permission.PLATFORM_READ: "read clusters, users and settings",
    Permission.PLATFORM_WRITE: "change clusters, users and settings",
}


@dataclass(frozen=True, slots=True)
class RightChange:
    """The rights that change in one place: a pool, or :data:`PLATFORM`. Each right is a text such as "submit work"."""

    place: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


def right_changes(before: Collection[str], after: Collection[str]) -> list[RightChange]:
    """The rights that differ between two sets of roles: first those of the platform roles, then those of each pool by
    name. A right that another role gives as well does not change."""
    earlier, later = Actor("", roles=frozenset(before)), Actor("", roles=frozenset(after))
    pools = sorted({parsed[0] for role in {*before, *after} if (parsed := parse_pool_role(role))})
    found = [_place_change(earlier, later, PLATFORM, None)]
    found += [_place_change(earlier, later, pool, pool) for pool in pools]
    return [each for each in found if each.gained or each.lost]


def _place_change(earlier: Actor, later: Actor, place: str, pool: str | None) -> RightChange:
    permissions = [each for each in Permission if pool is None or each.value.split(":")[0] != "platform"]
    had = {each for each in permissions if is_allowed(earlier, each, pool)}
    has = {each for each in permissions if is_allowed(later, each, pool)}
    return RightChange(
        place,
        tuple(_WORDS[each] for each in permissions if each in has - had),
        tuple(_WORDS[each] for each in permissions if each in had - has),
    )
