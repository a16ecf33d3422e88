"""The page on which people set the mail address of their own account."""

from __future__ import annotations

import pytest
from django.test import Client

from pools.models import SignOnIdentity, User
from tests.support.world import make_user, sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def eve() -> Client:
    make_user("eve")
    return sign_in("eve")


def test_the_own_page_leads_to_the_address_and_shows_it(eve: Client) -> None:
    assert 'href="/mail_change/"' in eve.get("/users/eve").content.decode()
    assert eve.get("/mail_change/").status_code == 200
    answer = eve.post("/mail_change/", {"email": " eve@example.com "}, follow=True)
    assert "Your mail address is eve@example.com now." in answer.content.decode()
    assert User.objects.get(username="eve").email == "eve@example.com"
    eve.post("/mail_change/", {"email": ""})
    assert User.objects.get(username="eve").email == ""


def test_a_wrong_address_is_refused_next_to_its_field(eve: Client) -> None:
    answer = eve.post("/mail_change/", {"email": "eve at home"})
    assert answer.status_code == 400
    assert "is not a mail address; an example is alice@example.com." in answer.content.decode()
    assert User.objects.get(username="eve").email == ""


def test_an_account_of_a_provider_has_no_link_to_it(eve: Client) -> None:
    user = User.objects.get(username="eve")
    SignOnIdentity.objects.create(user=user, provider="corp", issuer="https://corp.example", subject="s-1")
    assert 'href="/mail_change/"' not in eve.get("/users/eve").content.decode()
    answer = eve.post("/mail_change/", {"email": "eve@example.com"})
    assert answer.status_code == 400
    assert "comes from the identity provider corp" in answer.content.decode()
