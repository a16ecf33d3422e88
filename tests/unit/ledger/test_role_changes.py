"""The rights that change with roles."""

from __future__ import annotations

from pools.domain.people.role_changes import PLATFORM, RightChange, right_changes


def test_a_right_that_another_role_gives_does_not_change() -> None:
    assert right_changes(["osmo-team-admin", "osmo-team-user"], ["osmo-team-admin"]) == []
    assert right_changes(["osmo-admin", "osmo-team-user"], ["osmo-admin"]) == []


def test_each_pool_has_its_own_rights() -> None:
    assert right_changes(["osmo-team-user"], ["osmo-other-user"]) == [
        RightChange("other", ("see the pool and its work", "submit work"), ()),
        RightChange("team", (), ("see the pool and its work", "submit work")),
    ]


def test_a_platform_role_that_replaces_a_pool_role() -> None:
    platform, team = right_changes(["osmo-team-user"], ["osmo-viewer"])
    assert platform.place == PLATFORM
    assert "read clusters, users and settings" in platform.gained
    assert team == RightChange("team", ("read its audit log",), ("submit work",))
