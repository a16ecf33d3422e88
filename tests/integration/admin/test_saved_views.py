"""Saved views on the pages of lists."""

from __future__ import annotations

from django.urls import reverse

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.saved_views import SaveView
from pools.domain.people.saved_views import FilteredList
from pools.models import SavedView
from pools.representations.saved_views import LIST_ADDRESSES, LIST_TITLES
from tests.integration.admin.conftest import SignedIn, actor_named
from tests.support.world import apply_change

SAVE = "/views/-/save/workflows"


def test_filters_are_saved_under_a_name_and_are_one_click_away(as_person: SignedIn) -> None:
    worker = as_person("worker")
    link = f'href="{SAVE}?status=PENDING&amp;user=worker"'
    assert link in worker.get("/workflows?user=worker&status=PENDING&pool=&page=1").content.decode()
    assert SAVE not in worker.get("/workflows").content.decode()
    saved = worker.post(f"{SAVE}?status=PENDING&user=worker", {"name": "waits <b>"})
    assert saved.headers["Location"] == "/workflows?status=PENDING&user=worker"
    page = worker.get(saved.headers["Location"]).content.decode()
    assert '<a href="/workflows?status=PENDING&amp;user=worker" aria-current="true">waits &lt;b&gt;</a>' in page
    assert SAVE not in page
    assert "waits" in worker.get("/workflows").content.decode()
    assert "waits" not in worker.get("/pools").content.decode()
    assert "waits" not in as_person("root").get("/workflows").content.decode()


def test_a_name_that_cannot_be_saved_is_asked_for_again(as_person: SignedIn) -> None:
    answer = as_person("worker").post(f"{SAVE}?user=worker", {"name": "a/b"})
    assert answer.status_code == 400 and "without /" in answer.content.decode()
    assert "The view has no filter" in as_person("worker").post(SAVE, {"name": "all"}).content.decode()
    assert as_person("worker").get("/views/-/save/clouds").status_code == 404


def test_a_view_is_deleted_after_a_question(as_person: SignedIn) -> None:
    worker = as_person("worker")
    worker.post(f"{SAVE}?user=worker", {"name": "50% mine"})
    address = "/views/-/delete/workflows/50%25%20mine"
    assert f'href="{address}"' in worker.get("/views").content.decode()
    assert as_person("root").post(address).status_code == 404
    assert worker.get(address).status_code == 200 and SavedView.objects.exists()
    assert worker.post(address).status_code == 302 and not SavedView.objects.exists()
    assert "No saved views" in worker.get("/views").content.decode()
    text = worker.get(address).content.decode()
    assert "This change was made" in text and "View 50% mine was deleted." in text, "after Back"
    assert as_person("root").get(address).status_code == 404


def test_what_a_link_of_the_page_chooses_is_not_offered(as_person: SignedIn) -> None:
    root = as_person("root")
    for page, query in (
        (FilteredList.WORKFLOWS, ""), (FilteredList.WORKFLOWS, "user=root"),
        (FilteredList.WORKFLOWS, "status=RUNNING&page=1"), (FilteredList.QUEUE, "user=root"),
        (FilteredList.USAGE, "period=7d"), (FilteredList.NODES, "colour=user"),
        (FilteredList.SCHEDULER_EVENTS, "range=6h"),
    ):  # fmt: skip
        address = f"{reverse(LIST_ADDRESSES[page])}?{query}"
        more = f"{address}&user=ann" if page is FilteredList.USAGE else f"{address}&pool=team"
        offered = ["/views/-/save/" in root.get(each).content.decode() for each in (address, more)]
        assert offered == [False, True], address


def test_each_list_shows_its_views(as_person: SignedIn) -> None:
    apply_change(PutCohort(name="org", body={}))
    root = as_person("root")
    for page in FilteredList:
        apply_change(SaveView(page=page, name="of this list", query="q=x&pool=team"), actor=actor_named("root"))
        address = reverse(LIST_ADDRESSES[page])
        plain = root.get(address).content.decode()
        assert "of this list</a>" in plain and 'aria-current="true">of this list' not in plain, page
        found = root.get(f"{address}?pool=team&q=x").content.decode()
        assert 'aria-current="true">of this list</a>' in found, page
        other = root.get(f"{address}?pool=other").content.decode()
        assert f"/views/-/save/{page}?pool=other" in other
        assert page in LIST_TITLES
