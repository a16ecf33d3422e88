"""A form that is sent after its session has ended comes back after the login, and counts when it is sent again."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django import forms
from django.test import Client

from osmo_admin.web import preserved_input
from pools.admin.configuration.cluster_forms import ConnectClusterForm
from pools.admin.forms import INCOMPLETE_INPUT, SecretField, ServiceForm
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PutPool
from pools.domain.changes.users import CreateUser
from pools.models import User
from scheduling.models import Workflow
from tests.support.world import apply_change, sign_in

PASSWORD = "only-for-tests-4711"
CREATE = "/users/-/create"


@pytest.fixture
def root(db: None) -> User:
    return apply_change(CreateUser(id="root", roles=("osmo-admin",)), password=PASSWORD)


def test_a_file_that_was_chosen_is_asked_for_and_not_replaced(root: User) -> None:
    apply_change(PutBackend(name="sim", body={"nodes": [{"name": "n1", "gpus": 8}]}))
    apply_change(PutPool(name="team", body={"backend": "sim", "resources": {"gpu": {"guarantee": 8}}}))
    client, submit = Client(), "/submit"
    example = "workflow: {name: example, tasks: [{name: main, image: ubuntu, command: [sh]}]}"
    sent = {"pool": "team", "file": example, "variables": "", "step": "submit"}
    back = _login(client, client.post(submit, {**sent, "upload": io.StringIO("workflow: {name: mine}")}))
    refused = client.post(submit, dict(back.context["typed"].fields) | hidden_fields(back))
    assert refused.status_code == 400
    assert "not kept during the login" in refused.context["form"].errors["upload"][0]
    assert refused.context["form"]["file"].value() == example
    assert not Workflow.objects.exists()


def hidden_fields(page: Any) -> dict[str, str]:
    """What the page sends along to say that it is not all."""
    return {INCOMPLETE_INPUT: "yes"} if f'name="{INCOMPLETE_INPUT}" value="yes"' in page.content.decode() else {}


def _login(client: Client, page: Any, password: str = PASSWORD) -> Any:
    """Fill in the login form of this page and send it."""
    context = page.context
    typed = {"username": "root", "password": password, "next": context["next"], "typed": context["typed"]}
    return client.post(context["app_path"], typed)


def test_what_was_typed_comes_through_the_login(root: User) -> None:
    client = Client()
    sent = {"username": "a+b", "roles": ["osmo-admin", "osmo-viewer"], "password": "not-to-be-kept"}
    page = client.post(f"{CREATE}?from=list", sent)
    assert page.status_code == 403
    assert "You have been signed out" in page.content.decode()
    assert "not-to-be-kept" not in page.content.decode()
    assert not User.objects.filter(username="a+b").exists()

    wrong = _login(client, page, "wrong")
    assert "You have been signed out" in wrong.content.decode()
    back = _login(client, wrong)
    assert back.context["address"] == f"{CREATE}?from=list"
    assert back.context["typed"].fields == (("username", "a+b"), ("roles", "osmo-admin"), ("roles", "osmo-viewer"))
    assert "will ask again for the secret" in back.content.decode()
    assert not User.objects.filter(username="a+b").exists()

    again: dict[str, list[str]] = {}
    for name, value in back.context["typed"].fields:
        again.setdefault(name, []).append(value)
    refused = client.post(back.context["address"], again | hidden_fields(back))
    assert set(refused.context["form"].errors) == {"password"}, "left out, it would mean an account without one"
    assert hidden_fields(refused) == {}
    preview = client.post(back.context["address"], {**again, "step": "preview"}, follow=True)
    assert client.post(CREATE, {**preview.context["hidden"], "step": "confirm"}).status_code == 302
    assert User.objects.get(username="a+b").as_actor().roles == {"osmo-admin", "osmo-viewer"}


def test_a_page_that_was_only_looked_at_leads_back_by_itself(root: User) -> None:
    client = Client()
    assert client.get(CREATE).headers["Location"] == f"/login/?next={CREATE}"
    answer = client.post("/login/", {"username": "root", "password": PASSWORD, "next": CREATE})
    assert (answer.status_code, answer.headers["Location"]) == (302, CREATE)


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [(CREATE, CREATE), ("https://elsewhere.example/", "/"), ("//elsewhere.example", "/"), ("", "/")],
)
def test_who_is_signed_in_already_goes_on_from_the_login(root: User, target: str, leads_to: str) -> None:
    """Signed in meanwhile in another tab."""
    client = sign_in(root)
    assert client.get("/login/", {"next": target}).headers["Location"] == leads_to


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"fields": 1}', '{"fields": [1], "incomplete": true}'])
def test_a_field_that_somebody_else_filled_in_is_no_input(root: User, text: str) -> None:
    typed = {"username": "root", "password": PASSWORD, "next": CREATE, "typed": text}
    assert Client().post("/login/", typed).headers["Location"] == CREATE


def test_it_leads_to_no_other_site(root: User) -> None:
    typed = {"username": "root", "password": PASSWORD, "next": "https://elsewhere.example/", "typed": _text()}
    assert Client().post("/login/", typed).context["address"] == "/"
    for address in ("https://elsewhere.example/", ""):
        plain = {"username": "root", "password": PASSWORD, "next": address}
        assert Client().post("/login/", plain).headers["Location"] == "/"


def test_too_much_is_not_carried_and_that_is_said(root: User) -> None:
    page = Client().post("/submit", {"file": "x" * preserved_input.MAX_CHARACTERS})
    assert page.context["typed"] == ""
    assert "too long to be kept" in page.content.decode()


def test_a_page_from_before_a_login_shows_what_was_typed_for_copying(root: User) -> None:
    client = sign_in(root, enforce_csrf_checks=True)
    sent = {"username": "<b>typed", "password": "not-to-be-kept", "step": "preview", "csrfmiddlewaretoken": "old"}
    page = client.post(CREATE, sent)
    text = page.content.decode()
    assert page.status_code == 403
    assert "Nothing was changed" in text
    assert "&lt;b&gt;typed</textarea>" in text
    assert text.count("<textarea") == 1
    assert "<form" not in text
    assert "not-to-be-kept" not in text


def test_somebody_who_logs_out_twice_is_logged_out() -> None:
    assert Client().post("/logout/").status_code == 302


def test_every_secret_of_every_form_is_left_out() -> None:
    assert ConnectClusterForm in _below(ServiceForm)
    fields = {name: field for form in _below(ServiceForm) for name, field in form.base_fields.items()}
    secret = {name for name, field in fields.items() if isinstance(field, SecretField)}
    assert secret == preserved_input.SECRET_FIELDS
    assert not [name for name in fields if name == preserved_input.FIELD_NAME]


def _below(form: type[forms.Form]) -> set[type[forms.Form]]:
    return {form}.union(*(_below(each) for each in form.__subclasses__()))


def _text() -> str:
    return json.dumps({"fields": [["username", "a"]], "incomplete": False})
