"""Percent, conditions with their times, and an alert once per crossing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.domain.gpu_quota.status import (
    UsageGauge,
    alerts_after_change,
    compute_conditions,
    percent_text,
    usage_gauges,
)
from tests.unit.gpu_quota.builders import make_amounts, make_spec, make_totals

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTA = make_spec({"requests": {"tflops": "100"}})


def printed(quota: object, used: object) -> dict[str, str]:
    return {gauge.key: gauge.available_text for gauge in usage_gauges(quota, used)}  # type: ignore[arg-type]


def conditions_by_type(used: str, quota: object = QUOTA, before: tuple = (), now: datetime = NOW, faults: tuple = ()):
    return {
        each.type: each
        for each in compute_conditions(quota, make_totals(make_amounts(used)), before, now, faults=faults)
    }  # type: ignore[arg-type]


def test_percent_of_each_amount() -> None:
    quota = make_spec({"requests": {"tflops": "200", "vram": "3Gi"}, "maxWorkers": 3})
    assert printed(quota, make_totals(make_amounts("100", "1Gi"), make_amounts(7, 7), workers=1)) == {
        "requests.tflops": "50.00",
        "requests.vram": "66.67",
        "limits.tflops": "100",
        "limits.vram": "100",
        "workers": "66.67",
    }


def test_percent_stays_inside_0_and_100() -> None:
    quota = make_spec({"requests": {"tflops": "10", "vram": "0"}, "maxWorkers": 0})
    found = printed(quota, make_totals(make_amounts(30, 5), workers=4))
    assert (found["requests.tflops"], found["requests.vram"], found["workers"]) == ("0.00", "100", "100")


@pytest.mark.parametrize(
    ("percent", "text"),
    [("12.345", "12.34"), ("12.355", "12.36"), ("0.005", "0.00"), ("99.999", "100.00"), ("100", "100.00")],
)
def test_percent_in_two_decimals(percent: str, text: str) -> None:
    assert percent_text(Fraction(percent)) == text


@pytest.mark.parametrize(
    ("used", "alert"), [("94.999", False), ("95", False), ("95.001", True), ("95.004", True), ("120", True)]
)
def test_the_alert_condition_compares_the_exact_percent(used: str, alert: bool) -> None:
    found = conditions_by_type(used)["AlertThresholdReached"]
    assert found.status is alert
    assert found.reason == ("AlertThresholdReached" if alert else "AlertThresholdNotReached")


@pytest.mark.parametrize(("used", "over"), [("99.999", False), ("100", False), ("100.001", True)])
def test_exceeded_is_strict(used: str, over: bool) -> None:
    assert conditions_by_type(used)["Exceeded"].status is over


def test_thresholds_at_their_ends() -> None:
    never = make_spec({"requests": {"tflops": "100"}, "alertThresholdPercent": 100})
    always = make_spec({"requests": {"tflops": "100"}, "alertThresholdPercent": 0})
    assert not conditions_by_type("300", never)["AlertThresholdReached"].status
    assert not conditions_by_type("0", always)["AlertThresholdReached"].status
    assert conditions_by_type("0.001", always)["AlertThresholdReached"].status


def test_times_move_only_when_the_status_does() -> None:
    first = conditions_by_type("10")
    later = NOW + timedelta(minutes=1)
    same = conditions_by_type("20", before=tuple(first.values()), now=later)
    assert {each.since for each in same.values()} == {NOW}
    over = conditions_by_type("99", before=tuple(same.values()), now=later)
    assert over["AlertThresholdReached"].since == later
    assert over["Ready"].since == over["Exceeded"].since == NOW


def test_ready_names_the_faults_of_a_newer_spec() -> None:
    assert conditions_by_type("1")["Ready"].status
    found = conditions_by_type("1", faults=("spec.total.maxWorkers is -1.",))["Ready"]
    assert (found.status, found.reason) == (False, "InvalidSpec")
    assert "maxWorkers" in found.message


def crossings(uses: list[str], quota: object = QUOTA) -> int:
    raised, alerts = list[str](), 0
    for used in uses:
        before, raised = raised, alerts_after_change(quota, make_totals(make_amounts(used)), raised)  # type: ignore[arg-type]
        alerts += raised != [] and before == []
    return alerts


def test_each_amount_has_its_own_alert() -> None:
    quota = make_spec({"requests": {"tflops": "100", "vram": "100"}, "maxWorkers": 10})
    tflops, vram = "requests.tflops", "requests.vram"
    steps = [("96", "0", [tflops]), ("96", "96", [tflops, vram]), ("94", "91", [tflops, vram]), ("90", "91", [vram])]
    raised: list[str] = []
    for used, memory, stands in [*steps, ("94", "90", []), ("0", "96", [vram])]:
        raised = alerts_after_change(quota, make_totals(make_amounts(used, memory)), raised)
        assert raised == stands


def test_one_alert_per_crossing() -> None:
    assert crossings(["94", "96", "97", "99", "120"]) == 1
    assert crossings(["96", "95", "96", "94", "96", "91", "96"]) == 1, "up and down around the threshold"
    assert crossings(["96", "90", "96"]) == 2, "calm begins five points below it"
    assert crossings(["96", "0", "96", "0", "96"]) == 3
    small = make_spec({"requests": {"tflops": "100"}, "alertThresholdPercent": 2})
    assert crossings(["3", "1", "3", "0", "3"], small) == 2, "at least nothing used is calm"


@given(st.lists(st.integers(0, 1200), max_size=30), st.integers(0, 100))
def test_an_alert_stands_exactly_between_crossing_and_calm(uses: list[int], threshold: int) -> None:
    quota = make_spec({"requests": {"tflops": "100"}, "alertThresholdPercent": threshold})
    raised: list[str] = []
    for tenth in uses:
        used = make_totals(make_amounts(f"{tenth * 100}m"))
        before, raised = raised, alerts_after_change(quota, used, raised)
        percent = min(1000, tenth)
        if percent > threshold * 10:
            assert raised
        elif not before or percent <= max(0, threshold * 10 - 50):
            assert not raised
        else:
            assert raised


@given(st.integers(0, 300), st.none() | st.integers(0, 200), st.integers(0, 100))
def test_the_comparison_in_whole_numbers_is_the_one_of_the_percentage(
    used: int, total: int | None, percent: int
) -> None:
    gauge = UsageGauge("workers", used, total)
    assert gauge.has_less_than(percent) == (gauge.available_percent < percent)
