"""Replays of history as background jobs: progress, cancellation, processes that die, and who may read them."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from pools.domain.changes.users import DeleteUser, RevokeRole
from pools.domain.errors import NotFound
from pools.models import User
from scheduling.history.own import replays
from scheduling.history.own.history_replays import find_replay, list_replays
from scheduling.models import HistoryReplay
from scheduling.models.history.history_replay import ReplayStatus as Status
from scheduling.services import notifications
from tests.integration.workflows.recorded_story import QUOTA_4, Story
from tests.support import world


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn is given back at every instant, without a pause."""
    monkeypatch.setattr(replays, "TURN_SECONDS", 0)
    monkeypatch.setattr(replays, "PAUSE_SECONDS", 0)


def ask(who: Any, story: Story, *changes: Any) -> UUID:
    answer = who.post("/api/replay", story.body(*changes))
    assert who.status == 202, answer
    return UUID(answer["id"])


def test_it_waits_runs_and_is_complete(story: Story, admin: Any, quick: None) -> None:
    pk = ask(admin, story, QUOTA_4)
    waiting = admin.get(f"/api/replay/{pk}")
    assert (waiting["status"], waiting["progress"], waiting["answer"]) == ("WAITING", 0, None)
    assert waiting["question"]["changes"] == [QUOTA_4]
    replays.run_replay(pk)
    done = admin.get(f"/api/replay/{pk}")
    assert (done["status"], done["progress"], done["refusal"]) == ("COMPLETED", 1, None)
    assert done["answer"]["identical"]
    assert done["started_at"] <= done["ended_at"]
    listed = admin.get("/api/replay")
    assert [(row["id"], row["status"], row["answer"]) for row in listed] == [(str(pk), "COMPLETED", None)]
    replays.run_replay(pk)  # a second message
    assert admin.get(f"/api/replay/{pk}") == done


def test_a_replay_that_is_cancelled_stops(
    story: Story, admin: Any, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk, seen, instants = ask(admin, story, QUOTA_4), list[float](), list[str]()

    def watch(_: float) -> None:
        seen.append(HistoryReplay.objects.get(pk=pk).progress)

    def cancel(_: float) -> None:
        instants.append(admin.post(f"/api/replay/{pk}/cancel", {})["status"])

    monkeypatch.setattr(replays, "time", SimpleNamespace(sleep=watch, monotonic=time.monotonic))
    replays.run_replay(pk)
    assert seen == sorted(seen), "the progress grows"
    assert 0 <= seen[0] < 1 / 3 < 2 / 3 < seen[-1] <= 1

    pk = ask(admin, story)
    monkeypatch.setattr(replays, "time", SimpleNamespace(sleep=cancel, monotonic=time.monotonic))
    replays.run_replay(pk)
    assert instants == ["CANCELED"]
    row = HistoryReplay.objects.get(pk=pk)
    assert (row.status, row.answer) == (Status.CANCELED, None)
    assert admin.post(f"/api/replay/{pk}/cancel", {})["status"] == "CANCELED"

    pk = ask(admin, story)
    admin.post(f"/api/replay/{pk}/cancel", {})
    replays.run_replay(pk)
    assert HistoryReplay.objects.get(pk=pk).started_at is None, "a cancelled replay does not begin"


def test_one_replay_of_a_person_at_a_time(story: Story, admin: Any, caller: Any) -> None:
    pk = ask(admin, story)
    assert "Another replay of yours" in admin.post("/api/replay", story.body())["message"]
    assert admin.status == 429
    ask(caller("chief", "osmo-team-admin"), story)
    admin.post(f"/api/replay/{pk}/cancel", {})
    ask(admin, story)


def test_a_replay_that_takes_too_long_is_refused(story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MAX_WORK_SECONDS", -1)
    pk = ask(admin, story)
    replays.run_replay(pk)
    row = admin.get(f"/api/replay/{pk}")
    assert (row["status"], row["refusal"]["details"][0]["code"]) == ("FAILED", "window_too_long")


def test_other_long_work_goes_first(story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While other long work has the turn, the replay waits and shows that it is alive."""
    pk, held = ask(admin, story), []

    class Turn:
        def __enter__(self) -> None:
            held.append(HistoryReplay.objects.get(pk=pk).status)
            if len(held) < 3:
                raise replays.LongWorkRuns("busy")

        def __exit__(self, *_: object) -> None:
            """It is given back."""

    monkeypatch.setattr(replays, "hold_long_work_turn", Turn)
    monkeypatch.setattr(replays, "time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
    replays.run_replay(pk)
    assert held == [Status.RUNNING] * 3
    assert HistoryReplay.objects.get(pk=pk).status == Status.COMPLETED


@pytest.mark.django_db(transaction=True)
def test_a_second_replay_holds_no_process_of_the_worker(caller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits in the table, not in its task, and begins when the first one ends."""
    story, sent = Story(), list[UUID]()
    monkeypatch.setattr(notifications, "enqueue_history_replay", sent.append)
    first, second = ask(caller("root", "osmo-admin"), story), ask(caller("chief", "osmo-team-admin"), story)
    assert sent == [first, second]
    answers: list[bool] = []

    def run_second() -> None:
        replays.run_replay(second)
        connection.close()

    def answer(*_: Any) -> dict[str, Any]:
        if not answers:
            other = threading.Thread(target=run_second, daemon=True)
            other.start()
            other.join(10)
            answers.append(other.is_alive())
        return {}

    monkeypatch.setattr(replays, "replay_own_history", answer)
    replays.run_replay(first)
    assert answers == [False], "the task of the second replay has ended"
    rows = HistoryReplay.objects
    assert (rows.get(pk=first).status, rows.get(pk=second).status) == (Status.COMPLETED, Status.WAITING)
    assert sent == [first, second, second]
    replays.run_replay(second)
    assert rows.get(pk=second).status == Status.COMPLETED


def test_a_replay_begins_again_once_after_its_process_died(
    story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[UUID] = []
    monkeypatch.setattr(notifications, "enqueue_history_replay", sent.append)
    pk = ask(admin, story)
    rows = HistoryReplay.objects.filter(pk=pk)
    rows.update(status=Status.RUNNING, tries=1, beat_at=timezone.now())
    replays.resume_replays()
    assert (rows.get().status, sent) == (Status.RUNNING, []), "its process is alive"
    rows.update(beat_at=timezone.now() - replays.LOST_AFTER - timedelta(seconds=1))
    frozen = rows.get()
    replays.resume_replays()
    assert (rows.get().status, sent) == (Status.WAITING, [pk])
    rows.update(status=Status.RUNNING, tries=2, beat_at=timezone.now() - timedelta(minutes=5))
    assert not replays._Work(frozen)._tell(0.5), "the first process wakes up and has nothing to say"
    replays.resume_replays()
    assert rows.get().status == Status.FAILED
    assert "died, twice" in rows.get().refusal["message"]


def test_a_fault_of_ours_is_reported_and_raised(story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(replays, "replay_own_history", fail)
    pk = ask(admin, story)
    with pytest.raises(ZeroDivisionError):
        replays.run_replay(pk)
    assert HistoryReplay.objects.get(pk=pk).status == Status.FAILED


def test_others_see_nothing_of_it(story: Story, admin: Any, caller: Any) -> None:
    chief, other = caller("chief", "osmo-team-admin"), caller("other", "osmo-team-admin")
    pk = ask(chief, story)
    for who in (admin, other):
        who.get(f"/api/replay/{pk}")
        assert who.status == 404
        who.post(f"/api/replay/{pk}/cancel", {})
        assert who.status == 404
        assert who.get("/api/replay") == []


def test_the_next_person_of_a_name_sees_no_replay_of_the_last(story: Story, caller: Any) -> None:
    chief = caller("chief", "osmo-team-admin")
    # The account has work, so its row stays for the next person.
    world.submit_workflow(User.objects.get(username="chief").as_actor(), "team", 1)
    pk = ask(chief, story, QUOTA_4)
    replays.run_replay(pk)
    assert chief.get(f"/api/replay/{pk}")["answer"]
    world.apply_change(RevokeRole(username="chief", role_name="osmo-team-admin"))
    chief.get(f"/api/replay/{pk}")
    assert chief.status == 404, "a role that is gone closes the answer"
    world.apply_change(DeleteUser(username="chief"))
    world.make_user("chief", "osmo-team-admin")
    next_one = User.objects.get(username="chief").as_actor()
    assert list(list_replays(next_one)) == []
    with pytest.raises(NotFound):
        find_replay(next_one, pk)


def test_the_newest_are_kept(story: Story, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MAX_KEPT", 2)
    made = []
    for _ in range(4):
        made.append(ask(admin, story))
        admin.post(f"/api/replay/{made[-1]}/cancel", {})
    kept = HistoryReplay.objects.filter(user=User.objects.get(username="root"))
    assert set(kept.values_list("pk", flat=True)) == set(made[-2:])
