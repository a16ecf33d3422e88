"""The permissions of users (design, D10), with ambiguous names."""

from __future__ import annotations

import pytest

from pools.domain.people.roles import SYSTEM, Actor, Permission, PoolRoleKind, is_allowed, parse_pool_role, pool_role


def holder(*roles: str) -> Actor:
    return Actor(username="somebody", user_id=1, roles=frozenset(roles))


@pytest.mark.parametrize(
    ("role", "meaning"),
    [
        ("osmo-team-admin", ("team", PoolRoleKind.ADMIN)),
        ("osmo-team-user", ("team", PoolRoleKind.USER)),
        ("osmo-a-admin-admin", ("a-admin", PoolRoleKind.ADMIN)),
        ("osmo-a-admin-user", ("a-admin", PoolRoleKind.USER)),
        ("osmo-a-admin", ("a", PoolRoleKind.ADMIN)),
        ("osmo-admin", None),
        ("osmo-viewer", None),
        ("osmo-user", None),
        ("osmo--admin", None),
        ("team-admin", None),
        ("osmo-team-owner", None),
    ],
)
def test_a_roles_name_means_one_thing(role: str, meaning: tuple[str, PoolRoleKind] | None) -> None:
    assert parse_pool_role(role) == meaning
    if meaning is not None:
        assert pool_role(*meaning) == role


@pytest.mark.parametrize(
    ("roles", "action", "pool", "may"),
    [
        (["osmo-team-user"], Permission.POOL_SUBMIT, "team", True),
        (["osmo-team-user"], Permission.POOL_SUBMIT, "team2", False),
        (["osmo-team-user"], Permission.POOL_SUBMIT, "team-x", False),
        (["osmo-team-user"], Permission.POOL_PARTITION, "team", False),
        (["osmo-team-user"], Permission.POOL_MANAGE_WORK, "team", False),
        (["osmo-team-admin"], Permission.POOL_PARTITION, "team", True),
        (["osmo-team-admin"], Permission.POOL_SUBMIT, "team", True),
        (["osmo-team-admin"], Permission.POOL_CONFIGURE, "team", False),
        (["osmo-a-admin"], Permission.POOL_PARTITION, "a", True),
        (["osmo-a-admin"], Permission.POOL_PARTITION, "a-admin", False),
        (["osmo-a-admin-user"], Permission.POOL_PARTITION, "a", False),
        (["osmo-a-admin-user"], Permission.POOL_READ, "a", False),
        (["osmo-viewer"], Permission.POOL_READ, "team", True),
        (["osmo-viewer"], Permission.POOL_AUDIT, "team", True),
        (["osmo-viewer"], Permission.POOL_SUBMIT, "team", False),
        (["osmo-viewer"], Permission.PLATFORM_READ, None, True),
        (["osmo-viewer"], Permission.PLATFORM_WRITE, None, False),
        (["osmo-admin"], Permission.PLATFORM_WRITE, None, True),
        (["osmo-admin"], Permission.POOL_CONFIGURE, "team", True),
        ([], Permission.POOL_READ, "team", False),
        (["osmo-team-admin"], Permission.PLATFORM_READ, None, False),
    ],
)
def test_the_table(roles: list[str], action: Permission, pool: str | None, may: bool) -> None:
    assert is_allowed(holder(*roles), action, pool) is may


def test_two_roles_on_one_pool_add_up_in_any_order() -> None:
    both = holder("osmo-team-admin", "osmo-team-user")
    assert is_allowed(both, Permission.POOL_PARTITION, "team")
    assert both.pools_with(Permission.POOL_PARTITION) == {"team"}


def test_the_system_may_everything() -> None:
    assert all(is_allowed(SYSTEM, action, "team") for action in Permission)
