"""Access tokens: made, listed, limited, deleted; one's own and, for an osmo-admin, other people's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pools.domain.changes.users import RevokeRole
from pools.models import AccessToken, AuditEntry
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.world import ModuleData

MINE = "/api/auth/access_token"
BOBS = "/api/auth/user/bob/access_token"


def _day(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d")


def _exchange(secret: str) -> dict[str, Any]:
    answer = ApiClient()("POST", "/api/auth/jwt/access_token", {"token": secret})
    assert answer.status == 200
    return dict(answer.body)


def _last_used(bob: ApiClient) -> Any:
    (listed,) = [row for row in bob("GET", MINE).body if row["token_name"] == "ci"]
    return listed["last_used_at"]


@pytest.fixture(scope="module")
def bob_once(module_data: ModuleData) -> ApiClient:
    with module_data():
        world.make_pool("team")
        world.make_user("bob", "osmo-team-user", "osmo-viewer")
        return world.call_as("bob")


@pytest.fixture
def bob(bob_once: ApiClient, db: None) -> ApiClient:
    """Somebody with two roles."""
    return ApiClient(bob_once.token)


class TestMaking:
    def test_the_secret_is_answered_once_and_opens_a_session(self, bob: ApiClient) -> None:
        answer = bob("POST", f"{MINE}/ci?description=for+the+build")
        assert answer.status == 200
        assert len(answer.body) == 43
        _exchange(answer.body)
        (listed,) = [row for row in bob("GET", MINE).body if row["token_name"] == "ci"]
        assert listed["description"] == "for the build"
        assert listed["user_name"] == "bob"
        assert listed["roles"] == ["osmo-team-user", "osmo-viewer"]
        assert listed["expires_at"].startswith(_day(31))
        assert "Z" not in listed["expires_at"]
        assert answer.body not in str(bob("GET", MINE).body)

    def test_it_says_when_it_was_last_used(self, bob: ApiClient) -> None:
        secret = bob("POST", f"{MINE}/ci").body
        assert _last_used(bob) is None
        entries = AuditEntry.objects.count()
        _exchange(secret)
        used = _last_used(bob)
        assert used is not None
        _exchange(secret)
        assert _last_used(bob) == used, "to the minute"
        earlier = AccessToken.objects.get(name="ci").last_used_at - timedelta(minutes=2)  # type: ignore[operator]
        AccessToken.objects.filter(name="ci").update(last_used_at=earlier)
        _exchange(secret)
        assert _last_used(bob) >= used
        assert AuditEntry.objects.count() == entries, "a use does not change the configuration"

    def test_it_ends_on_the_day_asked_for(self, bob: ApiClient) -> None:
        assert bob("POST", f"{MINE}/ci?expires_at={_day(3)}").status == 200
        assert AccessToken.objects.get(name="ci").expires_at.strftime("%Y-%m-%dT%H:%M") == f"{_day(3)}T00:00"

    def test_days_and_names_that_cannot_be(self, bob: ApiClient) -> None:
        for when in ("2020-01-01", _day(0), "99999-01-01", "2026-13-01", "tomorrow", "-1"):
            answer = bob("POST", f"{MINE}/ci?expires_at={when}")
            assert (answer.status, answer.body["details"][0]["path"]) == (400, "expires_at"), when
        for name in ("1a", "a-", "_a", "a.b", "a b", "ä", "a" * 101):
            answer = bob("POST", f"{MINE}/{name}?expires_at=2020-01-01")
            assert answer.status == 400
            assert {each["code"] for each in answer.body["details"]} == {"bad_token_name", "expired"}, name

    def test_a_year_is_the_most(self, bob: ApiClient) -> None:
        AccessToken.objects.update(expires_at=datetime.now(UTC) + timedelta(days=366))  # the one that makes the others
        assert bob("POST", f"{MINE}/long?expires_at={_day(365)}").status == 200
        assert bob("POST", f"{MINE}/longer?expires_at={_day(366)}").body["details"][0]["code"] == "too_long"

    def test_a_name_is_taken_for_its_owner(self, bob: ApiClient, caller: Callers) -> None:
        assert [bob("POST", f"{MINE}/ci").status for _ in range(2)] == [200, 409]
        assert caller("carol")("POST", f"{MINE}/ci").status == 200

    def test_fewer_roles(self, bob: ApiClient) -> None:
        secret = bob("POST", f"{MINE}/ci?roles=osmo-team-user").body
        session = ApiClient(headers={"Authorization": f"Bearer {_exchange(secret)['token']}"})
        assert session("GET", "/api/profile/settings").body["roles"] == ["osmo-team-user"]
        assert session("GET", "/api/auth/user").status == 403
        answer = bob("POST", f"{MINE}/more?roles=osmo-admin&roles=osmo-team-user")
        assert answer.status == 400
        assert [each["code"] for each in answer.body["details"]] == ["role_not_held"]

    def test_a_limited_token_cannot_make_a_stronger_one(self, bob: ApiClient, caller: Callers) -> None:
        limited = caller("bob", token_roles=("osmo-team-user",))
        assert limited("POST", f"{MINE}/up?roles=osmo-viewer").status == 400
        secret = limited("POST", f"{MINE}/same").body
        session = ApiClient(headers={"Authorization": f"Bearer {_exchange(secret)['token']}"})
        assert session("GET", "/api/profile/settings").body["roles"] == ["osmo-team-user"]

    def test_the_audit_trail_knows_of_it_and_not_the_secret(self, bob: ApiClient) -> None:
        secret = bob("POST", f"{MINE}/ci").body
        entry = AuditEntry.objects.filter(action="token.created").first()
        assert entry is not None
        assert (entry.actor, entry.object) == ("bob", "token/ci")
        assert "digest" not in entry.after
        assert secret not in str(entry.after)


class TestDeleting:
    def test_it_is_out_at_once(self, bob: ApiClient) -> None:
        secret = bob("POST", f"{MINE}/ci").body
        answer = bob("DELETE", f"{MINE}/ci")
        assert (answer.status, answer.body) == (200, None)
        assert ApiClient()("POST", "/api/auth/jwt/access_token", {"token": secret}).status == 401
        assert bob("DELETE", f"{MINE}/ci").status == 404


class TestRoles:
    def test_who_gave_them(self, bob: ApiClient) -> None:
        bob("POST", f"{MINE}/ci?roles=osmo-viewer")
        answer = bob("GET", f"{MINE}/ci/roles")
        assert answer.body["user_name"] == "bob"
        assert answer.body["token_name"] == "ci"
        assert [role["role_name"] for role in answer.body["roles"]] == ["osmo-viewer"]
        assert answer.body["roles"][0]["assigned_by"] == "system"
        assert bob("GET", f"{MINE}/nothing/roles").status == 404

    def test_a_limited_token_lists_itself_and_what_it_has_made(self, bob: ApiClient, caller: Callers) -> None:
        """Also one that may look at the platform; one that may change everything reaches everything."""
        bob("POST", f"{MINE}/secret-plan")
        for role in ("osmo-team-user", "osmo-viewer"):
            limited = caller("bob", token_roles=(role,))
            own = limited("GET", "/api/profile/settings").body["token"]["name"]
            assert limited("POST", f"{MINE}/child-of-{role}").status == 200
            listed = {row["token_name"] for row in limited("GET", MINE).body}
            assert listed == {own, f"child-of-{role}"} == {row["token_name"] for row in limited("GET", BOBS).body}, role
            assert limited("GET", f"{MINE}/secret-plan/roles").status == 404
            answer = limited("DELETE", f"{MINE}/nothing?dry_run=True")
            assert "secret-plan" not in str(answer.body)
        caller("root", "osmo-admin", "osmo-viewer")
        assert "secret-plan" in str(caller("root", token_roles=("osmo-viewer",))("GET", BOBS).body)

    def test_a_role_taken_from_its_owner_is_gone_from_the_token_for_good(
        self, bob: ApiClient, admin: ApiClient
    ) -> None:
        bob("POST", f"{MINE}/ci?roles=osmo-viewer&roles=osmo-team-user")
        world.apply_change(RevokeRole(username="bob", role_name="osmo-viewer"))
        assert admin("POST", "/api/auth/user/bob/roles", {"role_name": "osmo-viewer"}).status == 200
        assert [role["role_name"] for role in bob("GET", f"{MINE}/ci/roles").body["roles"]] == ["osmo-team-user"]

    def test_a_renamed_pool_takes_them_along(self, bob: ApiClient) -> None:
        from pools.services.people.users import rename_pool_roles

        bob("POST", f"{MINE}/ci?roles=osmo-team-user")
        rename_pool_roles("team", "squad")
        assert AccessToken.objects.get(name="ci").roles == ["osmo-squad-user"]


class TestOtherPeoples:
    """An osmo-viewer may look; who makes and deletes: tests/integration/identity/test_authorisation.py."""

    def test_who_reads(self, bob: ApiClient, caller: Callers, admin: ApiClient) -> None:
        people = {"carol": caller("carol", "osmo-team-admin"), "viewer": caller("viewer", "osmo-viewer"), "root": admin}
        for path in (BOBS, f"{BOBS}/t0/roles"):
            found = {name: who("GET", path).status for name, who in people.items()}
            assert found == {"root": 200, "viewer": 200, "carol": 403}, path
        assert bob("GET", BOBS).status == 200
        assert bob("POST", f"{BOBS}/ci").status == 200, "one may name oneself"
        for method, end in (("GET", ""), ("POST", "/x"), ("DELETE", "/x")):
            assert admin(method, f"/api/auth/user/nobody/access_token{end}").status == 404, method

    def test_the_token_speaks_for_its_owner(self, bob: ApiClient, admin: ApiClient) -> None:
        secret = admin("POST", f"{BOBS}/robot").body
        session = ApiClient(headers={"Authorization": f"Bearer {_exchange(secret)['token']}"})
        assert session("GET", "/api/profile/settings").body["profile"]["username"] == "bob"
        entry = AuditEntry.objects.filter(action="token.created").first()
        assert entry is not None
        assert (entry.actor, entry.after["owner"]) == ("root", "bob")
