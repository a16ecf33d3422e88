"""One's own profile: who I am, what I may use, what I chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pools.domain.changes.subpools import DeleteSubpool
from pools.models import AuditEntry, SignOnIdentity, User
from tests.support import world
from tests.support.api_client import Callers

ADDRESS = "/api/profile/settings"


@pytest.fixture(scope="module", autouse=True)
def some_pools(module_data: Callable[[], Any]) -> None:
    with module_data():
        world.make_pool("team", 100, b=10, a=20, gone=5)
        world.make_pool("team2", 100)
        world.make_pool("team-x", 100)
        world.apply_change(DeleteSubpool(parent="team", subpool_name="gone"))


class TestRead:
    def test_everything_about_oneself(self, caller: Callers) -> None:
        answer = caller("bob", "osmo-team-user")("GET", ADDRESS).body
        nothing = {"email_notification": False, "slack_notification": False, "pool": None, "email": ""}
        assert answer["profile"] == nothing | {"username": "bob"}
        assert answer["roles"] == ["osmo-team-user"]
        assert answer["pools"] == ["team", "team--a", "team--b"]
        assert answer["token"]["name"] == "t0"
        assert isinstance(answer["token"]["expires_at"], str)

    def test_pools_are_those_one_may_submit_to(self, caller: Callers) -> None:
        for name, roles, pools in (
            ("nobody", (), []),
            ("reader", ("osmo-viewer",), []),
            ("two", ("osmo-team2-user",), ["team2"]),
            ("x", ("osmo-team-x-admin",), ["team-x"]),
            ("root", ("osmo-admin",), ["team", "team--a", "team--b", "team-x", "team2"]),
        ):
            assert caller(name, *roles)("GET", ADDRESS).body["pools"] == pools
        caller("bob", "osmo-team-user", "osmo-team2-user")
        limited = caller("bob", token_roles=("osmo-team2-user",))
        assert limited("GET", ADDRESS).body["pools"] == ["team2"], "a token with fewer roles opens fewer pools"


class TestWrite:
    def test_default_pool(self, caller: Callers) -> None:
        """One that may not be used is as unknown as one that does not exist."""
        bob = caller("bob", "osmo-team-user")
        for pool in ("nothing", "team2", "team--gone", "team--_shared"):
            refused = bob("POST", ADDRESS, {"pool": pool})
            assert (refused.status, refused.body["message"]) == (400, f"Pool {pool} not found.")
        answer = bob("POST", ADDRESS, {"pool": "team--a"})
        assert (answer.status, answer.body) == (200, None)
        assert bob("GET", ADDRESS).body["profile"]["pool"] == "team--a"
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
        assert bob("GET", ADDRESS).body["profile"]["pool"] is None, "one that is gone is not offered"

    def test_mail_address(self, caller: Callers) -> None:
        bob = caller("bob")
        assert bob("POST", ADDRESS, {"email": "bob@example.com"}).status == 200
        assert bob("GET", ADDRESS).body["profile"]["email"] == "bob@example.com"
        assert bob("POST", ADDRESS, {"email_notification": True}).status == 200
        assert bob("GET", ADDRESS).body["profile"]["email"] == "bob@example.com"
        entry = AuditEntry.objects.filter(action="user.updated").order_by("id").first()
        assert entry is not None
        assert entry.actor == "bob"
        assert bob("POST", ADDRESS, {"email": ""}).status == 200
        assert bob("GET", ADDRESS).body["profile"]["email"] == ""

    def test_no_mail_address(self, caller: Callers) -> None:
        bob = caller("bob")
        for text in (
            "bob", "bob@", "bob@example.com, eve@example.com", "bob@example.com\n", f"{'b' * 250}@example.com",
            "a@b.example/general/c@b.example", "@bob@example.com",
        ):  # fmt: skip
            answer = bob("POST", ADDRESS, {"email": text})
            assert (answer.status, answer.body["details"][0]["path"]) == (400, "email"), text
        assert bob("GET", ADDRESS).body["profile"]["email"] == ""

    def test_the_address_of_an_identity_provider_stays(self, caller: Callers) -> None:
        bob = caller("bob")
        user = User.objects.get(username="bob")
        SignOnIdentity.objects.create(user=user, provider="corp", issuer="https://corp.example", subject="s-1")
        answer = bob("POST", ADDRESS, {"email": "bob@example.com"})
        assert (answer.status, answer.body["details"][0]["code"]) == (409, "address_of_provider")
        assert "identity provider corp" in answer.body["message"]

    def test_notifications(self, caller: Callers) -> None:
        bob = caller("bob")
        assert bob("POST", ADDRESS, {"email_notification": True}).status == 200
        assert bob("POST", ADDRESS, {"slack_notification": True}).status == 200
        profile = bob("GET", ADDRESS).body["profile"]
        assert (profile["email_notification"], profile["slack_notification"]) == (True, True)
        for body in ({"email_notification": "yes"}, {"pool": 7}, {"username": "root"}, ["pool"]):
            assert bob("POST", ADDRESS, body).status == 400
