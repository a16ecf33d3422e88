"""The template filters of numbers, times and states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from pools.domain.quota.usage_bar import UsageBar
from pools.domain.values.durations import minute_text
from pools.selectors.gpu_usage import apart
from pools.templatetags.osmo import (
    ago,
    badge,
    counting,
    exact,
    gpus,
    lasting,
    marked,
    pretty,
    signed,
    span,
    tone,
    usage_bar,
    whole_names,
)

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (12, "12"),
        (-40, "\N{MINUS SIGN}40"),
        (-1, "\N{MINUS SIGN}1"),
        (12345, "12\N{NARROW NO-BREAK SPACE}345"),
    ],
)
def test_numbers(number: int, text: str) -> None:
    assert signed(number) == text


def test_quotas() -> None:
    assert (gpus(-1), gpus(0), gpus(None)) == ("unlimited", "0", "–")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (599, "9 min 59 s"),
        (659, "10 min"),
        (3600, "1 h"),
        (16_299, "4 h 31 min"),
        (-61, "\N{MINUS SIGN}1 min 1 s"),
        (90061, "1 d 1 h"),
        (86400 * 40, "40 d"),
    ],
)
def test_lengths_of_time(seconds: int, text: str) -> None:
    assert span(seconds) == span(timedelta(seconds=seconds)) == text


@time_machine.travel(NOW, tick=False)
@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (0, "just now"),
        (-5, "just now"),
        (-40, "40 s ago"),
        (-119, "1 min ago"),
        (-7100, "1 h ago"),
        (7200, "in 2 h"),
        (-86400, "1 d ago"),
    ],
)
def test_relative_times(offset: int, words: str) -> None:
    moment = NOW + timedelta(seconds=offset)
    text = str(ago(moment))
    assert f">{words}</time>" in text
    assert f'title="{moment:%Y-%m-%d %H:%M:%S} UTC"' in text
    assert f">{moment:%Y-%m-%d %H:%M:%S} UTC</time>" in exact(moment)


@time_machine.travel(NOW, tick=False)
@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (0, "1 s"),
        (30, "1 s"),
        (-40, "40 s"),
        (-2855, "47 min"),
        (-3600, "1 h"),
        (-3960, "1 h 6 min"),
        (-90061, "1 d 1 h"),
    ],
)
def test_how_long_something_has_lasted(offset: int, words: str) -> None:
    moment = NOW + timedelta(seconds=offset)
    text = str(lasting(moment))
    assert f' data-age="length">{words}</time>' in text
    assert f'title="since {moment:%Y-%m-%d %H:%M:%S} UTC"' in text
    assert lasting(None) == "–"


def test_a_bar_has_a_text_of_its_parts() -> None:
    bar = str(usage_bar(UsageBar(guaranteed=5, low_inside=4, free=3, over_quota=2, draining=1), 'a"b'))
    assert 'aria-label="a&quot;b"' in bar
    assert bar.count("flex-grow") == 5
    for text in ("5 guaranteed", "4 LOW inside", "2 over quota", "1 draining", "3 free"):
        assert text in bar
    assert "free" not in str(usage_bar(UsageBar(guaranteed=1), "x"))
    assert "no quota, no use" in str(usage_bar(UsageBar(), "x"))


def test_every_status_has_a_colour() -> None:
    assert [tone(each) for each in ("RUNNING", "PENDING", "FAILED", "FAILED_CANCELED", "COMPLETED", "DELETING")] == [
        "good",
        "wait",
        "bad",
        "off",
        "done",
        "warn",
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Add `resource:` to it.", 'Add <code class="oa-mono">resource:</code> to it.'),
        ("`<b>` & a", '<code class="oa-mono">&lt;b&gt;</code> &amp; a'),
        ("one ` tick", "one ` tick"),
        ("none", "none"),
    ],
)
def test_what_stands_between_back_ticks_is_code(message: str, expected: str) -> None:
    assert marked(message) == expected


def test_a_normal_state_is_quiet_and_what_differs_has_a_colour() -> None:
    quiet = {state for state in ("ONLINE", "ACTIVE", "RUNNING", "COMPLETED", "PENDING", "DELETING", "FAILED", "OFFLINE")
             if "oa-badge--quiet" in badge(state)}  # fmt: skip
    assert quiet == {"ONLINE", "ACTIVE", "RUNNING", "COMPLETED", "PENDING"}
    assert badge("") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("4000", "4\N{NARROW NO-BREAK SPACE}000"),
        ("900", "900"),
        ("2048Gi", "2\N{NARROW NO-BREAK SPACE}048Gi"),
        ("0.25", "0.25"),
    ],
)
def test_amounts_of_gpu_quota_have_their_thousands_apart(text: str, shown: str) -> None:
    assert apart(text) == shown


def test_a_number_with_its_word() -> None:
    assert [counting(number, "GPU") for number in (0, 1, 1234)] == [
        "0 GPUs",
        "1 GPU",
        "1\N{NARROW NO-BREAK SPACE}234 GPUs",
    ]
    assert [counting(number, "is,are") for number in (1, 2)] == ["1 is", "2 are"]


@pytest.mark.parametrize("nothing", [None, "", [], {}])
def test_a_stored_value_of_nothing_is_a_dash(nothing: object) -> None:
    assert (pretty(nothing), pretty(0), pretty(False), pretty(["a"])) == ("–", "0", "false", '[\n  "a"\n]')


def test_names_in_a_sentence_are_whole_and_escaped() -> None:
    text = whole_names("<b> started chat-service-1 on language--tune: a - b")
    assert text == (
        '&lt;b&gt; started <span class="oa-whole">chat-service-1</span> on '
        '<span class="oa-whole">language--tune:</span> a - b'
    )


@pytest.mark.parametrize("text", ["a" * 300_000, "-" * 300_000, "a-" * 150_000, "a-" + "-" * 300_000])
def test_a_long_word_ends_in_time(text: str) -> None:
    """A search from each of its letters would take longer than a test may."""
    assert text in whole_names(text)


def test_a_year_has_four_digits() -> None:
    assert minute_text(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01 00:00 UTC"
