"""The inbox: what is news for whom, what was read, and how long it is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count

import pytest
from django.utils import timezone

from pools.domain.changes.notices import MarkAllRead, MarkRead
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.changes.users import DeleteUser
from pools.domain.people.notices import NoticeKind
from pools.domain.people.roles import Actor
from pools.models import InboxNotice, InboxRead, NoticeCondition, Pool, User
from pools.selectors.inbox import inbox_of
from pools.services.people.inbox import mark_all_read, mark_read
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.services.notices.sending import delete_old_notices
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.notices import plan_notices
from tests.support.threads import run_concurrently

INBOX = "/api/notices/inbox"


@pytest.fixture
def people(caller: Callers) -> dict[str, ApiClient]:
    """Researchers and admins of two pools, and people of the platform."""
    world.make_pool("team")
    world.make_pool("other")
    roles = {
        "rita": "osmo-team-user", "tom": "osmo-team-user", "lead": "osmo-team-admin", "lena": "osmo-other-admin",
        "root": "osmo-admin", "viewer": "osmo-viewer", "nobody": "",
    }  # fmt: skip
    return {name: caller(name, role) if role else caller(name) for name, role in roles.items()}


@pytest.fixture
def news(people: dict[str, ApiClient]) -> dict[str, int]:
    entries = count(1)

    def add(title: str, pool: str = "", owner: str = "") -> int:
        row = InboxNotice.objects.create(
            entry=next(entries),
            kind=NoticeKind.DRAIN,
            subject=f"pool/{title}",
            title=title,
            text=title,
            pool=Pool.objects.get(name=pool) if pool else None,
            owner=User.objects.get(username=owner) if owner else None,
        )
        return row.pk

    return {
        "rita": add("rita", "team", "rita"),
        "team": add("team", "team"),
        "other": add("other", "other"),
        "installation": add("installation"),
    }


SEES = {
    "rita": {"rita"},
    "tom": set[str](),
    "lead": {"team"},
    "lena": {"other"},
    "root": {"team", "other", "installation"},
    "viewer": {"team", "other", "installation"},
    "nobody": set[str](),
}


def test_who_sees_what(people: dict[str, ApiClient], news: dict[str, int]) -> None:
    for name, titles in SEES.items():
        answer = people[name]("GET", INBOX)
        assert {each["title"] for each in answer.body["news"]} == titles, name
        assert answer.body["unread"] == len(titles), "a mark is one person's own"
        for title, number in news.items():
            marked = people[name]("POST", f"{INBOX}/{number}/read")
            assert marked.status == (200 if title in titles else 404), (name, title)
        assert people[name]("GET", INBOX).body["unread"] == 0, name
    assert InboxRead._default_manager.count() == sum(map(len, SEES.values()))


def test_a_role_that_was_taken_away_takes_its_news_along(people: dict[str, ApiClient], news: dict[str, int]) -> None:
    User.objects.get(username="lead").groups.clear()
    assert people["lead"]("GET", INBOX).body["news"] == []


def test_marks(people: dict[str, ApiClient], news: dict[str, int]) -> None:
    root = people["root"]
    assert root("POST", f"{INBOX}/{news['team']}/read").body == {"marked": 1}
    assert root("POST", f"{INBOX}/{news['team']}/read").body == {"marked": 0}, "a repetition changes nothing"
    assert [each["read"] for each in root("GET", INBOX).body["news"]] == [False, False, True]
    assert [each["title"] for each in root("GET", f"{INBOX}?unread=true").body["news"]] == ["installation", "other"]
    assert root("POST", f"{INBOX}/read").body == {"marked": 2}
    assert people["viewer"]("GET", INBOX).body["unread"] == 3


def test_old_news_go(people: dict[str, ApiClient], news: dict[str, int], set_osmo: Callable[..., None]) -> None:
    set_osmo(notice_retention_days=2)
    people["root"]("POST", f"{INBOX}/read")
    InboxNotice.objects.filter(pk=news["team"]).update(created_at=timezone.now() - timedelta(days=3))
    delete_old_notices()
    assert set(InboxNotice.objects.values_list("pk", flat=True)) == set(news.values()) - {news["team"]}
    assert not InboxRead._default_manager.filter(notice_id=news["team"]).exists()


def test_a_later_person_of_the_same_name_finds_nothing(people: dict[str, ApiClient], news: dict[str, int]) -> None:
    world.submit_workflow(User.objects.get(username="rita").as_actor(), "team")
    people["rita"]("POST", f"{INBOX}/read")
    world.apply_change(DeleteUser(username="rita"))
    assert not InboxNotice.objects.filter(pk=news["rita"]).exists()
    assert not InboxRead._default_manager.exists()


def _texts(name: str) -> list[str]:
    return [row.text for row in inbox_of(User.objects.get(username=name).as_actor())]


@pytest.mark.usefixtures("ledger")
class TestNews:
    """What the audit trail tells becomes news, for those whom it concerns."""

    @pytest.fixture
    def bob(self) -> Actor:
        world.make_pool("team", 100, a=10)
        for name, role in (("lead", "osmo-team-admin"), ("root", "osmo-admin"), ("tom", "osmo-team-user")):
            world.make_user(name, role)
        actor = world.make_user("bob", "osmo-team-user")
        plan_notices()
        return actor

    def test_each_piece_is_written_once_and_needs_no_target(self, bob: Actor) -> None:
        root = User.objects.get(username="root").as_actor()
        world.submit_workflow(bob, "team--a", name="long")
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a"), actor=root)
        for _ in range(2):
            plan_notices()
        (mine,) = _texts("bob")
        assert "it waits for 1 active workflow of yours" in mine
        (of_pool,) = _texts("lead")
        assert "1 active workflow remains" in of_pool
        assert _texts("root") == [of_pool]
        assert _texts("tom") == []

    def test_the_own_cancellation_is_no_news(self, bob: Actor) -> None:
        root = User.objects.get(username="root").as_actor()
        for name, actor in (("mine", bob), ("lost", root)):
            world.submit_workflow(bob, "team--a", name=name)
            world.apply_change(CancelWorkflow(name=f"{name}-1"), actor=actor)
        plan_notices()
        (text,) = _texts("bob")
        assert "lost-1" in text
        assert _texts("lead") == [], "the work of a person is news for that person alone"

    def test_a_person_who_is_gone_holds_nothing_up(self, bob: Actor) -> None:
        eve, team = world.make_user("eve"), Pool.objects.get(name="team")
        for owner, message in ((eve.user_id, "of eve"), (None, "of the pool")):
            NoticeCondition.objects.create(
                kind="long_wait", subject=message, pool=team, owner_id=owner, message=message
            )
        User.objects.filter(username="eve").delete()
        plan_notices()
        assert _texts("lead") == ["of the pool"], "what was for one person is for nobody else"

    def test_two_programs_mark_at_once(self, bob: Actor) -> None:
        row = InboxNotice.objects.create(
            entry=1, kind="drain", subject="pool/team", title="x", text="x", owner_id=bob.user_id
        )
        marks = [partial(mark_read, MarkRead(news=row.pk), actor=bob), partial(mark_all_read, MarkAllRead(), actor=bob)]
        outcomes = run_concurrently(marks * 4)
        assert not [each for each in outcomes if isinstance(each, Exception)]
        assert InboxRead._default_manager.filter(person=bob.user_id).count() == 1
