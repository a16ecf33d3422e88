"""The parts of a forecast: run times, arrivals, calibration, scores and the baseline."""

from __future__ import annotations

import math
import random

import pytest

from scheduling.domain.engine.facts import GangFacts, TaskFacts
from scheduling.history.forecast.arrivals import Arrival, RecentArrivals
from scheduling.history.forecast.baseline import RECENT, RecentWaits
from scheduling.history.forecast.calibration import FIRST_FACTOR, MOST_STEP, PACE, Calibration, Shape
from scheduling.history.forecast.runtimes import RunTimeDraws, RunTimes, WorkKind
from scheduling.history.forecast.scoring import Score, pinball

KIND = WorkKind("a", 1)


def draws_of(known, now, seed=1):
    return RunTimeDraws(known, now, random.Random(seed))


def median_draw(known, now, kind=KIND, elapsed=0.0):
    found = sorted(draws_of(known, now, seed).run_time(kind, elapsed) for seed in range(201))
    return found[100]


def test_a_loss_is_asymmetric_by_its_level():
    assert pinball(0.9, 10, 20) == pytest.approx(9)
    assert pinball(0.9, 20, 10) == pytest.approx(1)
    assert pinball(0.5, 3, 3) == 0


def test_a_score_counts_both_ends_of_the_interval():
    score = Score()
    for actual in (1, 5, 9, 9.5):
        score.add((1, 5, 9), actual)
    assert (score.count, score.coverage) == (4, 0.75)


def test_the_baseline_takes_all_teams_only_while_the_own_team_has_few():
    waits = RecentWaits()
    for _ in range(19):
        waits.started("a", 1, 100.0)
    for _ in range(60):
        waits.started("b", 1, 0.0)
    assert waits.forecast("a", 1) == (0.0, 0.0, 100.0)
    waits.started("a", 1, 100.0)
    assert waits.forecast("a", 1) == (100.0, 100.0, 100.0)
    for _ in range(RECENT):
        waits.started("a", 1, 7.0)
    assert waits.forecast("a", 1) == (7.0, 7.0, 7.0)


def test_attempts_that_still_run_make_run_times_longer():
    known = RunTimes()
    attempts = [known.started(KIND, 0.0) for _ in range(60)]
    for attempt in attempts[:20]:
        RunTimes.ended(attempt, 10.0, is_whole=True)
    assert median_draw(known, 10.0) >= 10.0
    assert median_draw(known, 1000.0) > 10.0
    for attempt in attempts[20:]:
        RunTimes.ended(attempt, 10.0, is_whole=True)
    assert median_draw(known, 1000.0) == 10.0


def test_run_times_are_beyond_what_has_run_and_below_the_limit():
    known = RunTimes()
    for length in (10, 20, 30, 40) * 10:
        RunTimes.ended(known.started(KIND, 0.0), length, is_whole=True)
    for seed in range(50):
        drawn = draws_of(known, 100.0, seed)
        assert drawn.run_time(KIND) in {10, 20, 30, 40}
        assert drawn.run_time(KIND, 25.0) in {30, 40}
        assert drawn.run_time(KIND, 5000.0) > 5000.0
        assert drawn.run_time(WorkKind("a", 1, limit=15.0)) <= 15.0


def test_work_of_the_same_name_counts_more_than_that_of_the_team():
    known = RunTimes()
    for number in range(40):
        RunTimes.ended(known.started(WorkKind("a", 1, "u", f"short-{number}"), 0.0), 5.0, is_whole=True)
        RunTimes.ended(known.started(WorkKind("a", 1, "u", f"long-{number}"), 0.0), 500.0, is_whole=True)
    assert median_draw(known, 999.0, WorkKind("a", 1, "u", "short-99")) == 5.0
    assert median_draw(known, 999.0, WorkKind("a", 1, "u", "long-7")) == 500.0


def test_arrivals_repeat_the_past_without_queues_that_wait():
    past = RecentArrivals()
    fact = GangFacts("j", "a", (TaskFacts("t", {"default/gpu": 1}),))
    for time in (0.0, 40.0, 90.0):
        past.add(Arrival(time, KIND, "a", lambda: fact))
        past.add(Arrival(time, KIND, "b", lambda: fact))
    found = list(past.later(100.0, random.Random(1), {"b"}, 6))
    assert [time for time, _fact, _kind in found] == [140.0, 190.0, 240.0, 290.0, 340.0, 390.0]
    assert len({fact.name for _time, fact, _kind in found}) == 6


def test_the_middle_goes_a_part_of_the_way_to_the_waits_that_came_true():
    """A sampled wait far below the others becomes longer, one far above them shorter; neither reaches their mean."""
    calibration, short, usual, long = Calibration(), Shape.of([60.0] * 6), Shape.of([900.0] * 6), Shape.of([9e4] * 6)
    first = [calibration.quantiles(shape)[1] for shape in (short, long)]
    for _ in range(100):
        calibration.scored(usual, 900.0)
    low, high = (calibration.quantiles(shape)[1] for shape in (short, long))
    assert first[0] < low < 900
    assert 900 < high < first[1]


def test_the_mean_of_waits_follows_a_change_slowly():
    calibration, usual = Calibration(), Shape.of([900.0] * 6)
    for wait in [900.0] * 400 + [9000.0] * 40:
        calibration.scored(usual, wait)
    assert math.log(910) < calibration.mean < math.log(910) + 0.15 * math.log(10)


@pytest.mark.parametrize("noise", [0.7, 1.2])
def test_calibration_finds_the_stated_share_for_a_wrong_spread(noise):
    pick, calibration, score = random.Random(3), Calibration(), Score()
    for number in range(6000):
        scale = math.exp(pick.uniform(4, 9))
        shape = Shape.of([scale * math.exp(pick.gauss(0, 0.3)) for _ in range(6)])
        wait = scale * math.exp(pick.gauss(0, noise))
        if number > 3000:
            score.add(calibration.quantiles(shape), wait)
        calibration.scored(shape, wait)
    assert 0.76 <= score.coverage <= 0.84


def test_the_errors_of_one_hour_count_as_those_of_few():
    """A burst of 300 waits that were all longer than forecast widens later forecasts as much as one of 30 does."""
    usual, widths = Shape.of([900.0] * 6), []
    for together in (30, 300):
        calibration = Calibration()
        before = calibration.above
        for _ in range(together):
            calibration.scored(usual, 90_000.0, together)
        widths.append(calibration.above - before)
    assert widths[0] == pytest.approx(widths[1])
    assert 0 < widths[0] <= PACE
    alone = Calibration()
    alone.scored(usual, 90_000.0, 1)
    assert alone.above - FIRST_FACTOR <= MOST_STEP
