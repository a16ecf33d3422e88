"""Logging in with the password of a directory (LDAP), against slapd: accounts, roles, and the end of both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.test import Client
from django.utils import timezone

from osmo_admin.env import PasswordLogin
from pools.domain.changes.users import CreateUser, GrantRole, SetActive
from pools.models import AccessToken, AuditEntry, SignOnIdentity, User
from pools.sign_on.accounts import check_due_identities
from pools.sign_on.providers import SyncMode
from tests.integration.sign_on.conftest import directory_settings
from tests.support.directory import PEOPLE, Directory
from tests.support.stack import find_free_port
from tests.support.world import apply_change, make_user

pytestmark = pytest.mark.ldap

ANN = f"uid=ann,{PEOPLE}"
HERE = "correct horse 99"  # a password of our own
API = "/api/auth/client_login/password"


def enter(name: str, password: str, browser: Client | None = None) -> Any:
    return (browser or Client()).post("/login/", {"username": name, "password": password})


def log_in(name: str = "ann", password: str = "ann-at-corp") -> Client:
    browser = Client()
    answer = enter(name, password, browser)
    assert answer.status_code == 302, answer.content.decode()
    return browser


def is_logged_in(browser: Client) -> bool:
    return browser.get("/activity/audit").status_code == 200


def roles_of(name: str) -> set[str]:
    return set(User.objects.get(username=name).as_actor().roles)


def check_now() -> None:
    """The periodic check, as if its interval had passed."""
    SignOnIdentity.objects.update(checked_at=timezone.now() - timedelta(hours=1))
    check_due_identities()


def errors_of(answer: Any) -> str:
    return " ".join(answer.context["form"].non_field_errors())


def down_url() -> str:
    return f"ldaps://127.0.0.1:{find_free_port()}"


class TestAccounts:
    def test_the_first_login_makes_an_account_and_the_trail_says_so(self, directory: Directory) -> None:
        browser = Client()
        page = browser.get("/login/").content.decode()
        assert "your name and password of Corp" in page
        assert enter("ann", "ann-at-corp", browser).headers["Location"] == "/"
        assert is_logged_in(browser)
        ann = User.objects.get(username="ann")
        assert not ann.has_usable_password() and ann.email == "ann@corp.example"
        entries = AuditEntry.objects.filter(object="user/ann").order_by("id")
        assert [(entry.actor, entry.action) for entry in entries] == [
            ("sign-on:corp", "user.created"),
            ("sign-on:corp", "sign_on.linked"),
            ("sign-on:corp", "sign_on.signed_on"),
            ("sign-on:corp", "user.updated"),  # the mail address
            ("sign-on:corp", "role.granted"),
        ]
        assert "ann-at-corp" not in str([(each.before, each.after, each.description) for each in entries])
        assert browser.session.get_expiry_date() == SignOnIdentity.objects.get().session_until

    def test_capitals_make_no_second_account(self, directory: Directory) -> None:
        log_in()
        log_in("ANN")
        assert list(User.objects.values_list("username", flat=True)) == ["ann"]

    def test_a_renamed_person_keeps_the_account(self, directory: Directory) -> None:
        log_in()
        entry = directory.rename(ANN, "ann.smith")
        directory.join("watchers", entry)
        log_in("ann.smith")
        assert enter("ann", "ann-at-corp").status_code == 200  # wrong name now
        assert User.objects.count() == 1 and roles_of("ann") == {"osmo-viewer"}
        check_now()
        assert SignOnIdentity.objects.get().username == "ann.smith"

    def test_a_new_person_of_an_old_name_is_another_person(self, directory: Directory) -> None:
        log_in()
        directory.remove(ANN)
        directory.add_person("ann", "another ann")
        answer = enter("ann", "another ann")
        assert answer.status_code == 409 and "An account ann exists already" in errors_of(answer)

    def test_a_name_here_is_no_proof_of_a_person(self, directory: Directory) -> None:
        apply_change(CreateUser(id="ann", roles=["osmo-admin"]), password=HERE)
        answer = enter("ann", "ann-at-corp")
        assert answer.status_code == 409 and not SignOnIdentity.objects.exists()
        assert not AccessAttempt.objects.exists()  # the password was right

    def test_two_people_with_one_mail_address(self, directory: Directory, configure: Any) -> None:
        """An address is a name only where it is of one person, and never joins two accounts."""
        directory.add_person("bob", "bob-at-corp", mail="ann@corp.example")
        directory.add_person("eve", "eve-at-corp", mail="eve@corp.example")
        configure(directory_settings(directory, login_attributes=("uid", "mail")))
        refused = enter("ann@corp.example", "ann-at-corp")
        assert (refused.status_code, AccessAttempt.objects.count()) == (403, 1)
        assert "Several people of Corp have this name" in errors_of(refused)
        log_in("ann", "ann-at-corp")
        log_in("bob", "bob-at-corp")
        log_in("eve@corp.example", "eve-at-corp")
        assert sorted(User.objects.values_list("username", "email")) == [
            ("ann", "ann@corp.example"), ("bob", "ann@corp.example"), ("eve", "eve@corp.example")
        ]  # fmt: skip

    def test_a_disabled_account_stays_out(self, directory: Directory) -> None:
        browser = log_in()
        apply_change(SetActive(username="ann", active=False))
        assert not is_logged_in(browser)
        answer = enter("ann", "ann-at-corp")
        assert answer.status_code == 403 and "disabled" in errors_of(answer)

    def test_the_owner_links_an_account(self, directory: Directory) -> None:
        apply_change(CreateUser(id="anna"), password=HERE)
        browser = log_in("anna", HERE)
        assert "Link with Corp" in browser.get("/users/anna").content.decode()
        form = {"username": "ann", "password": "wrong"}
        assert "Password there" in browser.get("/sign-on/corp/link/").content.decode()
        assert browser.post("/sign-on/corp/link/", form).status_code == 400
        assert AccessAttempt.objects.get().username == "ann"
        answer = browser.post("/sign-on/corp/link/", form | {"password": "ann-at-corp"})
        assert answer.headers["Location"] == "/users/anna"
        assert SignOnIdentity.objects.get().user.username == "anna"
        assert roles_of("anna") == {"osmo-viewer"}
        log_in()
        assert User.objects.count() == 1

    def test_only_some_groups_may_log_in(self, directory: Directory, configure: Any) -> None:
        configure(directory_settings(directory, allowed_groups=frozenset({"admins"})))
        assert enter("ann", "ann-at-corp").status_code == 403
        directory.join("admins", ANN)
        assert enter("ann", "ann-at-corp").status_code == 302

    def test_there_is_no_way_to_send_a_browser_to_a_directory(self, directory: Directory) -> None:
        assert Client().get("/sign-on/corp/").status_code == 404
        assert Client().get("/sign-on/corp/callback/").status_code == 404


class TestRoles:
    @pytest.mark.parametrize(
        ("mode", "after"),
        [
            (SyncMode.FORCE, {"osmo-viewer"}),
            (SyncMode.IMPORT, {"osmo-viewer", "osmo-admin"}),
            (SyncMode.IGNORE, {"osmo-admin"}),
        ],
    )
    def test_the_three_ways(self, directory: Directory, configure: Any, mode: SyncMode, after: set[str]) -> None:
        make_user("root", "osmo-admin")
        configure(directory_settings(directory, sync=mode))
        log_in()
        apply_change(GrantRole(username="ann", role_name="osmo-admin"))
        check_now()
        assert roles_of("ann") == after

    def test_a_removed_group_takes_the_role_from_the_next_request(self, directory: Directory) -> None:
        make_user("root", "osmo-admin")
        directory.join("admins", ANN)
        browser = log_in()
        assert browser.get("/users/-/create").status_code == 200
        directory.leave("admins", ANN)
        check_now()
        assert browser.get("/users/-/create").status_code == 403
        assert AuditEntry.objects.filter(action="role.revoked", actor="sign-on:corp", object="user/ann").exists()

    def test_a_person_who_left_loses_roles_sessions_and_client_logins(self, directory: Directory) -> None:
        browser = log_in()
        token = Client().post(API, {"username": "ann", "password": "ann-at-corp"}, "application/json").json()["token"]
        directory.remove(ANN)
        check_now()
        assert not is_logged_in(browser) and roles_of("ann") == set()
        exchange = Client().post("/api/auth/jwt/access_token", {"token": token}, "application/json")
        assert exchange.status_code == 401 and not AccessToken.objects.exists()
        known = AuditEntry.objects.count()
        check_now()
        assert AuditEntry.objects.count() == known  # the end is recorded once

    def test_a_person_without_a_session_loses_the_role_too(self, directory: Directory) -> None:
        """Access tokens for programs have the roles of the account."""
        browser = log_in()
        browser.post("/logout/")
        SignOnIdentity.objects.update(session_until=timezone.now() - timedelta(days=1))
        directory.leave("watchers", ANN)
        check_now()
        assert roles_of("ann") == set()

    def test_a_person_outside_the_filter_is_gone(self, directory: Directory, configure: Any) -> None:
        configure(directory_settings(directory, user_filter="(&(objectClass=person)(!(employeeType=left)))"))
        browser = log_in()
        directory.replace(ANN, employeeType="left")
        check_now()
        assert not is_logged_in(browser) and enter("ann", "ann-at-corp").status_code == 200

    def test_groups_of_posix(self, directory: Directory, configure: Any) -> None:
        directory.add(
            f"cn=gpu,{directory_settings(directory).group_base}", ["posixGroup"], cn="gpu", gidNumber=7, memberUid="ann"
        )
        roles = {"gpu": frozenset({"osmo-viewer"})}
        configure(directory_settings(directory, group_filter="(memberUid={username})", roles_by_group=roles))
        log_in("ANN")
        assert SignOnIdentity.objects.get().groups == ["gpu"]

    def test_signing_out_ends_the_session_and_the_check_does_not_revive_it(self, directory: Directory) -> None:
        browser, other = log_in(), log_in()
        page = browser.post("/logout/").content.decode()
        assert "You are logged out" in page and "Corp" not in page
        check_now()
        assert not is_logged_in(other) and not SignOnIdentity.objects.filter(valid_until__gt=timezone.now()).exists()
        assert is_logged_in(log_in())


class TestPasswords:
    def test_a_wrong_password(self, directory: Directory) -> None:
        """An empty one would be an anonymous bind, which directories answer with success; a soft hyphen is prepared to
        an empty one."""
        for password in ("", " ", "\u00ad", "wrong", "ann-at-corp ", "{SSHA}", "x" * 4000):
            assert enter("ann", password).status_code == 200, password
            answer = Client().post(API, {"username": "ann", "password": password}, "application/json")
            assert answer.status_code == 401, (password, answer.content)
            AccessAttempt.objects.all().delete()
        directory.add_person("eve")  # without a password
        assert enter("eve", "anything").status_code == 200
        assert not User.objects.exists()

    def test_a_name_is_no_filter(self, directory: Directory) -> None:
        """ann's password with a name that only as a filter would find ann."""
        for name in (
            "*", "an*", "ann)(uid=*", "*)(objectClass=*", "ann)(|(uid=*", "\\61nn", "ann\x00", "(", "ann))(", "ａｎｎ*",
        ):  # fmt: skip
            answer = Client().post(API, {"username": name, "password": "ann-at-corp"}, "application/json")
            assert answer.status_code in {400, 401}, (name, answer.content)
            assert enter(name, "ann-at-corp").status_code == 200, name
        assert not User.objects.exists()

    def test_strange_characters_in_names_and_groups(self, directory: Directory) -> None:
        strange = "o(d)d*\\ ü"
        entry = directory.add_person("odd", "odd-at-corp", displayName=strange)
        renamed = f"cn={strange.replace(chr(92), chr(92) * 2)},{PEOPLE}"
        directory.add(renamed, ["inetOrgPerson"], cn=strange, sn="x", uid="odder", userPassword="odder-at-corp")
        directory.join("watchers", renamed)
        assert entry
        log_in("odder", "odder-at-corp")
        assert roles_of("odder") == {"osmo-viewer"}

    def test_failed_logins_are_limited(self, directory: Directory) -> None:
        answers = [enter("ann", f"guess-{n}").status_code for n in range(11)]
        assert answers == [200] * 9 + [429] * 2
        assert enter("ann", "ann-at-corp").status_code == 429
        answer = Client().post(API, {"username": "ann", "password": "ann-at-corp"}, "application/json")
        assert answer.status_code == 429 and answer.headers["Retry-After"] == "900"
        assert not User.objects.exists()

    def test_the_password_of_a_directory_does_not_change_one_of_ours(self, directory: Directory) -> None:
        apply_change(CreateUser(id="ann"), password=HERE)
        browser = log_in("ann", HERE)
        form = {"old": "ann-at-corp", "new": "quiet-river-12", "again": "quiet-river-12"}
        assert browser.post("/password_change/", form).status_code == 400
        assert browser.post("/password_change/", form | {"old": HERE}).status_code == 302


class TestClients:
    def test_a_client_logs_in_with_a_password(self, directory: Directory) -> None:
        body = {"username": "ann", "password": "ann-at-corp", "client_name": "laptop"}
        given = Client().post(API, body, "application/json").json()
        jwt = Client().post("/api/auth/jwt/access_token", {"token": given["token"]}, "application/json").json()["token"]
        shown = Client().get("/api/profile/settings", headers={"Authorization": f"Bearer {jwt}"}).json()
        assert (shown["profile"]["username"], shown["roles"]) == ("ann", ["osmo-viewer"])
        token = AccessToken.objects.get()
        assert token.identity == SignOnIdentity.objects.get() and token.expires_at == token.identity.session_until
        entry = AuditEntry.objects.get(action="token.created")
        assert (entry.actor, entry.description) == ("ann", "osmo login on laptop, from 127.0.0.1")

    def test_a_password_of_our_own_logs_in_a_client_too(self, directory: Directory, configure: Any) -> None:
        apply_change(CreateUser(id="bob"), password=HERE)
        apply_change(CreateUser(id="root", roles=["osmo-admin"]), password=HERE)

        def status(name: str) -> int:
            return Client().post(API, {"username": name, "password": HERE}, "application/json").status_code

        assert (status("bob"), AccessToken.objects.get().identity) == (200, None)
        configure(directory_settings(directory), password_login=PasswordLogin.ADMINS)
        assert (status("bob"), status("root")) == (403, 200)
        assert AuditEntry.objects.filter(action="user.logged_in_by_password", object="user/root").exists()
        assert enter("ann", "ann-at-corp").status_code == 302  # not one of our own

    def test_a_wrong_body_is_named(self, directory: Directory) -> None:
        for body in (
            {}, {"username": "ann"}, {"username": 7, "password": "x"}, {"username": "a", "password": "b", "more": 1},
            {"username": "ann", "password": "ann-at-corp", "client_name": "x" * 65},
        ):  # fmt: skip
            assert Client().post(API, body, "application/json").status_code == 400, body


class TestWithoutTheDirectory:
    def test_an_admin_with_a_password_gets_in(self, directory: Directory, configure: Any) -> None:
        apply_change(CreateUser(id="root", roles=["osmo-admin"]), password=HERE)
        configure(directory_settings(directory, urls=(down_url(),)), password_login=PasswordLogin.ADMINS)
        log_in("root", HERE)
        entry = AuditEntry.objects.filter(object="user/root").latest("id")
        assert (entry.action, entry.actor) == ("user.logged_in_by_password", "root")

    def test_a_person_sees_it_and_nothing_is_counted(self, directory: Directory, configure: Any) -> None:
        configure(directory_settings(directory, urls=(down_url(),)))
        answer = enter("ann", "ann-at-corp")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert "Corp does not answer" in errors_of(answer) and not AccessAttempt.objects.exists()

    def test_guesses_at_a_password_of_our_own_count(self, directory: Directory, configure: Any) -> None:
        apply_change(CreateUser(id="root", roles=["osmo-admin"]), password=HERE)
        configure(directory_settings(directory, urls=(down_url(),)))
        assert [enter("root", f"guess-{n}").status_code for n in range(10)] == [503] * 9 + [429]

    def test_a_sign_on_holds_for_the_grace(self, directory: Directory, configure: Any) -> None:
        browser = log_in()
        configure(directory_settings(directory, urls=(down_url(),)))
        check_now()
        assert is_logged_in(browser) and roles_of("ann") == {"osmo-viewer"}
        SignOnIdentity.objects.update(valid_until=timezone.now())
        assert not is_logged_in(browser)
        configure(directory_settings(directory))
        check_now()
        assert is_logged_in(browser)

    def test_the_second_server_answers(self, directory: Directory, configure: Any) -> None:
        configure(directory_settings(directory, urls=(down_url(), directory.urls["ldaps"])))
        log_in()

    def test_the_next_directory_is_asked(self, directory: Directory, configure: Any) -> None:
        lost = directory_settings(directory, urls=(down_url(),))
        lab = directory_settings(directory)
        configure(lost, type(lab)(**{**_fields(lab), "name": "lab", "title": "Lab", "issuer": "ldap:lab"}))
        log_in()
        assert SignOnIdentity.objects.get().provider == "lab"
        assert enter("ann", "wrong").status_code == 503  # it may be right in the one that does not answer


def _fields(directory: Any) -> dict[str, Any]:
    return {name: getattr(directory, name) for name in directory.__dataclass_fields__}
