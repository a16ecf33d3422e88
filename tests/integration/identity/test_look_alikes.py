"""Names of accounts that people could take for another one: refused wherever they come in; old accounts work on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test import Client
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from pools.domain.changes.users import CreateUser, SetActive
from pools.domain.errors import BadInput, Conflict
from pools.domain.people.roles import SYSTEM
from pools.domain.people.user_names import user_name_violations
from pools.models import User
from pools.services.people import users
from pools.services.people.users import create_user
from pools.sign_on.accounts import sign_on
from pools.sign_on.providers import LdapDirectory, OpenIdProvider, ProviderFacts
from scheduling.configuration.files import BadFiles, ConfigurationFiles, read_file
from scheduling.services.configuration import ApplyOptions, apply_configuration
from tests.support.api_client import ApiClient
from tests.support.threads import run_concurrently
from tests.support.world import apply_change, make_user, sign_in

LOOK_ALIKES = {
    "fullwidth": "\uff41\uff44\uff4d\uff49\uff4e",
    "one fullwidth letter": "\uff41dmin",
    "a Cyrillic a": "\u0430dmin",
    "Cyrillic alone": "\u0430\u0441\u0435",
    "a dotless i": "adm\u0131n",
    "a Greek o": "r\u03bf\u03bft",
    "a long s": "\u017fally",
    "an accent": "\u00e1dmin",
    "a combining accent": "admi\u0301n",
    "digits of mathematics": "bob\U0001d7cf",
    "a mark that joins": "ad\u200dmin",
    "a modifier letter": "admin\u02b9",
}
FIRST_CHARACTERS = ("+1cmd", "@sum", "-2x", "=a", ".hidden", "_x")
Entry = Callable[[str], object]


def by_api(name: str, admin: ApiClient) -> None:
    answer = admin("POST", "/api/auth/user", {"id": name})
    assert answer.status == 400 and name not in str(answer.body)


def by_page(name: str, admin: ApiClient) -> None:
    root = sign_in("root")
    answer = root.post("/users/-/create", {"username": name, "step": "preview"}, follow=True)
    assert set(answer.context["form"].errors) == {"username"}


def by_command(name: str, admin: ApiClient) -> None:
    answer = CliRunner().invoke(app, ["user", "create", "--", name])
    assert answer.exit_code != 0 and "Traceback" not in answer.output


def by_git(name: str, admin: ApiClient) -> None:
    found = ConfigurationFiles()
    read_file("all.yaml", f'roles:\n  osmo-viewer: {{users: ["{name}"]}}\n'.encode(), found)
    with pytest.raises((BadInput, BadFiles)):
        apply_configuration(actor=SYSTEM, files=found, options=ApplyOptions("git"))


def by_provider(name: str, admin: ApiClient) -> None:
    provider = OpenIdProvider("corp", "Corp", "https://id.example", "osmo", "")
    with pytest.raises(BadInput, match="USERNAME_CLAIM"):
        sign_on(provider=provider, facts=ProviderFacts(provider.issuer, "1", username=name))


def by_directory(name: str, admin: ApiClient) -> None:
    directory = LdapDirectory("dir", "Dir", "ldap:dir", urls=("ldaps://x",), user_base="dc=x")
    with pytest.raises(BadInput):
        sign_on(provider=directory, facts=ProviderFacts(directory.issuer, "1", username=name, is_renewable=True))


ENTRIES = (by_api, by_page, by_command, by_git, by_provider, by_directory)


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.__name__ for entry in ENTRIES])
def test_no_entry_makes_such_an_account(
    admin: ApiClient, monkeypatch: pytest.MonkeyPatch, entry: Callable[[str, Any], None]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///already-set-up")
    known = User.objects.count()
    for name in (*LOOK_ALIKES.values(), *FIRST_CHARACTERS):
        entry(name, admin)
    assert User.objects.count() == known


def test_the_sentence_says_what_is_allowed_and_not_the_name() -> None:
    for name in LOOK_ALIKES.values():
        (found,) = user_name_violations(name)
        assert "letters a to z" in found.message and name not in found.message
    for name in ("ann", "Ann.Smith", "ann+ci@corp.example", "7of9", "a_b-c", "a" * 150):
        assert user_name_violations(name) == [], name


def test_a_name_that_differs_in_capitals_only(admin: ApiClient) -> None:
    make_user("bob")
    answer = admin("POST", "/api/auth/user", {"id": "Bob"})
    assert answer.status == 409 and answer.body["details"][0]["code"] == "username_differs_in_capitals"
    with pytest.raises(Conflict):
        make_user("BOB")


@pytest.mark.django_db(transaction=True)
def test_two_creations_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sees the other's row when it checks; the database lets one of them through."""
    both, check = threading.Barrier(2), users._require_unlike_others

    def check_and_wait(name: str) -> None:
        check(name)
        both.wait(30)

    monkeypatch.setattr(users, "_require_unlike_others", check_and_wait)
    names = ("eve", "Eve")
    outcomes = run_concurrently([partial(create_user, CreateUser(id=name), actor=SYSTEM) for name in names])
    (refusal,) = [each for each in outcomes if isinstance(each, Exception)]
    assert isinstance(refusal, Conflict)
    assert "differ in capitals only" in refusal.message
    assert User.objects.filter(username__iexact="eve").count() == 1


def test_the_database_is_the_floor(db: None) -> None:
    make_user("eve")
    with pytest.raises(IntegrityError, match="differ in capitals only"):
        User.objects.create(username="Eve")


def test_an_account_is_not_enabled_if_another_one_has_such_a_name(admin: ApiClient) -> None:
    first = apply_change(CreateUser(id="bob"))
    apply_change(SetActive(username="bob", active=False))
    make_user("Bob")
    with pytest.raises(Conflict, match="differ in capitals only"):
        apply_change(SetActive(username="bob", active=True))
    first.refresh_from_db()
    assert not first.is_active


def test_an_account_that_has_such_a_name_already_works_on(admin: ApiClient) -> None:
    """Accounts of former versions: logins, roles, files and new sign-ons."""
    old = apply_change(CreateUser(id="old"), password="a long enough pass phrase")
    User.objects.filter(pk=old.pk).update(username="j\u00f6rg")
    browser = Client()
    answer = browser.post("/login/", {"username": "j\u00f6rg", "password": "a long enough pass phrase"})
    assert answer.status_code == 302
    assert admin("POST", "/api/auth/user/j\u00f6rg/roles", {"role_name": "osmo-viewer"}).status == 200
    assert browser.get("/users").status_code == 200
    found = ConfigurationFiles()
    read_file("all.yaml", 'roles:\n  osmo-viewer: {users: ["j\u00f6rg"]}\n'.encode(), found)
    apply_configuration(actor=SYSTEM, files=found, options=ApplyOptions("git"))
    assert User.objects.get(pk=old.pk).as_actor().roles == {"osmo-viewer"}


def test_accounts_of_former_versions_that_differ_in_capitals_work_on(admin: ApiClient) -> None:
    apply_change(CreateUser(id="ann"), password="a long enough pass phrase")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE pools_user DISABLE TRIGGER USER")
        other = User.objects.create(username="Ann")
        cursor.execute("ALTER TABLE pools_user ENABLE TRIGGER USER")
    assert admin("POST", "/api/auth/user/Ann/roles", {"role_name": "osmo-viewer"}).status == 200
    assert Client().post("/login/", {"username": "ann", "password": "a long enough pass phrase"}).status_code == 302
    User.objects.filter(pk=other.pk).update(email="ann@corp.example")
