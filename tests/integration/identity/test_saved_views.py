"""Saved views: a person's names for the filters of lists."""

from __future__ import annotations

import pytest

from pools.domain.changes.users import DeleteUser
from pools.domain.people.saved_views import MAX_VIEWS
from pools.models import SavedView, User
from tests.support import world
from tests.support.api_client import Callers

pytestmark = pytest.mark.django_db

VIEWS = "/api/profile/views"
MINE = f"{VIEWS}/workflows/my pending work"


def test_a_view_is_saved_replaced_and_deleted(caller: Callers) -> None:
    bob = caller("bob")
    saved = bob("PUT", MINE, {"query": "?user=bob&status=PENDING&pool=&page=3&select=all&sort=-gpus"})
    assert saved.body == {
        "list": "workflows",
        "name": "my pending work",
        "query": "sort=-gpus&status=PENDING&user=bob",
        "page": "/workflows?sort=-gpus&status=PENDING&user=bob",
    }
    bob("PUT", f"{VIEWS}/pools/offline", {"query": "show=offline"})
    assert [view["name"] for view in bob("GET", VIEWS).body["views"]] == ["offline", "my pending work"]
    bob("PUT", MINE, {"query": "status=RUNNING"})
    assert [view["query"] for view in bob("GET", f"{VIEWS}?list=workflows").body["views"]] == ["status=RUNNING"]
    assert bob("DELETE", MINE).status == 200
    assert [view["name"] for view in bob("GET", VIEWS).body["views"]] == ["offline"]
    assert bob("DELETE", MINE).status == 404


def test_nobody_sees_or_deletes_the_views_of_others(caller: Callers) -> None:
    caller("bob")("PUT", MINE, {"query": "user=bob"})
    admin = caller("ann", "osmo-admin")
    assert admin("GET", VIEWS).body["views"] == []
    assert admin("DELETE", MINE).status == 404
    assert SavedView.objects.count() == 1


def test_a_view_that_cannot_be_saved(caller: Callers) -> None:
    bob = caller("bob")
    for address, body, status, text in (
        (f"{VIEWS}/lists/x", {"query": "a=1"}, 404, "The lists are pools, quota_tree"),
        (f"{VIEWS}/workflows/{'x' * 41}", {"query": "a=1"}, 400, "1 to 40 characters"),
        (f"{VIEWS}/workflows/---", {"query": "a=1"}, 400, "a letter or a digit"),
        (MINE, {"query": "page=2&pool="}, 400, "The view has no filter"),
        (MINE, {"query": "pool=" + "x" * 2000}, 400, "at most 2,000"),
        (MINE, {}, 400, "query"),
        (MINE, {"query": 5}, 400, "query"),
        (MINE, {"query": "a=1", "filters": {}}, 400, "filters"),
    ):
        answer = bob("PUT", address, body)
        assert (answer.status, text in str(answer.body)) == (status, True), answer.body
    assert not SavedView.objects.exists()
    unknown = bob("GET", f"{VIEWS}?list=clouds")
    assert unknown.status == 400 and "scheduler_events" in str(unknown.body), "refused with the known lists"


def test_a_person_has_a_limited_number_of_views(caller: Callers) -> None:
    bob = caller("bob")
    owner = User.objects.get(username="bob")
    SavedView.objects.bulk_create(
        SavedView(owner=owner, page="pools", name=str(number), query="a=1") for number in range(MAX_VIEWS)
    )
    refusal = bob("PUT", MINE, {"query": "a=1"})
    assert refusal.status == 409 and "Delete one first" in str(refusal.body)
    assert bob("PUT", f"{VIEWS}/pools/7", {"query": "a=2"}).status == 200


def test_the_next_person_of_a_name_does_not_get_the_views_of_the_last(caller: Callers) -> None:
    world.make_pool("team", 100)
    bob = caller("bob", "osmo-team-user")
    world.submit_workflow(User.objects.get(username="bob").as_actor(), "team", 1)  # the row of the account stays
    bob("PUT", MINE, {"query": "user=bob"})
    world.apply_change(DeleteUser(username="bob"))
    world.make_user("bob")
    assert not SavedView.objects.exists()
