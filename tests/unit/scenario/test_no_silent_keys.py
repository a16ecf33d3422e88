"""Every key of a scenario changes the answer, or the answer names it as without effect (docs/scenarios.md)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from scheduling.scenario import answer_scenario_value
from scheduling.scenario.changes import CHANGE_KINDS
from scheduling.scenario.parse import COHORT_KEYS, NODE_KEYS, POLICY_KEYS, QUEUE_KEYS, ROOT_KEYS, ScenarioError
from scheduling.scenario.workloads import GANG_KEYS, GROUP_KEYS, TASK_KEYS, WORKLOAD_KEYS

GROUPS = [{"name": "x", "min_member": 1}, {"name": "y", "min_member": 1}]
BASE: dict[str, Any] = {
    "nodes": [{"name": "n1", "gpus": 8}, {"name": "n2", "gpus": 2}],
    "capacity": 10,
    "cohorts": [{"name": "org", "quota": 2}, {"name": "top"}],
    "queues": [{"name": "a", "parent": "org", "quota": 4}, {"name": "b", "parent": "org", "quota": 4}],
    "workloads": [
        {"name": "low", "queue": "a", "priority": "LOW", "state": "running", "tasks": [{"gpus": 2, "node": "n2"}]},
        {"name": "big", "queue": "a", "priority": "LOW", "tasks": [{"gpus": 8}]},
        {"name": "next", "queue": "b", "priority": "LOW", "tasks": [{"gpus": 4, "count": 2}]},
        {
            "name": "gang", "queue": "b", "priority": "LOW", "gang": {"sub_groups": GROUPS},
            "tasks": [{"sub_group": "x", "gpus": 1}, {"sub_group": "y", "gpus": 1, "count": 2}],
        },
    ],
    "changes": [{"finish": "low"}],
}  # fmt: skip
POLICY = {"now": 100, "reserve_after": 10, "ageing": 20}
LONG_WAIT: dict[str, Any] = {
    "policy": {"now": 7200, "reserve_after": 3600}, "changes": [], "cohorts": [],
    "queues": [{"name": "a", "quota": 8}],
    "nodes": [{"name": "n1", "gpus": 8}],
    "workloads": [
        {"name": "now", "queue": "a", "state": "running", "tasks": [{"gpus": 6, "node": "n1"}]},
        {"name": "head", "queue": "a", "submitted": 1, "tasks": [{"gpus": 8}]},
        {"name": "late", "queue": "a", "submitted": 7000, "tasks": [{"gpus": 2}]},
    ],
}  # fmt: skip
TWO_VICTIMS: dict[str, Any] = {
    "policy": {"now": 100}, "changes": [], "cohorts": [], "queues": [{"name": "a", "quota": 4}],
    "nodes": [{"name": "n1", "gpus": 1}, {"name": "n2", "gpus": 2}],
    "workloads": [
        {"name": "one", "queue": "a", "priority": "LOW", "state": "running", "submitted": 1,
         "tasks": [{"gpus": 1, "node": "n1"}]},
        {"name": "two", "queue": "a", "priority": "LOW", "state": "running", "submitted": 2,
         "tasks": [{"gpus": 2, "node": "n2"}]},
        {"name": "new", "queue": "a", "submitted": 3, "tasks": [{"gpus": 1}]},
    ],
}  # fmt: skip
EQUAL_VICTIMS: dict[str, Any] = {
    "policy": {"now": 101, "victims": "least_lost"}, "changes": [], "cohorts": [],
    "queues": [{"name": "a", "quota": 2}], "nodes": [{"name": "n1", "gpus": 1}, {"name": "n2", "gpus": 1}],
    "workloads": [
        {"name": "one", "queue": "a", "priority": "LOW", "state": "running", "submitted": 1, "started": 0,
         "tasks": [{"gpus": 1, "node": "n1"}]},
        {"name": "two", "queue": "a", "priority": "LOW", "state": "running", "submitted": 2, "started": 50,
         "tasks": [{"gpus": 1, "node": "n2"}]},
        {"name": "new", "queue": "a", "submitted": 3, "tasks": [{"gpus": 1}]},
    ],
}  # fmt: skip
TWO_KINDS: dict[str, Any] = {
    "nodes": [{"name": "h", "resources": {"h100/gpu": 4}}, {"name": "a", "resources": {"a100/gpu": 4}}],
    "queues": [{"name": "a", "quota": {"h100/gpu": 2, "a100/gpu": 4}}], "cohorts": [], "changes": [],
    "workloads": [
        {"name": "low", "queue": "a", "priority": "LOW", "state": "running",
         "tasks": [{"any_of": [{"h100/gpu": 2}, {"a100/gpu": 2}], "node": "h"}]},
        {"name": "w", "queue": "a", "priority": 60, "tasks": [{"any_of": [{"h100/gpu": 2}, {"a100/gpu": 2}]}]},
    ],
}  # fmt: skip
MAKES_ROOM: dict[str, Any] = TWO_KINDS | {
    "nodes": [{"name": "h", "resources": {"h100/gpu": 2}}, {"name": "a", "resources": {"a100/gpu": 4}}],
}
LOST_NODE: dict[str, Any] = {
    "policy": {"now": 100},
    "nodes": [{"name": "n1", "gpus": 4, "labels": {"rack": "r1"}}, {"name": "n2", "gpus": 2}],
    "queues": [{"name": "a", "quota": 4, "weight": 2}, {"name": "b", "quota": 2}],
    "workloads": [{"name": "w", "queue": "a", "state": "running", "tasks": [{"gpus": 2, "node": "n1"}]}],
    "changes": [{"remove_nodes": {"label": "rack=r1"}}],
}

# By kind of entry and key: (scenario, path of the entry, a value that the answer must tell from the one before).
CASES: dict[tuple[str, str], tuple[dict[str, Any], tuple[Any, ...], Any]] = {
    ("root", "nodes"): (BASE, (), None),
    ("root", "capacity"): (BASE, (), 12),
    ("root", "cohorts"): (BASE, (), [{"name": "org"}, {"name": "top"}]),
    ("root", "queues"): (BASE, (), [*BASE["queues"], {"name": "c"}]),
    ("root", "usage"): ({**BASE, "nodes": None, "workloads": [], "changes": []}, (), {"a": 3}),
    ("root", "demand"): ({**BASE, "nodes": None, "workloads": [], "changes": []}, (), {"a": 9}),
    ("root", "workloads"): (BASE, (), BASE["workloads"][:3]),
    ("root", "changes"): (BASE, (), []),
    ("root", "policy"): (LONG_WAIT, (), None),
    ("node", "name"): (BASE, ("nodes", 0), "another"),
    ("node", "gpus"): (BASE, ("nodes", 0), 7),
    ("node", "resources"): (
        {**LONG_WAIT, "nodes": [{"name": "n1", "resources": {"gpu": 8}}],
         "workloads": [{"name": "w", "queue": "a", "tasks": [{"resources": {"gpu": 1, "cpu": 4}}]}]},
        ("nodes", 0), {"gpu": 8, "cpu": 2},
    ),
    ("node", "labels"): (LOST_NODE, ("nodes", 1), {"rack": "r1"}),
    ("cohort", "name"): (BASE, ("cohorts", 1), "other"),
    ("cohort", "parent"): (BASE, ("cohorts", 0), "top"),
    ("cohort", "quota"): (BASE, ("cohorts", 0), 6),
    ("cohort", "borrowing_limit"): (BASE | {"cohorts": [{"name": "org", "parent": "top"}, {"name": "top", "quota": 8}]},
                                    ("cohorts", 0), 1),
    ("cohort", "lending_limit"): (BASE | {"cohorts": [{"name": "org", "parent": "top"}, {"name": "top", "quota": 8}]},
                                  ("cohorts", 0), 1),
    ("cohort", "weight"): (
        {"capacity": 8, "usage": {"a": 4},
         "cohorts": [{"name": "org", "parent": "top"}, {"name": "lab", "parent": "top"}, {"name": "top", "quota": 8}],
         "queues": [{"name": "a", "parent": "org"}, {"name": "b", "parent": "lab"}]},
        ("cohorts", 0), 3,
    ),
    ("queue", "name"): (BASE | {"queues": [*BASE["queues"], {"name": "c"}]}, ("queues", 2), "d"),
    ("queue", "parent"): (BASE, ("queues", 0), "top"),
    ("queue", "quota"): (BASE, ("queues", 0), 5),
    ("queue", "borrowing_limit"): (BASE, ("queues", 0), 0),
    ("queue", "lending_limit"): (BASE, ("queues", 0), 0),
    ("queue", "weight"): (BASE, ("queues", 0), 7),
    ("queue", "limit"): (BASE, ("queues", 1), 1),
    ("queue", "priority"): (BASE, ("queues", 1), 500),
    ("queue", "created"): (
        BASE | {"queues": [{"name": "a"}, {"name": "b"}], "cohorts": [], "changes": [],
                "nodes": [{"name": "n1", "gpus": 1}],
                "workloads": [{"name": "u", "queue": "a", "priority": "LOW", "submitted": 1, "tasks": [{"gpus": 1}]},
                              {"name": "v", "queue": "b", "priority": "LOW", "submitted": 1, "tasks": [{"gpus": 1}]}]},
        ("queues", 0), 50,
    ),
    ("queue", "when_can_borrow"): (TWO_KINDS, ("queues", 0), "next"),
    ("queue", "when_can_preempt"): (MAKES_ROOM, ("queues", 0), "preempt"),
    ("workload", "choice"): (TWO_KINDS, ("workloads", 0), 2),
    ("workload", "name"): (BASE, ("workloads", 1), "renamed"),
    ("workload", "queue"): (BASE, ("workloads", 1), "b"),
    ("workload", "priority"): (BASE, ("workloads", 2), "NORMAL"),
    ("workload", "preemptible"): (TWO_VICTIMS, ("workloads", 1), False),
    ("workload", "submitted"): (LONG_WAIT, ("workloads", 1), 7100),
    ("workload", "state"): (BASE | {"changes": []}, ("workloads", 0), "releasing"),
    ("workload", "started"): (
        LONG_WAIT | {"workloads": [LONG_WAIT["workloads"][0] | {"expected_time": 9000}, *LONG_WAIT["workloads"][1:]]},
        ("workloads", 0), 10,
    ),
    ("workload", "time_limit"): (LONG_WAIT, ("workloads", 0), 9000),
    ("workload", "expected_time"): (LONG_WAIT, ("workloads", 0), 9000),
    ("workload", "checkpoint_every"): (EQUAL_VICTIMS, ("workloads", 0), 10),
    ("workload", "restarts"): (LOST_NODE, ("workloads", 0), False),
    ("workload", "gang"): (BASE, ("workloads", 2), {"min_member": 1}),
    ("workload", "tasks"): (BASE, ("workloads", 1), [{"gpus": 1}]),
    ("task", "name"): (BASE, ("workloads", 1, "tasks", 0), "trainer"),
    ("task", "count"): (BASE, ("workloads", 1, "tasks", 0), 2),
    ("task", "gpus"): (BASE, ("workloads", 1, "tasks", 0), 1),
    ("task", "resources"): (
        {**LONG_WAIT, "workloads": [{"name": "w", "queue": "a", "tasks": [{}]}]},
        ("workloads", 0, "tasks", 0), {"gpu": 1},
    ),
    ("task", "any_of"): (TWO_KINDS, ("workloads", 1, "tasks", 0), [{"a100/gpu": 2}, {"h100/gpu": 2}]),
    ("task", "state"): (BASE | {"changes": []}, ("workloads", 0, "tasks", 0), "releasing"),
    ("task", "node"): (BASE | {"changes": []}, ("workloads", 0, "tasks", 0), "n1"),
    ("task", "sub_group"): (BASE, ("workloads", 3, "tasks", 0), "y"),
    ("gang", "min_member"): (
        BASE | {"workloads": [{"name": "w", "queue": "a", "gang": {}, "tasks": [{"gpus": 4, "count": 3}]}],
                "changes": []},
        ("workloads", 0, "gang"), 3,
    ),
    ("gang", "min_sub_group"): (
        BASE | {"queues": [{"name": "b", "parent": "org", "quota": 4, "limit": 1}],
                "workloads": [BASE["workloads"][3]], "changes": []},
        ("workloads", 0, "gang"), 1,
    ),
    ("gang", "sub_groups"): (BASE, ("workloads", 3, "gang"), [*GROUPS, {"name": "z", "min_member": 1}]),
    ("group", "name"): (BASE, ("workloads", 3, "gang", "sub_groups", 1), "renamed"),
    ("group", "parent"): (BASE, ("workloads", 3, "gang", "sub_groups", 1), "x"),
    ("group", "min_member"): (BASE, ("workloads", 3, "gang", "sub_groups", 1), 5),
    ("group", "min_sub_group"): (BASE, ("workloads", 3, "gang", "sub_groups", 1), 1),
    ("policy", "now"): (LONG_WAIT, ("policy",), 20),
    ("policy", "reserve_after"): (LONG_WAIT, ("policy",), None),
    ("policy", "ageing"): (
        LONG_WAIT | {"policy": {"now": 7200}, "nodes": [{"name": "n1", "gpus": 8}], "workloads": [
            {"name": "old", "queue": "a", "priority": "NORMAL", "submitted": 1, "tasks": [{"gpus": 8}]},
            {"name": "young", "queue": "a", "priority": "HIGH", "submitted": 7100, "tasks": [{"gpus": 8}]}]},
        ("policy",), 600,
    ),
    ("policy", "victims"): (TWO_VICTIMS, ("policy",), "least_lost"),
    ("policy", "degraded"): (LOST_NODE, ("policy",), "ordered"),
    ("change", "set_node"): (LOST_NODE, ("changes", 0), {"name": "n1", "gpus": 1}),
    ("change", "remove_node"): (LOST_NODE, ("changes", 0), "n2"),
    ("change", "remove_nodes"): (LOST_NODE, ("changes", 0), ["n1", "n2"]),
    ("change", "remove_backend"): (LOST_NODE, ("changes", 0), "sim"),
    ("change", "set"): (BASE, ("changes", 0), {"name": "a", "quota": 1}),
    ("change", "remove"): (BASE, ("changes", 0), "top"),
    ("change", "finish"): (BASE, ("changes", 0), ["low", "big"]),
    ("change", "submit"): (BASE, ("changes", 0), {"name": "s", "queue": "a", "tasks": [{"gpus": 1}]}),
}  # fmt: skip
KEYS = {
    "root": ROOT_KEYS, "node": NODE_KEYS, "cohort": COHORT_KEYS, "queue": QUEUE_KEYS,
    "workload": WORKLOAD_KEYS, "task": TASK_KEYS, "gang": GANG_KEYS, "group": GROUP_KEYS, "policy": POLICY_KEYS,
    "change": CHANGE_KINDS,
}  # fmt: skip


def test_the_table_has_each_key() -> None:
    assert set(CASES) == {(kind, key) for kind, keys in KEYS.items() for key in keys}


@pytest.mark.parametrize(("kind", "key"), CASES, ids=map(".".join, CASES))
def test_no_key_is_silent(kind: str, key: str) -> None:
    scenario, path, value = CASES[kind, key]
    changed = deepcopy(scenario)
    entry: Any = changed
    for part in path:
        entry = entry[part]
    if kind == "change":
        entry.clear()
    entry[key] = value
    before = answer_scenario_value(scenario)
    try:
        after = answer_scenario_value(changed)
    except ScenarioError:
        return
    assert after != before


@pytest.mark.parametrize("victims", ["least_lost", "youngest"])
def test_checkpoints_without_effect_are_named(victims: str) -> None:
    scenario = deepcopy(EQUAL_VICTIMS)
    scenario["policy"]["victims"] = victims
    scenario["workloads"][0]["checkpoint_every"] = 10
    answer = answer_scenario_value(scenario)
    unread = [] if victims == "least_lost" else ["workloads[0].checkpoint_every"]
    assert [each["path"] for each in answer["violations"]] == unread
    gone = "one" if victims == "least_lost" else "two"
    assert [step["workload"] for step in answer["steps"] if step["action"] == "preempt"] == [gone]
