"""Signing on with a browser: the way there and back, accounts and roles, and the end of a sign-on."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth import SESSION_KEY
from django.test import Client
from django.utils import timezone

from pools.api import events
from pools.domain.changes.users import CreateUser, DeleteUser, GrantRole, SetActive, UnlinkUser
from pools.models import AuditEntry, ConfigurationOwner, RoleAssignment, SignOnIdentity, User
from pools.selectors.audit_trail import Login, read_audit_readers
from pools.sign_on.accounts import check_due_identities
from pools.sign_on.providers import SyncMode
from tests.integration.sign_on.conftest import FaultyProvider, provider_settings
from tests.support.world import apply_change, make_user

PASSWORD = "correct horse 99"


def person(*groups: str, **claims: Any) -> dict[str, Any]:
    return {"sub": "s-1", "preferred_username": "ann", "groups": list(groups)} | claims


def roles_of(username: str) -> set[str]:
    return set(User.objects.get(username=username).as_actor().roles)


def is_signed_on(browser: Client) -> bool:
    return browser.get("/activity/audit").status_code == 200


def check_now() -> None:
    """The periodic check, as if its interval had passed."""
    SignOnIdentity.objects.update(checked_at=timezone.now() - timedelta(hours=1))
    check_due_identities()


def error_code(answer: Any) -> str:
    return str(answer.context["message"])


class TestAProviderOfAnotherProject:
    """`oidc-provider-mock`: discovery, code, userinfo, refresh and revocation in the code of others."""

    def sign_on(self, browser: Client, subject: str) -> Any:
        leaving = browser.get("/sign-on/corp/?next=/activity/audit").headers["Location"]
        back = httpx.post(leaving, data={"sub": subject}).headers["Location"]
        return browser.get(back.removeprefix("http://testserver"))

    def put_person(self, issuer: str, *groups: str) -> None:
        claims = {"preferred_username": "olga", "groups": list(groups), "email": "olga@corp.example"}
        httpx.put(f"{issuer}/users/o-1", json=claims | {"email_verified": True}).raise_for_status()

    def test_the_roles_follow_the_groups_and_the_session_follows_the_provider(self, independent: str) -> None:
        browser = Client()
        self.put_person(independent, "admins", "others")
        answer = self.sign_on(browser, "o-1")
        assert (answer.status_code, answer.headers["Location"]) == (302, "/activity/audit")
        assert is_signed_on(browser)
        assert (roles_of("olga"), User.objects.get(username="olga").email) == ({"osmo-admin"}, "olga@corp.example")

        self.put_person(independent, "watchers")
        make_user("root")
        apply_change(GrantRole(username="root", role_name="osmo-admin"))
        check_now()
        assert roles_of("olga") == {"osmo-viewer"}
        assert browser.get("/users/-/create").status_code == 403

        httpx.post(f"{independent}/users/o-1/revoke-tokens").raise_for_status()
        check_now()
        assert not is_signed_on(browser)


class TestAccounts:
    def test_the_first_sign_on_makes_an_account_and_the_trail_says_so(self, corp: FaultyProvider) -> None:
        corp.control(person=person("watchers"))
        assert corp.sign_on().headers["Location"] == "/"
        assert is_signed_on(corp.browser) and not User.objects.get(username="ann").has_usable_password()
        entries = AuditEntry.objects.filter(object="user/ann").order_by("id")
        assert [(entry.actor, entry.action) for entry in entries] == [
            ("sign-on:corp", "user.created"),
            ("sign-on:corp", "sign_on.linked"),
            ("sign-on:corp", "sign_on.signed_on"),
            ("sign-on:corp", "role.granted"),
        ]
        stored = SignOnIdentity.objects.get()
        assert "refresh" not in str([(each.before, each.after) for each in entries])
        assert len(stored.refresh_token) > 50 and stored.refresh_token.startswith("gAAAA")  # sealed

    def test_the_person_is_known_by_the_subject(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        corp.control(person=person("watchers", preferred_username="ann.smith"))
        corp.sign_on()
        assert (User.objects.count(), roles_of("ann")) == (1, {"osmo-viewer"})

    @pytest.mark.parametrize("existing", ["ann", "Ann"])
    def test_a_name_is_no_proof_of_a_person(self, corp: FaultyProvider, existing: str) -> None:
        apply_change(CreateUser(id=existing, roles=["osmo-admin"]), password=PASSWORD)
        answer = corp.sign_on()
        assert answer.status_code == 409 and f"An account {existing} exists already" in error_code(answer)
        assert not is_signed_on(corp.browser) and not SignOnIdentity.objects.exists()

    def test_the_owner_links_an_account(self, corp: FaultyProvider) -> None:
        apply_change(CreateUser(id="anna"), password=PASSWORD)
        corp.browser.post("/login/", {"username": "anna", "password": PASSWORD})
        assert corp.start()["state"]  # without the form the account is not linked
        assert corp.browser.get("/sign-on/corp/link/").status_code == 200
        page = corp.browser.post("/sign-on/corp/link/").content.decode()
        assert 'href="/sign-on/corp/?next=%2Fusers%2Fanna"' in page
        answer = corp.sign_on("?next=/users/anna")
        assert answer.headers["Location"] == "/users/anna"
        assert SignOnIdentity.objects.get().user.username == "anna" and User.objects.count() == 1
        assert "Corp" in corp.browser.get("/users/anna").content.decode()

    def test_another_session_cannot_finish_a_link(self, corp: FaultyProvider) -> None:
        apply_change(CreateUser(id="anna"), password=PASSWORD)
        apply_change(CreateUser(id="bob"), password=PASSWORD)
        corp.browser.post("/login/", {"username": "anna", "password": PASSWORD})
        corp.browser.post("/sign-on/corp/link/")
        query = corp.start()
        other = FaultyProvider(corp.issuer)
        other.browser.post("/login/", {"username": "bob", "password": PASSWORD})
        assert other.finish(query).status_code == 400 and not SignOnIdentity.objects.exists()

    def test_a_disabled_account_stays_out(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        apply_change(SetActive(username="ann", active=False))
        assert not is_signed_on(corp.browser)
        answer = corp.sign_on()
        assert answer.status_code == 403 and "disabled" in error_code(answer)
        apply_change(UnlinkUser(username="ann", provider="corp"))
        RoleAssignment.objects.filter(user__username="ann").delete()
        assert "exists already and is not linked" in error_code(corp.sign_on())
        assert not User.objects.get(username="ann").is_active

    def test_a_removed_user_is_a_new_person(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        apply_change(DeleteUser(username="ann"))
        assert not is_signed_on(corp.browser)
        assert corp.sign_on().status_code == 302 and is_signed_on(corp.browser)

    def test_a_name_that_no_account_can_have(self, corp: FaultyProvider) -> None:
        corp.control(person=person(preferred_username="ann smith"))
        answer = corp.sign_on()
        assert answer.status_code == 400 and "cannot be the name of an account here" in error_code(answer)

    def test_only_some_groups_may_sign_on(self, corp: FaultyProvider, configure: Any) -> None:
        configure(provider_settings(corp.issuer, allowed_groups=frozenset({"gpu"})))
        assert corp.sign_on().status_code == 403
        corp.control(person=person("gpu"))
        assert corp.sign_on().status_code == 302
        corp.control(person=person())
        check_now()
        assert not is_signed_on(corp.browser)


class TestTheApi:
    def test_a_user_reads_the_own_accounts_and_an_admin_unlinks_them(self, corp: FaultyProvider) -> None:
        corp.control(person=person("watchers"))
        corp.sign_on()
        root, stranger = Client(), Client()
        for browser, name, roles in ((root, "root", ["osmo-admin"]), (stranger, "eve", [])):
            apply_change(CreateUser(id=name, roles=roles), password=PASSWORD)
            browser.post("/login/", {"username": name, "password": PASSWORD})
        (shown,) = corp.browser.get("/api/auth/user/ann/identity").json()
        found = [shown[key] for key in ("provider", "username", "groups", "sync", "is_valid")]
        assert found == ["corp", "ann", ["watchers"], "force", True]
        address = "/api/auth/user/ann/identity/corp"
        assert stranger.get("/api/auth/user/ann/identity").status_code == 403
        assert [browser.delete(address).status_code for browser in (stranger, corp.browser)] == [403, 403]
        assert root.delete(f"{address}?dry_run=True").status_code == 200 and is_signed_on(corp.browser)
        assert [root.delete(address).status_code for _ in range(2)] == [200, 404]
        assert not is_signed_on(corp.browser) and roles_of("ann") == {"osmo-viewer"}
        answer = corp.sign_on()  # the account is there, and nobody's at the provider
        assert answer.status_code == 409


class TestRoles:
    @pytest.mark.parametrize(
        ("mode", "after"),
        [
            (SyncMode.FORCE, {"osmo-viewer"}),
            (SyncMode.IMPORT, {"osmo-viewer", "osmo-admin"}),
            (SyncMode.IGNORE, {"osmo-admin"}),
        ],
    )
    def test_the_three_ways(self, corp: FaultyProvider, configure: Any, mode: SyncMode, after: set[str]) -> None:
        make_user("root", "osmo-admin")
        configure(provider_settings(corp.issuer, sync=mode))
        corp.sign_on()
        apply_change(GrantRole(username="ann", role_name="osmo-admin"))
        corp.control(person=person("watchers", "unknown"))
        check_now()
        assert roles_of("ann") == after

    def test_a_removed_group_takes_the_role_from_the_next_request(self, corp: FaultyProvider) -> None:
        make_user("root", "osmo-admin")
        corp.control(person=person("admins"))
        corp.sign_on()
        assert corp.browser.get("/users/-/create").status_code == 200
        corp.control(person=person())
        check_now()
        assert corp.browser.get("/users/-/create").status_code == 403
        assert AuditEntry.objects.filter(action="role.revoked", actor="sign-on:corp", object="user/ann").exists()

    def test_a_process_with_another_key_ends_no_sign_on(self, corp: FaultyProvider, settings: Any) -> None:
        make_user("root", "osmo-admin")
        corp.control(person=person("admins"))
        corp.sign_on()
        known, settings.SECRET_KEY = settings.SECRET_KEY, "another-key-of-many-characters-0123456789"
        check_now()
        settings.SECRET_KEY = known
        assert is_signed_on(corp.browser) and "osmo-admin" in roles_of("ann")
        SignOnIdentity.objects.update(claimed_until=None)  # as after half a minute
        corp.control(person=person())
        check_now()
        assert roles_of("ann") == set(), "asked again by a process that has the key"

    def test_the_last_admin_stays_admin(self, corp: FaultyProvider) -> None:
        corp.control(person=person("admins"))
        corp.sign_on()
        corp.control(person=person())
        check_now()
        assert roles_of("ann") == {"osmo-admin"}

    def test_a_group_may_be_called_like_a_role(self, corp: FaultyProvider, configure: Any) -> None:
        configure(provider_settings(corp.issuer, roles_by_group={}, groups_are_roles=True))
        corp.control(person=person("/osmo-viewer", "osmo-nothing-admin", "admins"))
        corp.sign_on()
        assert roles_of("ann") == {"osmo-viewer"}


class TestTheEnd:
    def test_the_provider_ends_the_session_by_refusing_to_renew_it(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        corp.control(end="s-1")
        assert is_signed_on(corp.browser)
        check_now()
        assert not is_signed_on(corp.browser)
        assert AuditEntry.objects.filter(action="sign_on.ended").count() == 1

    def test_an_event_stream_ends_with_the_sign_on(self, corp: FaultyProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        logins: list[Login] = []
        monkeypatch.setattr(events, "_stream", lambda login, *place, **options: logins.append(login) or iter([b""]))
        corp.sign_on()
        corp.browser.get("/api/events")
        assert read_audit_readers(logins, timezone.now()).keys() == set(logins) != set()
        corp.control(end="s-1")
        check_now()
        assert read_audit_readers(logins, timezone.now()) == {}
        FaultyProvider(corp.issuer).sign_on()
        assert read_audit_readers(logins, timezone.now()) == {}

    def test_an_ended_session_does_not_come_back_with_the_next_sign_on(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        corp.control(end="s-1")
        check_now()
        other = FaultyProvider(corp.issuer)
        other.sign_on()
        assert is_signed_on(other.browser) and not is_signed_on(corp.browser)

    def test_the_provider_ends_it_by_itself(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        event = {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
        for claims in (event | {"nonce": "x", "sub": "s-1"}, {"sub": "s-1"}, event, event | {"sub": "s-1", "aud": "x"}):
            token = corp.control(sign=claims)["token"]
            assert Client().post("/sign-on/corp/logout/", {"logout_token": token}).status_code == 400, claims
        assert is_signed_on(corp.browser)
        token = corp.control(sign=event | {"sid": "sid-s-1"})["token"]
        assert (
            Client(enforce_csrf_checks=True).post("/sign-on/corp/logout/", {"logout_token": token}).status_code == 200
        )
        assert not is_signed_on(corp.browser)

    def test_signing_out_leads_to_the_provider(self, corp: FaultyProvider) -> None:
        corp.sign_on("?next=/activity/audit")
        page = corp.browser.post("/logout/").content.decode()
        assert f'http-equiv="refresh" content="0;url={corp.issuer}/end?client_id=osmo' in page
        assert "id_token_hint=" in page and "post_logout_redirect_uri=http%3A%2F%2Ftestserver%2Flogin%2F" in page
        stored = SignOnIdentity.objects.get()
        assert (
            SESSION_KEY not in corp.browser.session and stored.id_token == "" and stored.valid_until <= timezone.now()
        )
        assert stored.refresh_token  # with which the roles of programs follow the groups

    def test_a_provider_that_does_not_answer_is_believed_for_a_while(self, corp: FaultyProvider) -> None:
        corp.sign_on()
        corp.control(down=True)
        check_now()
        assert is_signed_on(corp.browser)
        SignOnIdentity.objects.update(valid_until=timezone.now())
        assert not is_signed_on(corp.browser)
        corp.control(down=False)
        check_now()
        assert is_signed_on(corp.browser)

    def test_the_session_ends_at_its_longest(self, corp: FaultyProvider, configure: Any) -> None:
        configure(provider_settings(corp.issuer, session_seconds=3600))
        corp.sign_on()
        left = corp.browser.session.get_expiry_age()
        assert 3500 < left <= 3600
        SignOnIdentity.objects.update(session_until=timezone.now(), valid_until=timezone.now())
        check_now()
        assert not is_signed_on(corp.browser)


class TestPasswords:
    def test_a_local_admin_logs_in_while_the_provider_is_down(self, corp: FaultyProvider) -> None:
        apply_change(CreateUser(id="root", roles=["osmo-admin"]), password=PASSWORD)
        corp.control(down=True)
        assert corp.browser.get("/sign-on/corp/").status_code == 503
        assert corp.browser.get("/login/").status_code == 200
        corp.browser.post("/login/", {"username": "root", "password": PASSWORD})
        assert corp.browser.get("/users/-/create").status_code == 200
        entry = AuditEntry.objects.latest("id")
        assert (entry.action, entry.actor, entry.object) == ("user.logged_in_by_password", "root", "user/root")

    def test_the_operator_keeps_passwords_to_admins(self, corp: FaultyProvider, settings: Any) -> None:
        from osmo_admin.env import PasswordLogin

        settings.OSMO = dataclasses.replace(settings.OSMO, password_login=PasswordLogin.ADMINS)
        apply_change(CreateUser(id="root", roles=["osmo-admin"]), password=PASSWORD)
        apply_change(CreateUser(id="bob"), password=PASSWORD)
        refused = corp.browser.post("/login/", {"username": "bob", "password": PASSWORD})
        assert "Only an osmo-admin logs in with a password" in refused.content.decode()
        assert corp.browser.post("/login/", {"username": "root", "password": PASSWORD}).status_code == 302


class TestAddresses:
    def test_the_login_page_names_the_providers(self, corp: FaultyProvider) -> None:
        page = corp.browser.get("/login/?next=/nodes").content.decode()
        assert 'href="/sign-on/corp/?next=%2Fnodes">Sign on with Corp</a>' in page

    def test_nobody_is_sent_to_another_host(self, corp: FaultyProvider) -> None:
        for address in ("https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil"):
            query = corp.browser.get("/sign-on/corp/", {"next": address}).headers["Location"]
            assert "evil" not in query
            assert corp.sign_on(f"?next={address}").headers["Location"] == "/", address

    def test_an_unknown_provider(self, corp: FaultyProvider) -> None:
        for path in ("/sign-on/other/", "/sign-on/other/callback/?state=x"):
            assert corp.browser.get(path).status_code == 404, path
        assert corp.browser.post("/sign-on/other/logout/").status_code == 404


def test_a_role_that_git_owns_stays_as_its_file_has_it(corp: FaultyProvider) -> None:
    ConfigurationOwner.objects.create(kind="role", name="osmo-viewer", source="git")
    corp.control(person=person("watchers", "admins"))
    corp.sign_on()
    assert roles_of("ann") == {"osmo-admin"}
