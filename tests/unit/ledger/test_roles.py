"""Who may do what (D10), with its traps."""

from __future__ import annotations

import pytest

from pools.domain.roles import SYSTEM, Action, Actor, Kind, allows, parse_pool_role, pool_role


def holder(*roles: str) -> Actor:
    return Actor(username="somebody", user_id=1, roles=frozenset(roles))


@pytest.mark.parametrize(
    ("role", "meaning"),
    [
        ("osmo-team-admin", ("team", Kind.ADMIN)),
        ("osmo-team-user", ("team", Kind.USER)),
        ("osmo-a-admin-admin", ("a-admin", Kind.ADMIN)),
        ("osmo-a-admin-user", ("a-admin", Kind.USER)),
        ("osmo-a-admin", ("a", Kind.ADMIN)),
        ("osmo-admin", None),
        ("osmo-viewer", None),
        ("osmo-user", None),
        ("osmo--admin", None),
        ("team-admin", None),
        ("osmo-team-owner", None),
    ],
)
def test_a_roles_name_means_one_thing(role: str, meaning: tuple[str, Kind] | None) -> None:
    assert parse_pool_role(role) == meaning
    if meaning is not None:
        assert pool_role(*meaning) == role


@pytest.mark.parametrize(
    ("roles", "action", "pool", "may"),
    [
        (["osmo-team-user"], Action.POOL_SUBMIT, "team", True),
        (["osmo-team-user"], Action.POOL_SUBMIT, "team2", False),
        (["osmo-team-user"], Action.POOL_SUBMIT, "team-x", False),
        (["osmo-team-user"], Action.POOL_PARTITION, "team", False),
        (["osmo-team-user"], Action.POOL_MANAGE_WORK, "team", False),
        (["osmo-team-admin"], Action.POOL_PARTITION, "team", True),
        (["osmo-team-admin"], Action.POOL_SUBMIT, "team", True),
        (["osmo-team-admin"], Action.POOL_CONFIGURE, "team", False),
        (["osmo-a-admin"], Action.POOL_PARTITION, "a", True),
        (["osmo-a-admin"], Action.POOL_PARTITION, "a-admin", False),
        (["osmo-a-admin-user"], Action.POOL_PARTITION, "a", False),
        (["osmo-a-admin-user"], Action.POOL_READ, "a", False),
        (["osmo-viewer"], Action.POOL_READ, "team", True),
        (["osmo-viewer"], Action.POOL_AUDIT, "team", True),
        (["osmo-viewer"], Action.POOL_SUBMIT, "team", False),
        (["osmo-viewer"], Action.HOUSE_READ, None, True),
        (["osmo-viewer"], Action.HOUSE_WRITE, None, False),
        (["osmo-admin"], Action.HOUSE_WRITE, None, True),
        (["osmo-admin"], Action.POOL_CONFIGURE, "team", True),
        ([], Action.POOL_READ, "team", False),
        (["osmo-team-admin"], Action.HOUSE_READ, None, False),
    ],
)
def test_the_table(roles: list[str], action: Action, pool: str | None, may: bool) -> None:
    assert allows(holder(*roles), action, pool) is may


def test_two_roles_on_one_pool_add_up_in_any_order() -> None:
    both = holder("osmo-team-admin", "osmo-team-user")
    assert allows(both, Action.POOL_PARTITION, "team")
    assert both.pools_for(Action.POOL_PARTITION) == {"team"}


def test_the_system_may_everything() -> None:
    assert all(allows(SYSTEM, action, "team") for action in Action)
