"""The page of the inbox, and the bell in the head of each page."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pools.models import InboxNotice, User
from pools.selectors.inbox import MOST_COUNTED
from pools.templatetags.osmo import object_words
from tests.support import world
from tests.support.world import sign_in

pytestmark = pytest.mark.django_db

PAGE = "/inbox"


@pytest.fixture
def bob() -> Client:
    world.make_pool("team")
    world.make_user("bob", "osmo-team-user")
    return sign_in("bob")


def _add(count: int, owner: str = "bob", start: int = 1) -> list[InboxNotice]:
    person = User.objects.get(username=owner)
    rows = [
        InboxNotice(
            entry=number, kind="preempted", subject=f"workflow/w{number}", title=f"Preempted: w{number}",
            text=f"Workflow w{number} was preempted: <why>", page=f"/workflows/w{number}", owner=person,
        )
        for number in range(start, start + count)
    ]  # fmt: skip
    return InboxNotice.objects.bulk_create(rows)


def _text(client: Client, address: str = PAGE) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_news_is_read_one_by_one_or_all_at_once(bob: Client) -> None:
    assert "No news" in _text(bob)
    _, second, _ = _add(3)
    page = _text(bob)
    assert page.index("Workflow w3") < page.index("Workflow w1"), "the newest first"
    assert 'href="/workflows/w2">w2</a>' in page and "&lt;why&gt;" in page
    assert page.count('class="oa-unread"') == 3
    assert 'aria-label="3 unread notices"' in _text(bob, "/tokens"), "the bell is on each page"
    answer = bob.post(f"{PAGE}/{second.pk}/read?unread=true&page=1")
    assert answer.headers["Location"] == f"{PAGE}?unread=true&page=1"
    assert 'aria-label="2 unread notices"' in _text(bob)
    unread = _text(bob, f"{PAGE}?unread=true")
    assert "Workflow w2" not in unread and "Workflow w1" in unread
    assert bob.post(f"{PAGE}/-/read").status_code == 302
    page = _text(bob)
    assert 'class="oa-unread"' not in page and "Mark all as read" not in page and "Workflow w1" in page
    assert "Nothing is unread" in _text(bob, f"{PAGE}?unread=true")
    assert 'aria-label="No unread notices"' in page


@pytest.mark.parametrize(
    ("subject", "words"), [("pool/vision--ocr", "vision--ocr"), ("approval/1", "request 1"), ("other", "other")]
)
def test_an_object_is_called_as_people_call_it(subject: str, words: str) -> None:
    assert object_words(subject) == words


def test_the_news_of_another_person_is_not_there(bob: Client) -> None:
    (mine,) = _add(1)
    world.make_user("eve", "osmo-team-user")
    eve = sign_in("eve")
    assert "w1" not in _text(eve)
    assert eve.post(f"{PAGE}/{mine.pk}/read").status_code == 404
    eve.post(f"{PAGE}/-/read")
    assert 'aria-label="1 unread notice"' in _text(bob)


def test_reading_a_page_marks_nothing(bob: Client) -> None:
    (mine,) = _add(1)
    for address in (f"{PAGE}/{mine.pk}/read", f"{PAGE}/-/read"):
        assert bob.get(address).status_code == 302
    assert 'aria-label="1 unread notice"' in _text(bob)


def test_the_bell_counts_to_a_limit_in_one_query(bob: Client) -> None:
    def queries() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as seen:
            _text(bob, "/tokens")
        asked = [each for each in seen.captured_queries if "pools_inboxnotice" in each["sql"]]
        return len(seen), len(asked)

    before = queries()
    assert before[1] == 1
    _add(MOST_COUNTED + 20)
    assert queries() == before
    page = _text(bob)
    assert f'aria-label="{MOST_COUNTED} or more unread notices"' in page and f">{MOST_COUNTED - 1}+<" in page
    assert 'rel="next"' in page


def test_without_a_login_there_is_no_bell() -> None:
    assert "oa-bell" not in Client().get("/login/").content.decode()
