"""The values of numbers, sizes, times, exit codes and labels from their texts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pools.domain.exit_codes import parse_exit_codes
from pools.domain.values.byte_sizes import parse_size
from pools.domain.values.durations import parse_duration
from scheduling.domain.workflow_spec import exit_action, simulated_runtime_seconds
from scheduling.specs import SpecRules, check_labels, parse
from scheduling.specs.group_cycles import find_cycle
from tests.unit.specs.sample_files import one_task_file, read_fault_codes, read_valid, read_valid_task


@pytest.mark.parametrize(
    ("written", "gpus"),
    [("0", 0), ("8", 8), ('"8"', 8), ("8.0", None), ("010", None), ("0x8", None), ("1_0", None),
     ("1000000", 1_000_000), ("", 0), ("~", 0), ("1.5", None),
     ("-1", None), ("1000001", None), ("9" * 5000, None), (".nan", None), (".inf", None), ("1e3", None),
     ("0x10", None), ("010.5", None), ("true", None), ("[1]", None), ("{a: 1}", None), ("two", None), ("1:30", None),
     ("'٣'", None)],
)  # fmt: skip
def test_whole_numbers(written: str, gpus: int | None) -> None:
    text = one_task_file(workflow=f"resources: {{default: {{gpu: {written}}}}}")
    if gpus is None:
        assert read_fault_codes(text) == ["bad_number"]
    else:
        assert read_valid(text).largest_gang_gpus == gpus


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("64", 64), ("1K", 1024), ("1Ki", 1024), ("1KiB", 1024), ("3Mi", 3 * 2**20), ("512Gi", 2**39),
     ("16 Gi", 2**34), ("1.5T", 3 * 2**39), ("0.3", None), ("0.3B", 1), ("1B", 1), (str(2**60), 2**60),
     (str(2**60 + 1), None),
     ("1GB", None), ("1gi", None), ("-1Gi", None), ("1e9", None), ("Gi", None), ("", None), ("nan", None),
     ("1Gi1Gi", None), ("9" * 30, None)],
)  # fmt: skip
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


def test_sizes_of_a_task() -> None:
    task = read_valid_task(workflow="resources: {default: {memory: 2Gi, storage: 1024, cpu: 3}}")
    assert (task.memory_bytes, task.storage_bytes, task.cpu, task.gpu) == (2**31, 1024, 3, 0)
    assert read_fault_codes(one_task_file(workflow="resources: {default: {memory: -1}}")) == ["bad_size"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("90", 90), ("1.5h", 5400), ("250ms", 0.25),
     ("5us", 5e-6), (" 8h ", 28_800), ("0", 0), ("36500d", 36_500 * 86_400), ("36501d", None), ("-1h", None),
     ("1w", None), ("h", None), ("", None), ("1 h", None), ("1H", None), ("inf", None), ("9" * 400 + "d", None),
     ("1h" * 50, None), ("PT1H", None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    found = parse_duration(text)
    assert (None if found is None else found.total_seconds()) == seconds


def test_simulated_runtime() -> None:
    assert read_valid(one_task_file(workflow="labels: {osmo/simulated-runtime: 1h30m}")).simulated_runtime == 5400
    assert read_valid(one_task_file(workflow="labels: {osmo/simulated-runtime: 30}")).simulated_runtime == 30
    assert read_valid(one_task_file()).simulated_runtime is None
    assert read_fault_codes(one_task_file(workflow="labels: {osmo/simulated-runtime: soon}")) == ["bad_duration"]
    assert simulated_runtime_seconds({"osmo/simulated-runtime": "soon"}) is None


def test_a_plain_number_is_a_timeout_in_seconds() -> None:
    assert read_valid(one_task_file(workflow="timeout: {exec_timeout: 90}")).exec_timeout == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [("0", ((0, 0),)), ("0,1-10,3006", ((0, 0), (1, 10), (3006, 3006))), (" 1 - 3 , 5 ", ((1, 3), (5, 5))),
     ("10-1", None), ("", None), (",", None), ("1-2-3", None), ("-1", None), ("a", None), ("99999", None),
     ("1," * 600, None)],
)  # fmt: skip
def test_exit_codes(text: str, ranges: tuple[tuple[int, int], ...] | None) -> None:
    assert parse_exit_codes(text) == ranges


def test_exit_actions_of_the_task_come_before_those_of_the_pool() -> None:
    rules = SpecRules(exit_actions={"COMPLETE": "0,5-7", "RESCHEDULE": "3006", "FAIL": "7-9"})
    actions = read_valid_task("exitActions: {reschedule: 6, FAIL: 255}", rules=rules).exit_actions
    expected = {
        0: "COMPLETE",
        5: "COMPLETE",
        6: "RESCHEDULE",
        7: "COMPLETE",
        8: "FAIL",
        255: "FAIL",
        3006: "RESCHEDULE",
        42: None,
    }
    assert {code: exit_action(code, actions) for code in expected} == expected


def test_invalid_exit_actions_of_the_pool_are_left_out() -> None:
    parsed = parse(one_task_file(), rules=SpecRules(exit_actions={"EXPLODE": "1", "FAIL": "x", "COMPLETE": "2"}))
    assert parsed.spec is not None
    assert parsed.spec.tasks[0].exit_actions == {"COMPLETE": ((2, 2),)}
    assert len(parsed.warnings) == 2


def test_one_exit_action_twice() -> None:
    assert read_fault_codes(one_task_file("exitActions: {FAIL: 1, fail: 2}")) == ["duplicate_key"]


@pytest.mark.parametrize(
    ("key", "value", "good"),
    [("team", "a", True), ("a.b/c_d", "1.0", True), ("osmo/simulated-runtime", "5m", True), ("team", "", False),
     ("team", "a b", False), ("team", "-a", False), ("team", "a" * 63, True), ("team", "a" * 64, False),
     ("", "a", False), ("/a", "a", False), ("A/b", "a", False), ("a/b/c", "a", False), ("a" * 64, "a", False),
     ("x." * 130 + "x/a", "a", False), ("a", "ä", False)],
)  # fmt: skip
def test_labels(key: str, value: str, good: bool) -> None:
    assert (check_labels({key: value}) == []) is good


def test_number_of_labels() -> None:
    assert [fault.code for fault in check_labels({f"k{n}": "v" for n in range(17)})] == ["too_many"]


@pytest.mark.parametrize(
    ("graph", "circle"),
    [({}, []), ({"a": ["b"], "b": []}, []), ({"a": ["b", "c"], "b": ["c"], "c": []}, []), ({"a": ["a"]}, ["a"]),
     ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c"])],
)  # fmt: skip
def test_cycles(graph: dict[str, list[str]], circle: list[str]) -> None:
    assert find_cycle(graph) == circle


def test_a_long_chain_is_not_a_cycle() -> None:
    assert find_cycle({f"g{n}": [f"g{n + 1}"] for n in range(20_000)}) == []
