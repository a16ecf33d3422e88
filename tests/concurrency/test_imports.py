"""Two admins who confirm an import at the same moment: one is carried out, the other one is shown a new preview."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.http import HttpResponse
from django.test import Client

from pools.models import AuditEntry, User
from tests.integration.admin.test_imports import preview_of, queues, quota_of, text_of
from tests.support import world

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _browser(name: str) -> Client:
    world.make_user(name, "osmo-admin")
    browser = Client()
    browser.force_login(User.objects.get(username=name), "django.contrib.auth.backends.ModelBackend")
    return browser


def _confirm_together(browsers: list[Client], forms: list[dict[str, str]]) -> list[HttpResponse]:
    ready = threading.Barrier(len(browsers))

    def confirm(browser: Client, hidden: dict[str, str]) -> HttpResponse:
        try:
            ready.wait(10)
            return browser.post("/import", {**hidden, "step": "confirm"}, follow=True)  # type: ignore[return-value]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(browsers)) as threads:
        return list(threads.map(confirm, browsers, forms))


def test_of_two_imports_of_the_same_pools_one_is_carried_out() -> None:
    world.make_backend("sim")
    browsers = [_browser("ann"), _browser("bob")]
    for turn in range(4):
        names = [f"a{turn}", f"b{turn}"]
        files = [queues(**dict.fromkeys(names, quota)) for quota in (2, 3)]
        forms = [
            preview_of(browser, "kai", ("q.yaml", file), cluster="sim")[1]
            for browser, file in zip(browsers, files, strict=True)
        ]
        texts = [text_of(answer) for answer in _confirm_together(browsers, forms)]

        done = [number for number, text in enumerate(texts) if "The import made 2 changes." in text]
        assert len(done) == 1, texts
        assert "was changed meanwhile" in texts[1 - done[0]], texts
        assert {quota_of(name) for name in names} == {(2, 3)[done[0]]}
        actors = AuditEntry.objects.filter(action="pool.created", object__in=[f"pool/{name}" for name in names])
        assert {entry.actor for entry in actors} == {("ann", "bob")[done[0]]}
