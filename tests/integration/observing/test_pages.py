"""The pages of an observed cluster say what is true of it, and nothing of the queues that we would write."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.test import Client

from scheduling.models import ClusterState
from tests.integration.admin.conftest import confirm_change
from tests.integration.observing.test_seen_work import Lab
from tests.support import world


@pytest.fixture
def lab(db: None) -> Lab:
    world.make_user("root", "osmo-admin")
    found = Lab()
    world.make_pool("science", 4, on=found.backend)
    found.firm.add_pod("job", namespace="science", gpus=2, node="n1")
    found.look()
    return found


@pytest.fixture
def browser(lab: Lab) -> Client:
    return world.sign_in("root")


def read(browser: Client, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_pages_say_what_is_true_of_an_observed_cluster(browser: Client) -> None:
    page = read(browser, "/clusters/lab")
    assert "/clusters/lab/differences" in page
    assert "/clusters/lab/webhooks" not in page, "no webhook is installed there"
    assert "Namespace of queue names" not in page

    page = read(browser, "/clusters/lab/sync")
    assert "The cluster is only read" in page
    assert "osmo-admin-observer" in page, "the account that lists and watches"
    for word in ("Desired state", "Edits by others", "webhook manifest", "Sync now"):
        assert word not in page

    page = read(browser, "/pools/science")
    assert "Its cluster is observed" in page
    assert "/workflows/-/submit?pool=science" not in page
    assert "Queue of the pool remainder" not in page

    guide, form = read(browser, "/clusters/-/connect"), read(browser, "/clusters/lab/configuration")
    assert "To observe it first" in guide
    assert "kubectl apply -f deploy/observer.yaml" in guide
    assert '<details class="oa-group" open><summary>Queues of a managed cluster</summary>' in guide
    assert '<details class="oa-group"><summary>Queues of a managed cluster</summary>' in form


def test_why_it_cannot_be_read_is_said(browser: Client) -> None:
    ClusterState.objects.update(error="The cluster does not know the credential.")
    assert "The cluster cannot be read: The cluster does not know the credential." in read(browser, "/clusters/lab")
    assert "The cluster does not know the credential." in read(browser, "/clusters/lab/sync")
    answer = world.call_as("root")("GET", "/api/backend/lab/sync")
    assert answer.body["contact_error"] == "The cluster does not know the credential."


def test_the_preview_of_a_switch_counts_what_runs_before_it(browser: Client) -> None:
    typed = {"namespace": "osmo-lab", "access": "in_cluster", "mode": "manage", "sync_mode": "apply"}
    page = read(browser, f"/clusters/lab/configuration/-/preview?{urlencode(typed)}")
    assert "(science), with 1 running workflow." in page
    assert "give it the rights of the manifest before" in page
    made = confirm_change(
        browser, "/clusters/-/connect", **typed | {"name": "second", "namespace": "second", "mode": "observe"}
    )
    assert (made.status_code, made["Location"]) == (302, "/clusters/second")
