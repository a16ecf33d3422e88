"""The findings of a replay as sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pools.domain.names import readable_name
from pools.domain.values.durations import span_text

MAX_TEAMS = 6
"""The teams with a sentence of their own, the largest change first."""
_SMALL = 0.005
"""A share below half a percent is not a change to a reader."""
_MANY = 3
"""Above this many times a percentage says little."""


def replay_sentences(answer: Mapping[str, Any]) -> list[str]:
    """`team--b waits 31 % less in the mean (12 min instead of 17 min), 12 more reclaims.`, a sentence for each team
    that changes, and one for the people. Without changes: whether the replay equals the record."""
    if answer["against"] is None:
        return [_exactness(answer)]
    rows = {name: (answer["on"]["teams"][name], after) for name, after in answer["against"]["teams"].items()}
    changes = {name: text for name, (on, against) in rows.items() if (text := change_of_team(on, against))}
    by_size = sorted(changes, key=lambda name: (-_waited_change(*rows[name]), name))
    lines = [f"{readable_name(name)} {changes[name]}." for name in by_size[:MAX_TEAMS]]
    if len(by_size) > MAX_TEAMS:
        lines.append(f"{len(by_size) - MAX_TEAMS} more teams change; the table has all.")
    if not lines:
        lines = ["Nothing changes: every team waits as long as it did, with as many reclaims and preemptions."]
    people = len({row["user"] for row in answer["people"]})
    if people:
        who = f"{'At least ' if answer['more_people'] else ''}{people} {'person' if people == 1 else 'people'}"
        lines.append(f"{who} would notice: a minute or more of waiting, or another number of reclaims and preemptions.")
    return [*lines, *exactness_sentences(answer)]


def exactness_sentences(answer: Mapping[str, Any]) -> list[str]:
    """A warning where the replay without changes differs from the record; else nothing."""
    return [] if answer["identical"] else [_exactness(answer)]


def _exactness(answer: Mapping[str, Any]) -> str:
    steps = answer["steps"]
    if answer["identical"]:
        return f"Without changes the replay makes all {steps} recorded starts and preemptions again, exactly."
    differs = f"Without changes the replay differs from the {steps} recorded steps, so its numbers are estimates: "
    if answer["exact_since"] is not None:
        return (
            f"{differs}until {answer['exact_since'][:16].replace('T', ' ')} UTC the record does not say which changes "
            "each decision had seen. Choose a later begin for exact numbers."
        )
    return f"{differs}something that it does not follow took part."


def change_of_team(on: Mapping[str, Any], against: Mapping[str, Any]) -> str:
    """`waits 31 % less in the mean (…), 12 more reclaims` from the numbers of a team before and after; empty if nothing
    changes."""
    parts = [_change_of_wait(on["wait_mean_s"], against["wait_mean_s"])]
    for key, one, many in (
        ("starts", "start", "starts"),
        ("reclaims", "reclaim", "reclaims"),
        ("preemptions", "preemption", "preemptions"),
    ):
        if difference := against[key] - on[key]:
            number = abs(difference)
            parts.append(f"{number} {'more' if difference > 0 else 'fewer'} {one if number == 1 else many}")
    if parts[0]:
        return ", ".join(part for part in parts if part)
    return f"has {', '.join(parts[1:])}" if len(parts) > 1 else ""


def _change_of_wait(on: float | None, against: float | None) -> str:
    if on is None or against is None or abs(against - on) < 1 or abs(against - on) < _SMALL * on:
        return ""
    now, before = _rounded(against), _rounded(on)
    times = f"({now} instead of {before})" if now != before else f"({now})"
    way = "less" if against < on else "more"
    if on < 1:
        return f"waits {_rounded(against - on)} more in the mean {times}"
    if against > _MANY * on:
        return f"waits {against / on:.0f} times as long in the mean {times}"
    return f"waits {abs(against - on) / on:.0%} {way} in the mean {times}".replace("%", " %")


def _rounded(seconds: float) -> str:
    return span_text(round(seconds))


def _waited_change(on: Mapping[str, Any], against: Mapping[str, Any]) -> float:
    """The seconds by which all waits of a team change."""
    before, after = (float((row["wait_mean_s"] or 0) * row["jobs"]) for row in (on, against))
    return abs(after - before)
