"""The pages of replays."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from pools.database.transactions import database_time
from pools.models import Pool
from scheduling.history.own import replays
from scheduling.history.replay.sentences import replay_sentences
from scheduling.models import HistoryReplay
from scheduling.selectors.reports.replay_bars import MAX_TEAMS, Bar, TeamBars, compare_bars
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import reconcile

PAGE = "/replay"
FORM: dict[str, Any] = {"backend": "sim", "period": "24h", "name_1": "team--a", "quota_1": "4"}


@pytest.fixture
def chief(as_person: SignedIn) -> Client:
    """The admin of pool `team`, on whose cluster others have pools too."""
    return as_person("chief")


def test_a_replay_is_asked_for_followed_and_read(chief: Client) -> None:
    assert 'href="/replay"' in chief.get("/").content.decode()
    assert f'href="{PAGE}?name=team&amp;backend=sim"' in chief.get("/pools/team").content.decode()
    form = chief.get(f"{PAGE}?name=team--a").content.decode()
    assert 'value="team--a"' in form
    assert "other--x" not in form
    answer = chief.post(PAGE, FORM)
    assert answer.status_code == 302
    address = answer.headers["Location"]
    waiting = chief.get(address).content.decode()
    assert 'data-live-every="2"' in waiting
    assert "waits for a worker" in waiting
    row = HistoryReplay.objects.get()
    assert row.question["changes"] == [{"set": {"name": "team--a", "quota": 4}}]
    replays.run_replay(row.pk)
    done = chief.get(address).content.decode()
    assert "data-live-every" not in done
    assert "Nothing changes" in done
    assert f"/api/replay/{row.pk}" in done
    assert "COMPLETED" in chief.get(PAGE).content.decode()


def test_a_replay_without_changes_stands_beside_the_record(chief: Client) -> None:
    submit_workflow("team--a")
    submit_workflow("other--x", username="stranger")
    reconcile()
    address = chief.post(PAGE, {"backend": "sim", "period": "24h"}).headers["Location"]
    replays.run_replay(HistoryReplay.objects.get().pk)
    answer = chief.get(f"/api{address}").json()["answer"]
    assert set(answer["recorded"]["teams"]) == {"team--a"}, "no other pool is named"
    assert answer["recorded"]["summary"] is None
    page = chief.get(address).content.decode()
    assert "as recorded" in page and "replayed</li>" in page
    assert "makes all 1 recorded starts and preemptions again, exactly" in page


def test_teams_are_compared_as_bars() -> None:
    on = {"a": {"wait_mean_s": 60.0, "used_gpu_h": 0}, "b": {"wait_mean_s": None, "used_gpu_h": 0}}
    against = {"a": {"wait_mean_s": 30.0, "used_gpu_h": 0}, "b": {"wait_mean_s": 120.0, "used_gpu_h": 0}}
    (picture,) = compare_bars({"on": {"teams": on}, "against": {"teams": against}})
    assert picture.number.label == "Mean wait"
    assert picture.teams == [TeamBars("b", Bar(0, 0), Bar(120, 100)), TeamBars("a", Bar(60, 50), Bar(30, 25))]
    (alone,) = compare_bars({"on": {"teams": on}, "against": None})
    assert alone.teams[0] == TeamBars("a", Bar(60, 100), None)
    (replayed,) = compare_bars({"recorded": {"teams": against}, "on": {"teams": on}, "against": None})
    assert replayed.teams[1] == TeamBars("a", Bar(30, 25), Bar(60, 50))
    many = {f"t{number:02}": {"wait_mean_s": float(number), "used_gpu_h": 0} for number in range(MAX_TEAMS + 2)}
    (picture,) = compare_bars({"on": {"teams": many}, "against": None})
    assert (len(picture.teams), picture.left_out, picture.teams[0].team) == (MAX_TEAMS, 2, f"t{MAX_TEAMS + 1:02}")


def test_a_refusal_is_shown_at_its_field_and_loses_nothing(chief: Client) -> None:
    refused = chief.post(PAGE, {**FORM, "name_2": "nothing", "quota_2": "7"})
    page = refused.content.decode()
    assert refused.status_code == 400
    assert "no pool or subpool" in page
    assert all(f'value="{text}"' in page for text in ("team--a", "4", "nothing", "7"))
    for key, allowed in (("quota", ", or the word unlimited."), ("limit", ", or the word unlimited."), ("weight", ".")):
        refused = chief.post(PAGE, {**FORM, f"{key}_1": "many"})
        (fault,) = refused.context["form"].errors[f"{key}_1"]
        assert escape(fault) in refused.content.decode()
        assert fault.startswith(f"{key.capitalize()} must be a number from 0{allowed} An empty box keeps")
    wrong = chief.post(PAGE, {**FORM, "period": "own", "since": "2126-01-01T00:00", "until": "2126-01-02T00:00"})
    assert "in the future" in wrong.content.decode()


def test_a_replay_that_failed_or_was_cancelled_says_so(chief: Client) -> None:
    address = chief.post(PAGE, FORM).headers["Location"]
    row = HistoryReplay.objects.get()
    row.question["changes"][0]["set"]["quota"] = "many"
    row.save()
    replays.run_replay(row.pk)
    assert "many" in chief.get(address).content.decode()
    second = chief.post(PAGE, FORM).headers["Location"]
    cancelled = chief.post(f"{second}/cancel", follow=True).content.decode()
    assert "This replay was cancelled." in cancelled


def test_people_without_a_pool_have_no_page(chief: Client, as_person: SignedIn) -> None:
    chief.post(PAGE, FORM)
    row = HistoryReplay.objects.get()
    worker = as_person("worker")
    assert worker.get(PAGE).status_code == 403
    assert PAGE not in worker.get("/").content.decode()
    root = as_person("root")
    assert root.get(f"{PAGE}/{row.pk}").status_code == 404
    assert root.get(f"{PAGE}/no-id").status_code == 404


def test_proposals_lead_to_the_usual_preview_of_each_change(as_person: SignedIn) -> None:
    """Work of `a` waits for quota; the page proposes more, and its link is a dry run that asks before it changes."""
    begin = database_time()
    for number in range(4):
        submit_workflow("team--a", name=f"w{number}")
        reconcile()
    chief = as_person("chief")
    times = {"period": "own", "since": begin.strftime("%Y-%m-%dT%H:%M:%S"), "until": ""}
    refused = chief.post(PAGE, {**FORM, "advise": "1"})
    assert "Advice tries changes by itself" in refused.content.decode()
    address = chief.post(PAGE, {"backend": "sim", "advise": "1", **times}).headers["Location"]
    replays.run_replay(HistoryReplay.objects.get().pk)
    page = chief.get(address).content.decode()
    assert "a proposal" in page
    assert "Equal shares" in page
    assert "<summary>Today's numbers of 1 team</summary>" in page
    link = re.search(r'href="(/pools/team/subpools/a/resize/-/preview\?quota=\d+)"', page)
    assert link is not None
    before = Pool.objects.get(name="team--a").last_quota
    preview = chief.get(link[1]).content.decode()
    assert "Resize team--a" in preview
    assert Pool.objects.get(name="team--a").last_quota == before


def test_the_remainder_of_a_pool_has_its_one_name() -> None:
    numbers = {"jobs": 2, "wait_mean_s": 60.0, "starts": 1, "reclaims": 0, "preemptions": 0}
    answer = {
        "on": {"teams": {"team--_shared": numbers}},
        "against": {"teams": {"team--_shared": {**numbers, "wait_mean_s": 30.0, "starts": 2}}},
        "people": [], "more_people": 0, "identical": True,
    }  # fmt: skip
    assert replay_sentences(answer)[0].startswith("Pool remainder (shared) of team waits 50 % less")
