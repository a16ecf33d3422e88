"""Without JavaScript nothing that was typed is lost: not by a refusal, and not by a preview, from which "Change the
input" leads back to the form."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from tests.integration.admin.conftest import WORKFLOW, SignedIn

Values = dict[str, list[str]]


class _FormReader(HTMLParser):
    """What a browser would send of each form of a page that is sent by POST, field by field."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Values] = []
        self._is_inside = False
        self._text_of: str | None = None
        self._select: str | None = None
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_inside = given.get("method") == "post"
            if self._is_inside:
                self.forms.append({})
        if not self._is_inside:
            return
        name = given.get("name", "")
        if tag == "select":
            self._select, self._options = name, []
        elif tag == "option":
            self._options.append((given.get("value", ""), "selected" in given))
        elif tag == "textarea":
            self._add(name, "")
            self._text_of = name
        elif tag == "input" and name and (given.get("type") not in ("checkbox", "radio") or "checked" in given):
            self._add(name, given.get("value", "on" if given.get("type") == "checkbox" else ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        elif tag == "textarea":
            self._text_of = None
        elif tag == "select" and self._select is not None:
            chosen = [value for value, is_selected in self._options if is_selected]
            for value in chosen or [value for value, _ in self._options[:1]]:
                self._add(self._select, value)
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._text_of is not None:
            texts = self.forms[-1][self._text_of]
            texts[-1] += data.removeprefix("\n") if not texts[-1] else data

    def _add(self, name: str, value: str) -> None:
        self.forms[-1].setdefault(name, []).append(value)


def _form_values(page: Any, name: str) -> Values:
    """The values of the form of the page with this field."""
    reader = _FormReader()
    reader.feed(page.content.decode())
    (found,) = [form for form in reader.forms if name in form]
    return found


def _filled(browser: Client, address: str, typed: Mapping[str, str | list[str]]) -> Values:
    """The form at an address as a person has changed it."""
    return {**_form_values(browser.get(address), next(iter(typed))), **_as_texts(typed)}


def _as_texts(typed: Mapping[str, str | list[str]]) -> Values:
    return {name: [value] if isinstance(value, str) else value for name, value in typed.items()}


def _assert_shown(page: Any, typed: Mapping[str, str | list[str]]) -> None:
    wanted = _as_texts(typed)
    shown = _form_values(page, next(iter(typed)))
    assert {name: shown.get(name) for name in wanted} == wanted


# address, user, input that is valid, and what of it is wrong in the refused form
POOL = {
    "guarantee": "4", "maximum": "9", "weight": "3", "about": "for tests", "description": "a reason",
}  # fmt: skip
FORMS: dict[str, tuple[str, str, dict[str, str | list[str]], dict[str, str]]] = {
    "pool": ("/pools/-/create", "root", {"name": "fresh", "backend": "sim", **POOL}, {"weight": "-7"}),
    "pool configuration": (
        "/pools/team/configuration", "root", {**POOL, "guarantee": "90", "maximum": "120"}, {"maximum": "x"},
    ),
    "subpool": (
        "/pools/team/subpools/create", "chief",
        {"subpool_name": "fresh", "quota": "4", "description": "a reason"}, {"quota": "900"},
    ),
    "resize": (
        "/pools/team/subpools/a/resize", "chief", {"quota": "31", "description": "a reason"}, {"quota": "900"},
    ),
    "many quotas": ("/pools/team/quotas", "chief", {"quota-a": "31", "quota-b": "21"}, {"quota-b": "900"}),
    "cohort": ("/cohorts/-/create", "root", {"name": "fresh", "description": "a reason"}, {"name": "not a name"}),
    "cluster": (
        "/clusters/-/create", "root",
        {"name": "fresh", "namespace": "ns2", "about": "for tests", "nodes": "n1 8\nn2 4"}, {"nodes": "n1 8\nn2 x"},
    ),
    "kubernetes cluster": (
        "/clusters/-/connect", "root", {"name": "fresh", "namespace": "ns2", "about": "for tests"},
        {"name": "not a name"},
    ),
    "user": (
        "/users/-/create", "root",
        {"username": "fresh", "roles": ["osmo-other-user", "osmo-team-user"]}, {"username": "not a name"},
    ),
    "roles": ("/users/worker/roles", "root", {"roles": ["osmo-other-user", "osmo-team-user"]}, {}),
    "GPU quota": (
        "/gpu-quotas/-/create", "root", {"namespace": "fresh", "requests_tflops": "100"},
        {"requests_tflops": "-1"},
    ),
}  # fmt: skip


WITH_SECRET = {"kubernetes cluster"}
"""A preview does not show a secret again, and says so: tests/integration/kube/test_sync_entry_points.py."""


@pytest.mark.parametrize("form", FORMS)
def test_neither_a_refusal_nor_the_way_back_from_a_preview_loses_anything(as_person: SignedIn, form: str) -> None:
    address, username, typed, wrong = FORMS[form]
    browser = as_person(username)
    if wrong:
        sent = {**typed, **wrong}
        answer = browser.post(address, {**_filled(browser, address, sent), "step": "preview"}, follow=True)
        assert answer.status_code == 400, answer.content.decode()
        _assert_shown(answer, sent)
    if form not in WITH_SECRET:
        preview = browser.post(address, {**_filled(browser, address, typed), "step": "preview"}, follow=True)
        assert preview.status_code == 200, preview.content.decode()
        hidden = _form_values(preview, "seen")
        assert 'name="step" value="edit">Change the input' in preview.content.decode()
        _assert_shown(browser.post(address, {**hidden, "step": "edit"}, follow=True), typed)


def test_the_submission_keeps_file_and_choices(as_person: SignedIn) -> None:
    worker, address = as_person("worker"), "/submit"
    for gpus, status in ((8, 200), ("many", 400)):
        typed = {"file": WORKFLOW.format(name="work", gpus=gpus), "pool": "team--a", "priority": "LOW"}
        answer = worker.post(address, {**typed, "step": "check"})
        assert answer.status_code == status
        _assert_shown(answer, typed)


def test_a_faulty_variable_is_named_as_the_box_is(as_person: SignedIn) -> None:
    typed = {"file": WORKFLOW.format(name="work", gpus=1), "pool": "team--a", "variables": "a=1\nnothing"}
    (fault,) = as_person("worker").post("/submit", {**typed, "step": "check"}).context["faults"]
    assert (fault.path, fault.text) == ("Template variables", "nothing")


def test_a_form_speaks_of_its_boxes(as_person: SignedIn) -> None:
    root, address = as_person("root"), "/pools/team/configuration"
    below = root.post(address, {"guarantee": "100", "maximum": "3", "weight": "1"}, follow=True).context["form"]
    (fault,) = below.errors["maximum"]
    assert "is below the quota: raise the maximum, or set no limit. An empty box means: no limit." in fault
    (fault,) = root.post(address, {"guarantee": "", "weight": "1"}, follow=True).context["form"].errors["guarantee"]
    assert "its quota must stay a number of GPUs; it cannot be unlimited." in fault
    for typed, said in (("5", "A borrowing limit needs a cohort"), ("many", "whole number from 0 to 2,147,483,647")):
        form = root.post(address, {"borrowing_limit": typed, "weight": "1"}, follow=True).context["form"]
        assert said in form.errors["borrowing_limit"][0]
    (fault,) = root.post(address, {"about": "x" * 2001}, follow=True).context["form"].errors["about"]
    assert fault == "The text has 2001 characters, and the most is 2000. Shorten it."
