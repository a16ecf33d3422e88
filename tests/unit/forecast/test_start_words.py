"""The words about a start are as exact as the forecast is sure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduling.domain.start_words import UNKNOWN, StartTimes, start_about, start_about_sentence

NOW = datetime(2026, 11, 27, 12, 40, tzinfo=UTC)


def _times(*minutes: float | None, latest: float | None = None, never: str | None = None) -> StartTimes:
    p10, p50, p90 = (None if each is None else NOW + timedelta(minutes=each) for each in minutes)
    bound = None if latest is None else NOW + timedelta(minutes=latest)
    return StartTimes(NOW - timedelta(minutes=1), p10, p50, p90, never, bound)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ((22, 28, 33), "13:10 UTC"),
        ((95, 112, 140), "14:30 UTC"),
        ((60, 150, 230), "15:00 UTC"),
        ((600, 690, 700), "tomorrow 00:00 UTC"),
        ((2 * 1440, 2 * 1440 + 5, 2 * 1440 + 10), "Sunday 12:45 UTC"),
        ((9 * 1440, 9 * 1440 + 5, 9 * 1440 + 10), "6 Dec 12:45 UTC"),
        ((120, 300, 600), "this afternoon"),
        ((300, 400, 800), "this evening"),
        ((500, 620, 1000), "tonight"),
        ((800, 900, 1200), "tonight"),
        ((1200, 1440, 1600), "tomorrow afternoon"),
        ((2700, 2900, 3200), "Sunday afternoon"),
        ((1500, 2000, 4300), "1–3 days"),
        ((30, 400, 1400), "within a day"),
        ((30, 900, 2400), "within 2 days"),
        ((30, 900, 9000), UNKNOWN),
        ((30, None, None), UNKNOWN),
        ((-20, -10, -5), UNKNOWN),
        ((-20, -10, 5), "12:45 UTC"),
    ],
)
def test_the_words(times: tuple[float | None, ...], words: str) -> None:
    assert start_about(_times(*times), NOW) == words


def test_a_certain_time_replaces_the_forecast() -> None:
    assert start_about(_times(30, 900, 9000, latest=125), NOW) == "by 14:45 UTC"
    assert start_about_sentence(_times(None, None, None, latest=125), NOW) == "It starts by 14:45 UTC at the latest."
    narrow = replace(_times(95, 112, 125, latest=125), like=40, in_time=31)
    assert start_about(narrow, NOW) == "by 14:45 UTC"
    assert start_about_sentence(narrow, NOW) == "It starts by 14:45 UTC at the latest."
    assert start_about(_times(95, 112, 125, latest=-1), NOW) == "14:30 UTC", "a time that is over says nothing"


def test_a_forecast_comes_with_the_record_of_those_like_it() -> None:
    known = replace(_times(95, 112, 140), like=40, in_time=31)
    told = "Of the last 40 like this one, 31 started in time."
    assert start_about_sentence(known, NOW) == f"It probably starts about 14:30 UTC. {told}"
    assert told not in start_about_sentence(replace(known, p90=NOW + timedelta(days=30)), NOW), "it names no time"
    assert "Of the last" not in start_about_sentence(replace(known, like=9, in_time=9), NOW), "too few say nothing"


def test_work_that_can_start_now_and_work_that_never_does() -> None:
    assert start_about(StartTimes(NOW, NOW, NOW, NOW), NOW) == "now"
    never = _times(None, None, None, never="It starts in none of 6 sampled futures.")
    assert start_about(never, NOW) == UNKNOWN
    told = start_about_sentence(never, NOW)
    assert told == "It starts in none of 6 sampled futures.", "every page and answer says it, not that of a loss alone"
    assert start_about(None, NOW) == UNKNOWN
    assert start_about_sentence(None, NOW) == ""


def test_the_zone_is_that_of_the_reader() -> None:
    there = timezone(timedelta(hours=-8))
    assert start_about(_times(95, 112, 140), NOW.astimezone(there)) == "06:30"
    assert start_about(_times(800, 900, 1200), NOW.astimezone(there)) == "this evening"


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ((95, 112, 140), "It probably starts about 14:30 UTC."),
        ((1200, 1440, 1600), "It probably starts tomorrow afternoon."),
        ((1500, 2000, 4300), "It probably starts in 1–3 days."),
        ((30, 900, 2400), "It probably starts within 2 days."),
    ],
)
def test_the_sentences(times: tuple[float | None, ...], sentence: str) -> None:
    assert start_about_sentence(_times(*times), NOW) == sentence
