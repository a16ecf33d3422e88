"""The webhooks' pages in the browser."""

from __future__ import annotations

from django.test import Client
from django.utils import timezone

from pools.models import Backend
from scheduling.models import QueueGuard, UnmarkedReviews, WebhookInstallation
from tests.integration.webhooks.conftest import Ask, pod
from tests.support import world
from tests.support.world import sign_in

LIST = "/clusters/-/webhooks"
PAGE = "/clusters/prod/webhooks"


def test_the_list_names_each_cluster_and_its_bypass_attempts(cluster: Backend, ask: Ask, browser: Client) -> None:
    ask(pod())
    ask(pod())
    page = browser.get(LIST).content.decode()
    assert PAGE in page
    assert "enforce" in page
    assert 'data-label="Bypass attempts" class="oa-right">2<' in page


def test_without_clusters_the_list_says_so(db: None, browser: Client) -> None:
    assert "none is connected" in browser.get(LIST).content.decode()


def test_the_page_shows_callers_and_reasons(cluster: Backend, ask: Ask, browser: Client) -> None:
    ask(pod(), who="<mallory>")
    page = browser.get(PAGE).content.decode()
    assert "&lt;mallory&gt;" in page
    assert "osmo workflow submit FILE --pool team--a" in page


def test_the_page_shows_what_is_wrong_in_the_cluster(cluster: Backend, browser: Client) -> None:
    assert "not installed in this cluster" in browser.get(PAGE).content.decode()
    WebhookInstallation.objects.create(
        backend=cluster, url="https://h:1", problem="It cannot be put back.", checked_at=timezone.now()
    )
    UnmarkedReviews.objects.create(backend=cluster, attempts=4711)
    page = browser.get(PAGE).content.decode()
    assert "It cannot be put back." in page
    assert "4711" in page


def test_saving(cluster: Backend, browser: Client) -> None:
    sent = {"mode": "audit", "identity": "us", "accounts": "one\n\n two \n", "strict_minimums": "on", "version": "1"}
    answer = browser.post(PAGE, sent, follow=True)
    assert "are now in mode audit" in answer.content.decode()
    row = QueueGuard.objects.get()
    assert (row.mode, row.identity, row.accounts) == ("audit", "us", ["one", "two"])
    assert row.strict_minimums


def test_a_fault_keeps_the_input(cluster: Backend, browser: Client) -> None:
    answer = browser.post(PAGE, {"mode": "enforce", "identity": "u s", "accounts": "a b", "version": "1"})
    page = answer.content.decode()
    assert answer.status_code == 400
    assert 'value="u s"' in page
    assert "without spaces" in page
    assert QueueGuard.objects.get().identity == ""


def test_a_concurrent_change_is_not_overwritten(cluster: Backend, browser: Client) -> None:
    browser.post(PAGE, {"mode": "audit", "version": "1"})
    answer = browser.post(PAGE, {"mode": "off", "version": "1"})
    assert answer.status_code == 400
    assert "was changed meanwhile" in answer.content.decode()
    assert QueueGuard.objects.get().mode == "audit"


def test_only_platform_readers_see_the_page(cluster: Backend) -> None:
    for name, role, status in (("vera", "osmo-viewer", 200), ("otto", "", 403)):
        world.make_user(name, *([role] if role else []))
        client = sign_in(name)
        assert client.get(PAGE).status_code == status
        assert client.post(PAGE, {"mode": "off"}).status_code == 403
