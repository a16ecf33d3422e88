"""Quiet hours: which moments they contain, and which texts say some."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pools.domain.people.quiet_hours import check_quiet_hours, is_quiet


@pytest.mark.parametrize(
    ("hours", "moment", "quiet"),
    [
        ("22:00-07:00", "2026-11-27T21:59", False),
        ("22:00-07:00", "2026-11-27T22:00", True),
        ("22:00-07:00", "2026-11-28T06:59", True),
        ("22:00-07:00", "2026-11-28T07:00", False),
        ("12:00-13:30", "2026-11-27T13:29", True),
        ("12:00-13:30", "2026-11-27T13:30", False),
        ("12:00-13:30", "2026-11-27T03:00", False),
        ("22:00-07:00 Europe/Berlin", "2026-11-27T21:00", True),
        ("22:00-07:00 Europe/Berlin", "2026-11-28T06:00", False),
        ("22:00-07:00 Europe/Berlin", "2026-07-27T20:00", True),
        ("22:00-07:00 Europe/Berlin", "2026-07-28T05:00", False),
        ("22:00-07:00 America/Los_Angeles", "2026-11-28T06:00", True),
        ("", "2026-11-27T23:00", False),
        ("at night", "2026-11-27T23:00", False),
    ],
)
def test_the_clocks_of_the_zone_decide(hours: str, moment: str, quiet: bool) -> None:
    assert is_quiet(hours, datetime.fromisoformat(moment).replace(tzinfo=UTC)) is quiet


@pytest.mark.parametrize("text", ["", "00:00-23:59", "22:00-07:00", "22:00-07:00 Europe/Berlin", "01:00-02:00 UTC"])
def test_hours_that_are_taken(text: str) -> None:
    assert check_quiet_hours(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "22:00", "22-07", "24:00-07:00", "22:60-07:00", "22:00-22:00", "22:00-07:00 ", " 22:00-07:00", "22:00 - 07:00",
        "22:00-07:00 Nowhere/Here", "22:00-07:00 ../etc/passwd", "22:00-07:00 Europe", "22:00-07:00\n", "٢٢:00-07:00",
        "22:00-07:00 /usr/share/zoneinfo/UTC", "22:00-07:00 UTC UTC", "\x00",
    ],
)  # fmt: skip
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    (fault,) = check_quiet_hours(text)
    assert fault.path == "quiet_hours"
    assert "22:00-07:00 Europe/Berlin" in fault.message
