"""Users and roles: an osmo-admin writes, an osmo-viewer reads, everybody else sees the own entry."""

from __future__ import annotations

import pytest

from pools.domain.changes.users import SetActive
from pools.domain.errors import NotFound
from pools.models import AuditEntry, NoticeTarget, User
from tests.support import world
from tests.support.api_client import ApiClient, Callers

USERS = "/api/auth/user"


class TestWhoMay:
    """Who writes: tests/integration/identity/test_authorisation.py."""

    def test_readers_of_the_platform_read_all(self, caller: Callers, admin: ApiClient) -> None:
        world.make_pool("team")
        world.make_user("bob", "osmo-team-user")
        for who, status in (
            (admin, 200),
            (caller("vera", "osmo-viewer"), 200),
            (caller("carol", "osmo-team-admin"), 403),
        ):
            assert [who("GET", path).status for path in (USERS, f"{USERS}/bob")] == [status] * 2

    def test_everybody_reads_the_own_entry(self, caller: Callers) -> None:
        assert caller("carol")("GET", f"{USERS}/carol").body["id"] == "carol"

    def test_an_unknown_user_is_not_told_from_a_known_one_without_the_role(self, caller: Callers) -> None:
        carol = caller("carol")
        world.make_user("bob")
        assert carol("GET", f"{USERS}/bob").body == carol("GET", f"{USERS}/nobody").body


class TestList:
    @pytest.fixture(autouse=True)
    def people(self, admin: ApiClient) -> None:
        world.make_pool("team")
        for name, roles in {"ann": ["osmo-team-user"], "anton": ["osmo-viewer"], "bert": ["osmo-team-admin"]}.items():
            world.make_user(name, *roles)

    def _names(self, admin: ApiClient, query: str = "") -> list[str]:
        return [user["id"] for user in admin("GET", f"{USERS}{query}").body["users"]]

    def test_all_by_name(self, admin: ApiClient) -> None:
        answer = admin("GET", USERS).body
        assert [user["id"] for user in answer["users"]] == ["ann", "anton", "bert", "root"]
        assert (answer["total_results"], answer["start_index"], answer["items_per_page"]) == (4, 1, 4)
        assert answer["users"][0]["created_by"] == "system"
        assert "Z" not in answer["users"][0]["created_at"]

        answer = admin("GET", f"{USERS}?count=2&start_index=2").body
        assert [user["id"] for user in answer["users"]] == ["anton", "bert"]
        assert (answer["total_results"], answer["items_per_page"]) == (4, 2)

    def test_filters_are_exact_and_not_patterns(self, admin: ApiClient) -> None:
        assert self._names(admin, "?id_prefix=an") == ["ann", "anton"]
        assert self._names(admin, "?id_prefix=%25") == []
        assert self._names(admin, "?roles=osmo-viewer&roles=osmo-team-admin") == ["anton", "bert"], "any of the roles"
        assert self._names(admin, "?roles=osmo-team") == [], "roles are no prefix"


class TestMaking:
    def test_with_roles(self, admin: ApiClient) -> None:
        world.make_pool("team")
        answer = admin("POST", USERS, {"id": "bob", "roles": ["osmo-team-user"]})
        assert answer.status == 200
        assert set(answer.body) == {"id", "created_at", "created_by"}
        assert answer.body["created_by"] == "root"
        (role,) = admin("GET", f"{USERS}/bob").body["roles"]
        assert (role["role_name"], role["assigned_by"]) == ("osmo-team-user", "root")

    def test_refused(self, admin: ApiClient) -> None:
        for body, codes in (
            ({}, {("id", "missing")}), ({"id": 7}, {("id", "bad_value")}), ({"id": ""}, {("id", "bad_value")}),
            ({"id": "a b"}, {("id", "bad_username")}), ({"id": "a" * 151}, {("id", "bad_username")}),
            ({"id": "system"}, {("id", "reserved_username")}),
            ({"id": "bob", "roles": "osmo-admin"}, {("roles", "bad_value")}),
            ({"id": "bob", "roles": ["osmo-nothing-user"]}, {("roles", "unknown_role")}),
            ({"roles": "osmo-admin", "password": "x", "description": 1}, {
                ("id", "missing"), ("roles", "bad_value"), ("password", "unknown_key"), ("description", "bad_value"),
            }),
        ):  # fmt: skip
            answer = admin("POST", USERS, body)
            assert (answer.status, answer.codes) == (400, codes), body
        assert not User.objects.filter(username="bob").exists()
        assert admin("POST", USERS, {"id": "bob"}).status == 200
        assert admin("POST", USERS, {"id": "bob"}).status == 409
        dry = admin("POST", f"{USERS}?dry_run=True", {"id": "root"})
        assert (dry.status, dry.body["after"]) == (200, None)
        assert "exists already" in dry.body["violations"][0]["message"]


class TestRoles:
    def test_given_and_taken(self, admin: ApiClient) -> None:
        world.make_pool("team")
        world.make_user("bob")
        given = admin("POST", f"{USERS}/bob/roles", {"role_name": "osmo-team-admin"})
        assert given.body["user_id"] == "bob"
        assert given.body["role_name"] == "osmo-team-admin"
        assert admin("POST", f"{USERS}/bob/roles", {"role_name": "osmo-team-admin"}).body == given.body
        taken = admin("DELETE", f"{USERS}/bob/roles/osmo-team-admin")
        assert (taken.status, taken.body) == (200, None)
        assert admin("DELETE", f"{USERS}/bob/roles/osmo-team-admin").status == 404
        actions = list(AuditEntry.objects.filter(action__startswith="role.").values_list("action", "after", "before"))
        assert [action for action, _, _ in actions] == ["role.revoked", "role.granted", "role.granted"]
        assert actions[0][2]["role"] == actions[1][1]["role"] == "osmo-team-admin"

    def test_roles_and_people_that_are_none(self, admin: ApiClient) -> None:
        world.make_pool("team", a=10)
        world.make_user("bob")
        for role in ("osmo-nothing-user", "osmo-team", "osmo-team--a-user", "admin", ""):
            assert admin("POST", f"{USERS}/bob/roles", {"role_name": role}).status == 400, role
        assert admin("POST", f"{USERS}/nobody/roles", {"role_name": "osmo-viewer"}).status == 404

    def test_the_last_admin_cannot_step_down(self, admin: ApiClient) -> None:
        assert admin("DELETE", f"{USERS}/root/roles/osmo-admin").status == 400
        assert admin("DELETE", f"{USERS}/root").status == 400
        assert admin("GET", USERS).status == 200


class TestRemoving:
    def test_one_without_work_is_gone(self, admin: ApiClient, caller: Callers) -> None:
        bob = caller("bob")
        answer = admin("DELETE", f"{USERS}/bob", {"description": "left"})
        assert (answer.status, answer.body) == (200, None)
        assert admin("GET", f"{USERS}/bob").status == 404
        assert bob("GET", "/api/profile/settings").status == 401
        assert AuditEntry.objects.filter(action="user.deleted", description="left").exists()

    def test_one_with_work_leaves_it_behind(self, admin: ApiClient, caller: Callers) -> None:
        world.make_pool("team")
        bob = caller("bob", "osmo-team-user")
        row = User.objects.get(username="bob")
        world.submit_workflow(row.as_actor(), "team")
        assert admin("DELETE", f"{USERS}/bob").status == 200
        assert admin("GET", f"{USERS}/bob").status == 404
        assert "bob" not in str(admin("GET", USERS).body)
        assert bob("GET", "/api/profile/settings").status == 401
        assert row.workflows.count() == 1
        assert not row.tokens.exists()
        assert admin("POST", USERS, {"id": "bob", "roles": ["osmo-viewer"]}).status == 200
        roles = admin("GET", f"{USERS}/bob").body["roles"]
        assert [role["role_name"] for role in roles] == ["osmo-viewer"], "the name comes back with new roles only"


def test_a_new_person_of_a_removed_name_does_not_inherit_address_and_targets_of_notices(
    caller: Callers, admin: ApiClient
) -> None:
    world.make_pool("team", 10)
    bob = caller("bob", "osmo-team-user")
    first = User.objects.get(username="bob")
    world.submit_workflow(first.as_actor(), "team", 1, name="work")
    settings = {"email": "bob@example.com", "email_notification": True, "slack_notification": True, "pool": "team"}
    assert bob("POST", "/api/profile/settings", settings).status == 200
    NoticeTarget.objects.create(name="ci", user=first, channel="webhook", sealed_address="x")
    assert admin("DELETE", f"{USERS}/bob").status == 200
    world.make_user("bob", "osmo-team-user")
    again = User.objects.get(username="bob")
    assert again.pk == first.pk, "the row stays, because recorded work refers to it"
    assert (again.email, again.default_pool) == ("", "")
    assert (again.email_notification, again.slack_notification) == (False, False)
    assert not NoticeTarget.objects.filter(user=again).exists()


class TestDisabled:
    """What a disabled account still has is taken away without letting its owner in again."""

    @pytest.fixture(autouse=True)
    def closed(self, admin: ApiClient) -> None:
        world.make_pool("team")
        world.make_user("bob", "osmo-team-user")
        assert admin("POST", f"{USERS}/bob/access_token/leaked").status == 200
        world.apply_change(SetActive(username="bob", active=False))

    def test_what_it_has_is_taken_away_and_nothing_new_is_given(self, admin: ApiClient) -> None:
        assert admin("DELETE", f"{USERS}/bob/roles/osmo-team-user").status == 200
        assert [each["token_name"] for each in admin("GET", f"{USERS}/bob/access_token").body] == ["leaked"]
        assert admin("DELETE", f"{USERS}/bob/access_token/leaked").status == 200
        bob = User.objects.get(username="bob")
        assert (bob.is_active, bob.groups.count(), bob.tokens.count()) == (False, 0, 0)
        assert admin("POST", f"{USERS}/bob/roles", {"role_name": "osmo-viewer"}).status == 404
        assert admin("POST", f"{USERS}/bob/access_token/more").status == 404
        answer = admin("POST", USERS, {"id": "bob"})
        assert answer.status == 409 and "disabled" in answer.body["message"]
        assert admin("DELETE", f"{USERS}/bob").status == 200
        assert not User.objects.filter(username="bob").exists()

    def test_a_removed_one_that_keeps_its_work_is_not_enabled(self, admin: ApiClient) -> None:
        world.apply_change(SetActive(username="bob", active=True))
        world.submit_workflow(User.objects.get(username="bob").as_actor(), "team", 1)
        assert admin("DELETE", f"{USERS}/bob").status == 200
        with pytest.raises(NotFound):
            world.apply_change(SetActive(username="bob", active=True))
        assert admin("DELETE", f"{USERS}/bob").status == 404
        assert admin("POST", USERS, {"id": "bob"}).status == 200
