"""The sentences of a replay."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.history.replay.sentences import replay_sentences


def row(wait: float | None, **more: int) -> dict[str, Any]:
    return {"jobs": 10, "starts": 8, "reclaims": 0, "preemptions": 0, "wait_mean_s": wait} | more


def compared(on: dict[str, Any], against: dict[str, Any] | None, **more: Any) -> list[str]:
    return replay_sentences(
        {
            "on": {"teams": on},
            "against": None if against is None else {"teams": against},
            "identical": True,
            "exact_since": None,
            "steps": 8,
            "people": [],
            "more_people": 0,
            **more,
        }
    )


def test_the_change_of_a_team() -> None:
    before, after = {"b": row(100)}, {"b": row(69, starts=9, reclaims=12)}
    assert compared(before, after) == [
        "b waits 31 % less in the mean (1 min 9 s instead of 1 min 40 s), 1 more start, 12 more reclaims."
    ]
    assert compared(after, before) == [
        "b waits 45 % more in the mean (1 min 40 s instead of 1 min 9 s), 1 fewer start, 12 fewer reclaims."
    ]


def test_a_wait_that_is_many_times_as_long() -> None:
    assert compared({"b": row(10)}, {"b": row(31)}) == ["b waits 3 times as long in the mean (31 s instead of 10 s)."]
    assert compared({"b": row(10)}, {"b": row(30)}) == ["b waits 200 % more in the mean (30 s instead of 10 s)."]


@pytest.mark.parametrize("before", [None, 0.0])
def test_a_wait_that_was_none(before: float | None) -> None:
    expected = (
        "b has 1 more preemption."
        if before is None
        else "b waits 30 s more in the mean (30 s instead of 0 s), 1 more preemption."
    )
    assert compared({"b": row(before)}, {"b": row(30, preemptions=1)}) == [expected]


def test_the_largest_changes_come_first_and_the_others_are_counted() -> None:
    before = {f"t{number}": row(100) for number in range(9)}
    after = {f"t{number}": row(100 - 2 * number) for number in range(9)}
    sentences = compared(before, after)
    assert [sentence.split()[0] for sentence in sentences[:6]] == ["t8", "t7", "t6", "t5", "t4", "t3"]
    assert sentences[6:] == ["2 more teams change; the table has all."]


def test_without_a_change_it_says_so() -> None:
    assert compared({"b": row(100)}, {"b": row(100.2)})[0].startswith("Nothing changes")
    assert compared({"b": row(100)}, None) == [
        "Without changes the replay makes all 8 recorded starts and preemptions again, exactly."
    ]


def test_people_and_estimates() -> None:
    people = [{"user": "ann"}, {"user": "ann"}]
    sentences = compared({"b": row(100)}, {"b": row(50)}, people=people, identical=False)
    assert sentences[1].startswith("1 person would notice: ")
    assert "so its numbers are estimates" in sentences[2]
    before = compared(
        {"b": row(100)}, {"b": row(50)}, people=people, identical=False, exact_since="2026-11-02T10:15:00.123456"
    )
    assert "until 2026-11-02 10:15 UTC the record does not say which changes each decision had seen" in before[2]
    many = compared({"b": row(100)}, {"b": row(50)}, people=[{"user": "ann"}, {"user": "ben"}], more_people=3)
    assert many[1].startswith("At least 2 people would notice: ")


def test_two_lengths_that_read_alike_are_said_once() -> None:
    assert compared({"b": row(5000)}, {"b": row(5030)}) == ["b waits 1 % more in the mean (1 h 23 min)."]
