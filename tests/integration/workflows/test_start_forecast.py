"""When waiting gangs start: made in the background, shown in the queue and on the page of a workflow, and scored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool
from pools.models import Backend
from scheduling.history.starts import background, forecast_facts
from scheduling.history.starts.background import forecast_scores, forecast_starts, read_calibration
from scheduling.models import Group, StartForecast, Task, WaitSpan
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.flavors import make_flavored_pool, submit_gpus
from tests.support.world import sign_in, workflow_file

KEYS = {"text", "p10", "p50", "p90", "samples", "made_at", "never", "record"}


@pytest.fixture
def waiting(alice: Any, reconcile_pool: Any) -> Any:
    """28 of the 30 GPUs of `team--a` are in use, and `next-1` waits for 5."""
    for name, gpus in (("big", 28), ("next", 5)):
        alice.submit("team--a", workflow_file(name, gpus))
        reconcile_pool()
    return alice


def test_a_waiting_gang_has_a_start_after_the_first_forecast(waiting: Any) -> None:
    (entry,) = waiting.get("/api/queue")["entries"]
    assert entry["start"] is None

    assert forecast_starts() == 1

    (entry,) = waiting.get("/api/queue")["entries"]
    start = entry["start"]
    assert set(start) == KEYS
    assert start["never"] is None
    assert start["samples"] >= 2
    assert start["made_at"] <= start["p10"] <= start["p50"] <= start["p90"]
    detail = waiting.get("/api/workflow/next-1")
    assert detail["groups"][0]["waiting"]["start"] == start


def test_work_that_no_future_starts_has_a_sentence(waiting: Any) -> None:
    # Without an attempt that is known to run, nothing ends in a future.
    Task.objects.filter(group__workflow__name="big-1").update(start_time=None)

    forecast_starts()

    start = waiting.get("/api/queue")["entries"][0]["start"]
    assert start["p50"] is None
    assert "none of" in start["never"]


@pytest.mark.parametrize("is_known_to_end", [True, False], ids=["its work ends", "no future ends its work"])
def test_work_that_waits_for_the_end_of_a_drain_has_a_forecast_and_no_never(
    alice: Any, reconcile_pool: Any, is_known_to_end: bool
) -> None:
    world.apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 34}}}))
    alice.submit("team--a", workflow_file("big", 30))
    reconcile_pool()
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    alice.submit("team", workflow_file("w", 20))
    if not is_known_to_end:
        Task.objects.filter(group__workflow__name="big-1").update(start_time=None)

    forecast_starts()

    start = alice.get("/api/queue")["entries"][0]["start"]
    assert (start["p50"] is not None, start["never"]) == (is_known_to_end, None)
    assert "none of" not in str(alice.submit("team", workflow_file("new", 20), query="dry_run=true"))


def test_a_forecast_does_not_know_the_simulated_end(waiting: Any) -> None:
    shapes = set()
    for days in (1, 300):
        Group.objects.filter(workflow__name="big-1").update(ends_at=timezone.now() + timedelta(days=days))
        StartForecast.objects.all().delete()
        forecast_starts()
        row = StartForecast.objects.get()
        assert row.p50 is not None
        shapes.add((row.p50 - row.made_at) < timedelta(hours=20))
    assert shapes == {True}


@pytest.mark.django_db
def test_a_gang_of_a_pool_with_flavors_has_a_forecast() -> None:
    backend = make_flavored_pool("kinds", backend="mixed").backend_id or 0
    worker = world.make_user("worker", "osmo-kinds-user")
    for _ in range(2):
        submit_gpus(worker, 8, "a100", to="kinds--a")
        reconcile_backend(backend)

    assert forecast_starts() == 1

    assert StartForecast.objects.get().p50 is not None


def rows_by_gang() -> dict[Any, dict[str, Any]]:
    return {row["group_id"]: row for row in StartForecast.objects.values()}


def fill_two_leaves(alice: Any, reconcile_pool: Any) -> None:
    """Work of two leaves runs for five hours already, and two gangs of each wait."""
    for leaf, gpus in (("team--a", 14), ("team--a", 14), ("team--b", 9), ("team--b", 9)):
        alice.submit(leaf, workflow_file("big", gpus))
    reconcile_pool()
    for leaf, gpus in (("team--a", 5), ("team--a", 4), ("team--b", 4), ("team--b", 3)):
        alice.submit(leaf, workflow_file("next", gpus))
    assert reconcile_pool() == []
    Task.objects.filter(start_time__isnull=False).update(start_time=timezone.now() - timedelta(hours=5))


def test_forecasts_hold_still_while_nothing_happens(
    split_team: Any, alice: Any, reconcile_pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same facts minutes and an hour later: the same forecasts of all gangs, to the microsecond."""
    fill_two_leaves(alice, reconcile_pool)
    assert forecast_starts() == 4
    first, began = rows_by_gang(), timezone.now()
    assert all(row["p50"] is not None for row in first.values())
    for later in (timedelta(seconds=1), timedelta(minutes=7), timedelta(hours=1)):
        with monkeypatch.context() as patch:
            patch.setattr(forecast_facts.timezone, "now", lambda later=later: began + later)
            assert forecast_starts() == 0
        assert rows_by_gang() == first

    late = next(iter(first))  # a gang that waits beyond its late time has a new forecast alone
    StartForecast.objects.filter(pk=late).update(p90=timezone.now() - timedelta(minutes=1))
    assert forecast_starts() == 1
    again = rows_by_gang()
    assert again.pop(late)["p90"] > timezone.now()
    assert again == {group: row for group, row in first.items() if group != late}

    alice.submit("team--b", workflow_file("newest", 5))  # an event makes all forecasts of its backend anew
    reconcile_pool()
    assert forecast_starts() == 5
    assert all(row["made_at"] < rows_by_gang()[group]["made_at"] for group, row in first.items())


def test_a_process_that_dies_between_two_writes_leaves_no_forecast_behind(
    waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next round would find the key of its facts, and the first forecast would never be kept."""
    with monkeypatch.context() as patch:
        patch.setattr(background, "_keep_first", lambda _rows: 1 / 0)
        assert forecast_starts() == 0
    assert not StartForecast.objects.exists()
    assert forecast_starts() == 1
    assert StartForecast.objects.get().first_waits is not None


def test_the_first_forecast_is_kept_and_scored_at_the_start(waiting: Any, reconcile_pool: Any) -> None:
    forecast_starts()
    first = StartForecast.objects.get()
    forecast_starts()
    again = StartForecast.objects.get()
    assert again.first_waits == first.first_waits
    assert again.made_at == first.made_at, "nothing has happened since"
    assert forecast_scores().count == 0

    waiting.post("/api/workflow/big-1/cancel")
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


def test_a_gang_that_ended_without_a_start_is_not_scored(waiting: Any) -> None:
    forecast_starts()
    waiting.post("/api/workflow/next-1/cancel")

    forecast_starts()

    assert StartForecast.objects.get().wait is None
    assert forecast_scores().count == 0


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
    assert "Forecasts so far" not in client.get("/queue").content.decode()
    StartForecast.objects.bulk_create(scored(wait) for wait in waits[19:])
    page = " ".join(client.get("/queue").content.decode().split())
    assert "of the last 40 that could be checked, 30 % of the work had started by the time at which half" in page
    assert "and 90 % by the time at which nine of ten should have" in page


def scores_of(backend: Any, number: int, **changes: Any) -> StartForecast:
    """A scored forecast of an hour of its own: 900 seconds came true, where the late time was 30."""
    now = timezone.now()
    row = StartForecast(
        group_id=uuid4(), backend_id=backend.pk, made_at=now, samples=12, scored_at=now, wait=900.0,
        first_made_at=now - timedelta(hours=number), first_waits=[10.0, 20.0, 30.0], first_middle=3.0,
        first_spread=0.6, first_leaf_id=1, first_gpus=1, first_gpus_before=0,
    )  # fmt: skip
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def test_each_backend_and_depth_learns_from_its_own_errors(db: None) -> None:
    one, other = (world.make_backend(name) for name in ("one", "other"))
    StartForecast.objects.bulk_create(scores_of(one, number) for number in range(20))
    StartForecast.objects.bulk_create([scores_of(one, 0, first_leaf_id=None), scores_of(one, 0, wait=None)])
    learnt, unknown = read_calibration(one), read_calibration(other)
    assert learnt.factors(0)[1] > 2 * unknown.factors(0)[1]
    assert learnt.factors(3) == unknown.factors(3)


def test_a_forecast_has_the_record_of_the_last_ones_like_it(alice: Any, reconcile_pool: Any) -> None:
    """In the API, on the page of the workflow, in the queue, and in a dry run."""
    alice.submit("team--a", workflow_file("big", 28))
    reconcile_pool()
    Task.objects.filter(start_time__isnull=False).update(start_time=timezone.now() - timedelta(minutes=1))
    alice.submit("team--a", workflow_file("next", 5))
    reconcile_pool()
    backend = Backend.objects.get()
    like = {"first_gpus": 5, "first_waits": [800.0, 850.0, 900.0]}
    late = [901.0] * 9 + [899.0] * 31
    StartForecast.objects.bulk_create(
        [scores_of(backend, n, wait=wait, first_middle=6.8, first_spread=0.1, **like) for n, wait in enumerate(late)]
    )
    StartForecast.objects.bulk_create([scores_of(backend, n, first_gpus=1) for n in range(5)])
    forecast_starts()

    start = alice.get("/api/queue")["entries"][0]["start"]
    assert start["record"] == {"like": 40, "in_time": 31}
    told = "Of the last 40 like this one, 31 started in time."
    assert start["text"].startswith("It probably starts ") and start["text"].endswith(told)
    client = sign_in(alice.user)
    assert told in client.get("/workflows/next-1").content.decode()
    assert told in client.get("/queue").content.decode()
    asked = alice.post("/api/pool/team--a/workflow?dry_run=true", {"file": workflow_file("more", 6)})
    assert asked["start"]["record"] == {"like": 0, "in_time": 0}, "it would stand deeper in the queue"
