"""Hostile scenario files, and good ones with a change: an answer or faults with paths in every case. A process reads
them that may use half a GiB and some seconds of one core for each (`tests/support/resource_limits.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.errors import Fault
from tests.support import hostile, resource_limits

READ = "tests.support.hostile:read_scenario"
MEBIBYTES, CPU_SECONDS = 512, 30
ANSWERED = {"a chain of 2,000 cohorts", "a chain of 2,000 queues", "queues times workloads", "fine numbers"}
"""Large, and yet worked out."""

EXPECTED_MESSAGES = [
    ("a chain of 9,000 queues with work at its end", "queues", "9000 levels deep"),
    ("a chain of 9,000 queues with work at its end", "workloads", "2000 workloads in a tree 9000 levels deep"),
    ("a chain of 2,000 sub-groups", "workloads[0].gang.sub_groups[64].parent", "at most 64 levels deep"),
    ("resources times queues", "queues", "2500 nodes, cohorts, queues and workloads with 10000 resources"),
    ("resources by alias", "queues", "1120 nodes, cohorts, queues and workloads with 900 resources"),
    ("sub-groups times tasks", "workloads[0].gang.sub_groups", "19000 tasks in a gang of 2000 sub-groups"),
    ("tasks without end", "workloads[1].tasks[0].count", "at most 500000 tasks"),
    ("only a dash", "", "which is a map, not a list"),
]
"""Some of the files, the path of a fault, and what it says."""

CODES = {Fault.UNKNOWN_KEY, Fault.UNKNOWN_NAME, Fault.DUPLICATE_NAME, Fault.CYCLE, Fault.BAD_VALUE}


def read(texts: list[str]) -> list[Any]:
    answers: list[Any] = resource_limits.run_limited(READ, texts, mebibytes=MEBIBYTES, cpu_seconds=CPU_SECONDS)
    return answers


def assert_clear(documents: list[dict[str, Any]], text: str) -> None:
    assert documents, text[:200]
    for answer in documents:
        if answer["error_code"] is None:
            assert answer["settled"] is not None
            continue
        assert answer["error_code"] == "SCENARIO"
        assert answer["details"], text[:200]
        for fault in answer["details"]:
            assert fault["code"] in CODES
            assert fault["message"].endswith(".")


@pytest.mark.parametrize(("target", "case"), [("builtins:bytearray", 2**30), ("tests.support.hostile:run_away", 1)])
def test_the_limits_hold(target: str, case: int) -> None:
    with pytest.raises(AssertionError, match="Case 0 ended the process"):
        resource_limits.run_limited(target, [case], mebibytes=256, cpu_seconds=1)


@pytest.mark.timeout(900)
def test_hostile_files_are_refused_with_a_message() -> None:
    """All files in one process, one after the other: the state after one file is the state before the next."""
    answers = dict(zip(hostile.SCENARIOS, read(list(hostile.SCENARIOS.values())), strict=True))

    for name, documents in answers.items():
        assert_clear(documents, name)
        refused = any(answer["error_code"] for answer in documents)
        assert refused is (name not in ANSWERED), name
    for name, path, message in EXPECTED_MESSAGES:
        faults = [fault for answer in answers[name] for fault in answer["details"] if fault["path"] == path]
        assert any(message in fault["message"] for fault in faults), answers[name]


def _spoiled(count: int, seed: int) -> None:
    texts = list(hostile.mutated_scenarios(count, seed))
    for text, documents in zip(texts, read(texts), strict=True):
        assert_clear(documents, text)


@pytest.mark.timeout(900)
def test_good_files_with_something_changed() -> None:
    _spoiled(80, seed=3)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_many_good_files_with_something_changed(seed: int) -> None:
    _spoiled(3000, seed)
