"""The parts of a forecast: run times, arrivals, calibration, scores and the baseline."""

from __future__ import annotations

import math
import random
from itertools import groupby

import pytest

from scheduling.domain.engine.facts import GangFacts, TaskFacts
from scheduling.history.forecast.arrivals import Arrival, RecentArrivals
from scheduling.history.forecast.baseline import RECENT, RecentWaits
from scheduling.history.forecast.calibration import BURSTS, LEAST_SPREAD, Calibration, Place, Record, Shape
from scheduling.history.forecast.chance import SPREAD, spread_chance
from scheduling.history.forecast.runtimes import RunTimeDraws, RunTimes, WorkKind
from scheduling.history.forecast.scoring import Score, ScoredForecast, burst_coverage, pinball, scores_of

KIND = WorkKind("a", 1)


def draw(known, now, future, kind=KIND, elapsed=0.0, name="g"):
    return RunTimeDraws(known, now, future).run_time(name, kind, elapsed)


def median_draw(known, now, kind=KIND):
    return sorted(draw(known, now, future, kind) for future in range(201))[100]


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
        assert draw(known, 100.0, seed) in {10, 20, 30, 40}
        assert draw(known, 100.0, seed, elapsed=25.0) in {30, 40}
        assert draw(known, 100.0, seed, elapsed=5000.0) > 5000.0
        assert draw(known, 100.0, seed, WorkKind("a", 1, limit=15.0)) <= 15.0


def test_work_of_the_same_name_counts_more_than_that_of_the_team():
    known = RunTimes()
    for number in range(40):
        RunTimes.ended(known.started(WorkKind("a", 1, "u", f"short-{number}"), 0.0), 5.0, is_whole=True)
        RunTimes.ended(known.started(WorkKind("a", 1, "u", f"long-{number}"), 0.0), 500.0, is_whole=True)
    assert median_draw(known, 999.0, WorkKind("a", 1, "u", "short-99")) == 5.0
    assert median_draw(known, 999.0, WorkKind("a", 1, "u", "long-7")) == 500.0


def arrivals_of(*times, queues="ab"):
    past, fact = RecentArrivals(), GangFacts("j", "a", (TaskFacts("t", {"default/gpu": 1}),))
    for time in times:
        for queue in queues:
            past.add(Arrival(time, KIND, queue, lambda: fact))
    return past


def test_arrivals_are_past_bursts_without_queues_that_wait():
    """The past has one burst of three and one of one; a future has both in turn, and no time between them is short."""
    past = arrivals_of(0.0, 40.0, 90.0, 9000.0)
    for future in range(20):
        found = list(past.later(10_000.0, future, {"b"}, 40))
        assert len({fact.name for _time, fact, _kind in found}) == len(found) == 40
        times = [time for time, _fact, _kind in found]
        assert times == sorted(times) and times[0] > 10_000
        sizes = [len(list(group)) for _burst, group in groupby(found, lambda each: each[1].name.rsplit("/", 1)[0])]
        assert sizes[:6] in ([3, 1] * 3, [1, 3] * 3)


def test_arrivals_of_one_queue_are_the_same_whatever_other_queues_do():
    one, both = arrivals_of(0.0, 5000.0, queues="a"), arrivals_of(0.0, 5000.0)
    found = list(both.later(6000.0, 1, {}, 200))
    assert [each for each in found if "a/" in each[1].name][:20] == list(one.later(6000.0, 1, {}, 20))


def test_arrivals_come_about_as_often_as_they_came():
    past = arrivals_of(*range(0, 100_000, 5000), queues="a")
    counts = [sum(time < 200_000 for time, *_ in past.later(100_000.0, future, {}, 500)) for future in range(60)]
    assert 16 < sum(counts) / len(counts) < 25


def test_a_draw_belongs_to_the_gang_and_not_to_the_round():
    """The end of a run of another kind changes nothing, and neither does the order of the questions."""
    known = RunTimes()
    for length in range(10, 400, 10):
        RunTimes.ended(known.started(KIND, length * 5000.0), length * 5001.0, is_whole=True)
    before = [draw(known, 3e6, future, name="g1") for future in range(12)]
    RunTimes.ended(known.started(WorkKind("b", 8), 0.0), 5.0, is_whole=True)
    draws = [RunTimeDraws(known, 3e6, future) for future in range(12)]
    assert [(each.run_time("g2", KIND), each.run_time("g1", KIND))[1] for each in draws] == before
    assert len(set(before)) > 4


def test_where_nothing_is_known_the_times_are_minutes_to_hours_apart():
    """Work that has run for ten minutes: a forecast by its end names no time of day."""
    middle, late = (sorted(draw(RunTimes(), 0, n, elapsed=600.0) for n in range(210))[at] - 600 for at in (105, 189))
    assert middle > 20 * 60
    assert late > 10 * 3600
    known = RunTimes()
    for number in range(20):
        RunTimes.ended(known.started(WorkKind("b", 8), number), number + 100.0, is_whole=True)
    beyond = sorted(draw(known, 1000, n, elapsed=600.0) - 600 for n in range(210))
    assert beyond[189] < 2 * 3600, "work that runs longer than all that is known"


def test_the_draws_of_a_gang_are_spread_over_the_futures():
    """Any seven futures in a row have one draw in each seventh, and gangs have other orders."""
    orders = set()
    for name in range(200):
        for first in (0, 3, 11):
            draws = [spread_chance(future, "run", name) for future in range(first, first + SPREAD)]
            assert sorted(int(draw * SPREAD) for draw in draws) == list(range(SPREAD))
        orders.add(tuple(int(spread_chance(future, "run", name) * SPREAD) for future in range(SPREAD)))
    assert len(orders) > 35, "of 42 orders"


def place(burst=0, before=10, gpus=1, queue="q"):
    return Place(queue, burst, gpus, before)


def score(calibration, wait, sampled=900.0, at=None):
    """Forecast work with this sampled wait, and score it."""
    at = at or place()
    corrected = calibration.corrected(Shape.of([sampled] * 6, 11))
    calibration.scored(corrected, at, wait, calibration.quantiles(corrected, at)[-1])


def middle(calibration, sampled):
    return calibration.quantiles(calibration.corrected(Shape.of([sampled] * 6, 11)), place())[1]


def test_the_middle_goes_a_part_of_the_way_to_the_waits_that_came_true():
    """A sampled wait far below the others becomes longer, one far above them shorter; neither reaches their mean."""
    calibration = Calibration()
    first = [middle(calibration, sampled) for sampled in (60.0, 9e4)]
    for _ in range(100):
        score(calibration, 900.0)
    low, high = (middle(calibration, sampled) for sampled in (60.0, 9e4))
    assert first[0] < low < 900
    assert 900 < high < first[1]


def test_the_mean_of_waits_follows_a_change_slowly():
    calibration = Calibration()
    for wait in [900.0] * 400 + [9000.0] * 40:
        score(calibration, wait)
    assert math.log(910) < calibration.mean < math.log(910) + 0.15 * math.log(10)


@pytest.mark.parametrize("noise", [0.2, 0.7, 1.2])
def test_calibration_finds_the_stated_share_for_a_wrong_spread(noise):
    pick, calibration, found = random.Random(3), Calibration(), Score()
    for number in range(2000):
        scale = math.exp(pick.uniform(4, 9))
        corrected = calibration.corrected(Shape.of([scale * math.exp(pick.gauss(0, 0.3)) for _ in range(6)], 11))
        wait, at = math.exp(corrected.middle + pick.gauss(0, noise)), place(burst=number // 3)
        quantiles = calibration.quantiles(corrected, at)
        if number > 500:
            found.add(quantiles, wait)
        calibration.scored(corrected, at, wait, quantiles[-1])
    assert 0.75 <= found.coverage <= 0.85


def test_a_burst_counts_once_however_large_it_is():
    factors = []
    for count in (1, 300):
        calibration = Calibration()
        for _ in range(count):
            score(calibration, 90_000.0, at=place(burst=5))
        for number in range(6):
            score(calibration, 900.0, at=place(burst=10 + number))
        factors.append(calibration.factors(2))
    assert factors[0][1] == pytest.approx(factors[1][1], abs=0.2)


def test_errors_of_one_depth_widen_no_forecast_of_another():
    calibration = Calibration()
    before = [calibration.factors(depth) for depth in range(4)]
    for number in range(20):
        score(calibration, 90_000.0, at=place(burst=number, before=3))
    after = [calibration.factors(depth) for depth in range(4)]
    assert after[1][1] > 2 * before[1][1]
    assert after[0] == before[0]
    assert after[2:] == before[2:]


def test_old_bursts_are_forgotten():
    calibration = Calibration()
    for number in range(10):
        score(calibration, 9e6, at=place(burst=number))
    wide = calibration.factors(2)[1]
    for number in range(BURSTS):
        score(calibration, 900.0, at=place(burst=100 + number))
    assert calibration.factors(2)[1] < wide / 2


def test_the_least_spread_falls_with_the_gpus_that_must_become_free():
    spreads = [Shape.of([900.0] * 6, gpus).spread for gpus in (1, 8, 64, 10_000)]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] == pytest.approx(LEAST_SPREAD, abs=0.01)


def test_a_forecast_has_the_record_of_those_of_its_depth_and_size():
    calibration, shape = Calibration(), Shape(7.0, 0.5)
    for number in range(50):
        calibration.scored(shape, place(burst=number), 1001.0 if number % 5 == 0 else 1000.0, 1000.0)
    score(calibration, 900.0, at=place(gpus=8))
    score(calibration, 900.0, at=place(before=0))
    assert calibration.record(place()) == Record(40, 32)
    assert calibration.record(place(gpus=8)) == calibration.record(place(before=0)) == Record(1, 1)
    assert calibration.record(place(before=999)) == Record(0, 0)


def test_each_burst_has_one_part_of_the_coverage_of_bursts():
    made = [ScoredForecast((1, 2, 3), wait, 0, burst, (0, 0, 0)) for burst, wait in [(1, 2), *[(2, 9)] * 8, (2, 2)]]
    assert burst_coverage(made) == pytest.approx((1 + 1 / 9) / 2)
    assert scores_of(made)["coverage_80"] == 0.2
    assert scores_of([])["coverage_80"] is None
