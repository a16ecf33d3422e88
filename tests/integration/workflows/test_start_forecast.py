"""When waiting gangs start: made in the background, shown in the queue and on the page of a workflow, and scored."""

from __future__ import annotations

from datetime import timedelta
from time import sleep
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from scheduling.domain.start_words import StartTimes, start_about_sentence
from scheduling.history.forecast.calibration import FIRST_FACTOR, PACE
from scheduling.history.starts.background import forecast_scores, forecast_starts, read_calibration
from scheduling.models import Group, StartForecast, Task, WaitSpan
from tests.support import world
from tests.support.world import sign_in, workflow_file

KEYS = {"p10", "p50", "p90", "samples", "made_at", "never"}


def test_a_waiting_gang_has_a_start_after_the_first_forecast(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    (entry,) = alice.get("/api/queue")["entries"]
    assert entry["start"] is None

    assert forecast_starts() == 1

    (entry,) = alice.get("/api/queue")["entries"]
    start = entry["start"]
    assert set(start) == KEYS
    assert start["never"] is None
    assert start["samples"] >= 2
    assert start["made_at"] <= start["p10"] <= start["p50"] <= start["p90"]
    detail = alice.get("/api/workflow/next-1")
    assert detail["groups"][0]["waiting"]["start"] == start


def test_work_that_no_future_starts_has_a_sentence(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    # Without an attempt that is known to run, nothing ends in a future.
    Task.objects.filter(group__workflow__name="big-1").update(start_time=None)

    forecast_starts()

    start = alice.get("/api/queue")["entries"][0]["start"]
    assert start["p50"] is None
    assert "none of" in start["never"]


def test_a_forecast_does_not_know_the_simulated_end(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    shapes = set()
    for days in (1, 300):
        Group.objects.filter(workflow__name="big-1").update(ends_at=timezone.now() + timedelta(days=days))
        StartForecast.objects.all().delete()
        forecast_starts()
        row = StartForecast.objects.get()
        assert row.p50 is not None
        shapes.add((row.p50 - row.made_at) < timedelta(hours=20))
    assert shapes == {True}


def test_a_forecast_holds_still_while_nothing_happens(alice: Any, reconcile_pool: Any) -> None:
    """The draws follow from the facts. The same facts a minute later are the same futures."""
    for number in range(4):
        alice.submit("team--a", workflow_file(f"big{number}", 7))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    Task.objects.filter(start_time__isnull=False).update(start_time=timezone.now() - timedelta(hours=5))
    rounds = []
    for _ in range(3):
        forecast_starts()
        row = StartForecast.objects.get()
        assert row.sampled_waits is not None
        rounds.append([row.made_at.timestamp() + wait for wait in row.sampled_waits if wait is not None])
        sleep(1.1)
    assert rounds[1] == pytest.approx(rounds[0], abs=60)
    assert rounds[2] == pytest.approx(rounds[0], abs=60)


def test_the_first_forecast_is_kept_and_scored_at_the_start(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    forecast_starts()
    first = StartForecast.objects.get()
    forecast_starts()
    again = StartForecast.objects.get()
    assert again.first_waits == first.first_waits
    assert again.made_at > first.made_at
    assert forecast_scores().count == 0

    alice.post("/api/workflow/big-1/cancel")
    reconcile_pool()
    forecast_starts()

    scored = StartForecast.objects.get()
    span = WaitSpan.objects.get(group_id=scored.pk)
    assert span.until is not None
    assert first.first_made_at is not None
    assert scored.wait == pytest.approx((span.until - first.first_made_at).total_seconds())
    score = forecast_scores()
    assert score.count == 1
    assert score.pinball is not None


def test_the_queue_page_tells_how_forecasts_came_true(admin: Any) -> None:
    """By three quantiles of 10, 20 and 30 seconds, 12 of 40 waits are over by the second, and 36 by the third."""
    now = timezone.now()
    backend = world.make_backend()
    waits = [15.0] * 12 + [25.0] * 24 + [99.0] * 4

    def scored(wait: float | None) -> StartForecast:
        return StartForecast(
            group_id=uuid4(), backend_id=backend.pk, made_at=now, samples=12, first_made_at=now, scored_at=now,
            first_waits=[10.0, 20.0, 30.0], first_middle=3.0, first_spread=0.6, wait=wait,
        )  # fmt: skip

    client = sign_in(admin.user)
    StartForecast.objects.bulk_create([scored(wait) for wait in waits[:19]] + [scored(None)])
    assert "How forecasts came true" not in client.get("/queue").content.decode()
    StartForecast.objects.bulk_create(scored(wait) for wait in waits[19:])
    page = " ".join(client.get("/queue").content.decode().split())
    assert "of the last 40 that could be checked, 30 % of the work had started by the time for half" in page
    assert "and 90 % by the time for nine of ten" in page


def test_the_errors_of_forecasts_that_were_made_in_one_hour_count_as_those_of_few(db: None) -> None:
    """Forty waits were longer than forecast: in one hour, or each in an hour of its own."""
    noon, backends = timezone.now().replace(minute=30), [world.make_backend(name) for name in ("burst", "spread")]
    for backend, apart in zip(backends, (timedelta(0), timedelta(hours=1)), strict=True):
        StartForecast.objects.bulk_create(
            StartForecast(
                group_id=uuid4(), backend_id=backend.pk, made_at=noon, samples=12, first_made_at=noon - number * apart,
                scored_at=noon, first_waits=[10.0, 20.0, 30.0], first_middle=3.0, first_spread=0.6, wait=900.0,
            )
            for number in range(40)
        )  # fmt: skip
    burst, spread = map(read_calibration, backends)
    assert FIRST_FACTOR < burst.above <= FIRST_FACTOR + PACE
    assert spread.above > 4


def test_a_gang_that_ended_without_a_start_is_not_scored(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    forecast_starts()
    alice.post("/api/workflow/next-1/cancel")

    forecast_starts()

    assert StartForecast.objects.get().wait is None
    assert forecast_scores().count == 0


def test_the_page_of_a_workflow_tells_it_without_a_promise(alice: Any, reconcile_pool: Any) -> None:
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    forecast_starts()
    client = sign_in(alice.user)
    page = client.get("/workflows/next-1").content.decode()
    row = StartForecast.objects.get()
    assert row.p50 is not None and row.p90 is not None
    sentence = start_about_sentence(StartTimes(None, row.p10, row.p50, row.p90), timezone.localtime())
    assert sentence.startswith("It probably starts ") and sentence in page
