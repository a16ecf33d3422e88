"""A token that a token made has at most its roles and its life, and goes with it (reproductions of a review)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection
from django.utils import timezone

from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import GrantRole, RevokeRole
from pools.models import AccessToken, AuditEntry, User
from pools.security.tokens import find_token
from pools.selectors.audit_trail import Login, read_audit_readers
from pools.services.people.users import rename_pool_roles
from tests.support import world
from tests.support.api_client import ApiClient, Callers

MINE = "/api/auth/access_token"


def _day(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d")


def _exchange(secret: str) -> ApiClient:
    token = find_token(secret)
    assert token is not None
    return ApiClient(token)


@pytest.fixture
def alice(caller: Callers) -> ApiClient:
    """A pool admin with a token of all roles, for a month."""
    world.make_pool("a")
    return caller("alice", "osmo-a-admin")


@pytest.fixture
def limited(alice: ApiClient, caller: Callers) -> ApiClient:
    """Alice's token of one role, which is their only one."""
    return caller("alice", token_roles=("osmo-a-admin",))


class TestRoles:
    def test_the_child_of_a_limited_token_does_not_follow_later_grants(self, limited: ApiClient) -> None:
        child = _exchange(limited("POST", f"{MINE}/child?roles=osmo-a-admin").body)
        default = _exchange(limited("POST", f"{MINE}/default").body)
        world.apply_change(GrantRole(username="alice", role_name="osmo-viewer"))
        assert [each("GET", "/api/auth/user").status for each in (limited, child, default)] == [403, 403, 403]
        assert AccessToken.objects.get(name="default").roles == ["osmo-a-admin"]

    def test_the_child_of_a_whole_token_has_the_roles_of_its_owner(self, alice: ApiClient) -> None:
        child = _exchange(alice("POST", f"{MINE}/child").body)
        world.apply_change(GrantRole(username="alice", role_name="osmo-viewer"))
        assert child("GET", "/api/auth/user").status == 200

    def test_a_role_that_only_its_owner_has(self, limited: ApiClient) -> None:
        world.apply_change(GrantRole(username="alice", role_name="osmo-viewer"))
        answer = limited("POST", f"{MINE}/child?roles=osmo-viewer")
        assert (answer.status, answer.body["details"][0]["code"]) == (400, "role_not_held")
        assert "The token t1 of alice does not have each of these roles" in answer.body["message"]

    def test_a_limited_admin_token_gives_others_a_list_of_roles(self, alice: ApiClient, caller: Callers) -> None:
        caller("root", "osmo-admin", "osmo-viewer")
        admin = caller("root", token_roles=("osmo-admin",))
        assert admin("POST", "/api/auth/user/alice/access_token/robot").status == 200
        robot = AccessToken.objects.get(name="robot")
        assert robot.roles == ["osmo-a-admin"]
        assert robot.parent == admin.token

    def test_a_revoked_role_leaves_both(self, limited: ApiClient) -> None:
        limited("POST", f"{MINE}/child")
        world.apply_change(RevokeRole(username="alice", role_name="osmo-a-admin"))
        world.check_deferred_constraints()
        assert set(map(tuple, AccessToken.objects.exclude(roles=None).values_list("roles", flat=True))) == {()}

    def test_a_renamed_pool_takes_both_along(self, limited: ApiClient) -> None:
        limited("POST", f"{MINE}/child")
        rename_pool_roles("a", "b")
        world.check_deferred_constraints()
        assert AccessToken.objects.get(name="child").roles == ["osmo-b-admin"]


class TestLife:
    def test_a_child_cannot_live_longer(self, alice: ApiClient) -> None:
        assert alice.token is not None
        AccessToken.objects.filter(pk=alice.token.pk).update(expires_at=timezone.now() + timedelta(seconds=60))
        answer = alice("POST", f"{MINE}/long?expires_at={_day(360)}")
        assert (answer.status, answer.body["details"][0]["code"]) == (400, "outlives_parent")
        assert "make it in the browser" in answer.body["message"]

        assert alice("POST", f"{MINE}/same").status == 200
        alice.token.refresh_from_db()
        assert AccessToken.objects.get(name="same").expires_at == alice.token.expires_at

    def test_a_child_goes_with_its_parent_and_so_does_its_child(self, alice: ApiClient) -> None:
        child = _exchange(alice("POST", f"{MINE}/child").body)
        grandchild = _exchange(child("POST", f"{MINE}/grandchild").body)
        assert grandchild("GET", "/api/profile/settings").status == 200
        assert alice("DELETE", f"{MINE}/t0").status == 200
        assert {each("GET", "/api/profile/settings").status for each in (alice, child, grandchild)} == {401}
        assert not AccessToken.objects.exists()

    def test_a_token_made_in_the_browser_or_by_the_operator_has_no_parent(self, alice: ApiClient) -> None:
        world.apply_change(CreateToken(owner="alice", name="own"), actor=User.objects.get(username="alice").as_actor())
        assert set(AccessToken.objects.values_list("parent", flat=True)) == {None}

    def test_a_token_that_ends_during_its_own_request_makes_none(self, alice: ApiClient) -> None:
        assert alice.token is not None
        actor = alice.token.owner.as_actor(token=alice.token)
        AccessToken.objects.filter(pk=alice.token.pk).delete()
        with pytest.raises(Exception, match="Log in again"):
            world.apply_change(CreateToken(owner="alice", name="late"), actor=actor)


class TestReach:
    """A limited token reaches itself and what it made."""

    def test_it_deletes_no_sibling(self, alice: ApiClient, limited: ApiClient) -> None:
        alice("POST", f"{MINE}/sibling")
        limited("POST", f"{MINE}/child")
        answer = limited("DELETE", f"{MINE}/sibling")
        assert (answer.status, answer.body["message"]) == (
            404,
            "alice has no token sibling that the token t1 has made.",
        )
        assert limited("GET", f"{MINE}/sibling/roles").status == 404
        assert [row["token_name"] for row in limited("GET", MINE).body] == ["child", "t1"]
        assert limited("DELETE", f"{MINE}/child").status == 200
        assert limited("DELETE", f"{MINE}/t1").status == 200

    def test_the_audit_trail_shows_it_no_name_of_a_sibling(
        self, alice: ApiClient, limited: ApiClient, caller: Callers
    ) -> None:
        alice("POST", f"{MINE}/sibling")
        limited("POST", f"{MINE}/child")
        limited("DELETE", f"{MINE}/child")

        def names(of: ApiClient) -> set[str]:
            rows = of("GET", "/api/audit?limit=100").body["entries"]
            return {row["object"] for row in rows if row["object"].startswith("token/")}

        def streamed(of: ApiClient) -> set[str]:
            assert of.token is not None
            login = Login(of.token.owner_id, of.token.pk)
            (reader,) = read_audit_readers([login], timezone.now()).values()
            entries = AuditEntry.objects.filter(object__startswith="token/")
            return {each.object for each in entries if reader.may_see(each)}

        viewer = caller("vera", "osmo-viewer", "osmo-a-user", token_roles=("osmo-viewer",))
        caller("vera")
        everything = {"token/t0", "token/t1", "token/sibling", "token/child"}
        for read in (names, streamed):
            assert read(limited) == {"token/t1", "token/child"}
            assert read(alice) == everything
            assert read(viewer) == everything | {"token/t3"}  # those of others, but not those of its siblings

    def test_a_whole_token_reaches_all_of_its_owner(self, alice: ApiClient, limited: ApiClient) -> None:
        limited("POST", f"{MINE}/child")
        assert [row["token_name"] for row in alice("GET", MINE).body] == ["child", "t0", "t1"]
        assert alice("DELETE", f"{MINE}/child").status == 200

    def test_an_admin_token_reaches_the_tokens_of_all_users_with_its_role(
        self, alice: ApiClient, caller: Callers
    ) -> None:
        caller("root", "osmo-admin", "osmo-a-user")
        weak, strong = (caller("root", token_roles=roles) for roles in (("osmo-a-user",), ("osmo-admin",)))
        assert len(weak("GET", MINE).body) == 1
        assert len(strong("GET", MINE).body) == 3
        assert weak("DELETE", "/api/auth/user/alice/access_token/t0").status == 403


class TestFloor:
    """What a writer past the services meets."""

    @pytest.mark.parametrize(
        "change", ["roles = NULL", "roles = '[\"osmo-viewer\"]'", "expires_at = expires_at + interval '1 day'"]
    )
    def test_a_child_stays_within_its_parent(self, limited: ApiClient, change: str) -> None:
        limited("POST", f"{MINE}/child")
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE pools_accesstoken SET {change} WHERE name = 'child'")
        with pytest.raises(IntegrityError, match="The token child was made with the token t1"):
            world.check_deferred_constraints()

    def test_a_parent_is_not_lowered_below_its_child(self, limited: ApiClient) -> None:
        limited("POST", f"{MINE}/child")
        AccessToken.objects.filter(name="t1").update(roles=[])
        with pytest.raises(IntegrityError, match="neither have more roles nor live longer"):
            world.check_deferred_constraints()


class TestNumber:
    def test_a_user_has_a_limit_of_tokens(self, alice: ApiClient, settings: object) -> None:
        import dataclasses

        settings.OSMO = dataclasses.replace(settings.OSMO, max_tokens=3)  # type: ignore[attr-defined]
        AccessToken.objects.create(owner=alice.token.owner, name="old", digest="0", expires_at=timezone.now())  # type: ignore[union-attr]
        assert alice("POST", f"{MINE}/three").status == 200
        answer = alice("POST", f"{MINE}/four")
        assert (answer.status, answer.body["details"][0]["code"]) == (429, "too_many_tokens")
        assert "Retry-After" not in answer.headers
        assert "3 access tokens (1 of them expired); at most 3" in answer.body["message"]
        alice("DELETE", f"{MINE}/old")
        assert alice("POST", f"{MINE}/four").status == 200
