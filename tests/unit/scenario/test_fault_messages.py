"""Scenarios that cannot be read: every fault with its path and code, in bounded time, never a stack trace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools.domain.errors import DomainError
from scheduling.scenario import ScenarioError, answer, answer_scenario_value, simulate_sources
from scheduling.scenario.parse import ROOT_KEYS

Q = "queues: [{name: q}]\n"
W = "workloads: [{name: w, queue: q, tasks: [{gpus: 1}]}]\n"


def faults(text):
    with pytest.raises(ScenarioError) as refused:
        answer(text)
    assert refused.value.error_code == "SCENARIO"
    return [(fault.path, fault.code) for fault in refused.value.details]


@pytest.mark.parametrize(
    ("text", "path", "code"),
    [
        ("node: []", "node", "unknown_key"),
        ("nodes: [{name: n, gpu: 1}]", "nodes[0].gpu", "unknown_key"),
        ("queues: [{name: q, qouta: 1}]", "queues[0].qouta", "unknown_key"),
        ("cohorts: [{name: c, limit: 1}]", "cohorts[0].limit", "unknown_key"),
        (Q + "workloads: [{name: w, queue: q, tasks: [{gpu: 1}]}]", "workloads[0].tasks[0].gpu", "unknown_key"),
        (
            Q + "workloads: [{name: w, queue: q, gang: {members: 1}, tasks: [{}]}]",
            "workloads[0].gang.members",
            "unknown_key",
        ),
        ("changes: [{drop: q}]", "changes[0].drop", "unknown_key"),
        (Q + "changes: [{set: {name: q, size: 1}}]", "changes[0].set.size", "unknown_key"),
        ("queues: [{name: a}, {name: b}, {name: c, parent: no}]", "queues[2].parent", "unknown_name"),
        ("cohorts: [{name: c, parent: no}]", "cohorts[0].parent", "unknown_name"),
        ("usage: {q: 1}", "usage.q", "unknown_name"),
        ("cohorts: [{name: c}]\ndemand: {c: 1}", "demand.c", "unknown_name"),
        ("workloads: [{name: w, queue: q, tasks: [{}]}]", "workloads[0].queue", "unknown_name"),
        (
            Q + "workloads: [{name: w, queue: q, state: running, tasks: [{node: n}]}]",
            "workloads[0].tasks[0].node",
            "unknown_name",
        ),
        (
            Q + "workloads: [{name: w, queue: q, tasks: [{sub_group: g}]}]",
            "workloads[0].tasks[0].sub_group",
            "unknown_name",
        ),
        (
            Q
            + "workloads: [{name: w, queue: q, gang: {sub_groups: [{name: a, parent: b, min_member: 1}]}, "
            + "tasks: [{sub_group: a}]}]",
            "workloads[0].gang.sub_groups[0].parent",
            "unknown_name",
        ),
        (Q + "changes: [{remove: no}]", "changes[0].remove", "unknown_name"),
        (Q + "changes: [{finish: [no]}]", "changes[0].finish[0]", "unknown_name"),
        (Q + "changes: [{remove: q}, {set: {name: q, quota: 1}}]", "changes[1].set.name", "unknown_name"),
        (Q + "changes: [{set: {name: q, parent: no}}]", "changes[0].set.parent", "unknown_name"),
        ("queues: [{name: a}, {name: a}]", "queues[1].name", "duplicate_name"),
        ("cohorts: [{name: a}]\nqueues: [{name: a}]", "queues[0].name", "duplicate_name"),
        ("nodes: [{name: a}, {name: a}]", "nodes[1].name", "duplicate_name"),
        (Q + W + "changes: [{submit: {name: w, queue: q, tasks: [{}]}}]", "changes[0].submit.name", "duplicate_name"),
        (
            Q + "workloads: [{name: w, queue: q, tasks: [{name: t}, {name: t}]}]",
            "workloads[0].tasks[1].name",
            "duplicate_name",
        ),
        ("queues: [{name: a, quota: 1, quota: 2}]", "queues[0].quota", "duplicate_name"),
        ('{"queues": [{"name": "a", "quota": 1, "quota": 2}]}', "queues[0].quota", "duplicate_name"),
        ("queues: []\nqueues: []", "queues", "duplicate_name"),
        ("queues: [{name: a, quota: {gpu: 1, default/gpu: 2}}]", "queues[0].quota.default/gpu", "duplicate_name"),
        ("queues: [{name: a, parent: a}]", "queues[0].parent", "cycle"),
        ("queues: [{name: a, parent: b}, {name: b, parent: a}]", "queues[0].parent", "cycle"),
        ("cohorts: [{name: a, parent: b}, {name: b, parent: a}]", "cohorts[0].parent", "cycle"),
        (
            "queues: [{name: a}, {name: b, parent: a}]\nchanges: [{set: {name: a, parent: b}}]",
            "changes[0].set.parent",
            "cycle",
        ),
        ("queues: [{name: a, quota: -2}]", "queues[0].quota", "bad_value"),
        ("queues: [{name: a, quota: .nan}]", "queues[0].quota", "bad_value"),
        ("queues: [{name: a, quota: 1e999}]", "queues[0].quota", "bad_value"),
        ("queues: [{name: a, quota: {gpu: four}}]", "queues[0].quota.gpu", "bad_value"),
        ("queues: [{name: a, weight: -1}]", "queues[0].weight", "bad_value"),
        ("queues: [{name: 7}]", "queues[0].name", "bad_value"),
        ("queues: [{quota: 7}]", "queues[0].name", "bad_value"),
        ("queues: {a: 1}", "queues", "bad_value"),
        ("queues: [a]", "queues[0]", "bad_value"),
        ("nodes: [{name: n, gpus: -1}]", "nodes[0].gpus", "bad_value"),
        ("nodes: [{name: n, gpus: 1, resources: {gpu: 1}}]", "nodes[0].gpus", "bad_value"),
        ("capacity: -3", "capacity", "bad_value"),
        (Q + "usage: {q: -1}", "usage.q", "bad_value"),
        ("queues: [{name: q}]\ncohorts: [{name: c, parent: q}]", "cohorts[0].parent", "bad_value"),
        (Q + "workloads: [{name: w, queue: q, tasks: []}]", "workloads[0].tasks", "bad_value"),
        (Q + "workloads: [{name: w, queue: q, tasks: [{count: 0}]}]", "workloads[0].tasks[0].count", "bad_value"),
        (Q + "workloads: [{name: w, queue: q, tasks: [{count: 500001}]}]", "workloads[0].tasks[0].count", "bad_value"),
        (Q + "workloads: [{name: w, queue: q, priority: URGENT, tasks: [{}]}]", "workloads[0].priority", "bad_value"),
        (
            Q + "workloads: [{name: w, queue: q, preemptible: maybe, tasks: [{}]}]",
            "workloads[0].preemptible",
            "bad_value",
        ),
        (Q + "workloads: [{name: w, queue: q, state: done, tasks: [{}]}]", "workloads[0].state", "bad_value"),
        (
            "nodes: [{name: n}]\n" + Q + "workloads: [{name: w, queue: q, state: running, tasks: [{}]}]",
            "workloads[0].tasks[0].node",
            "bad_value",
        ),
        ("changes: [{}]", "changes[0]", "bad_value"),
        ("[1, 2]", "", "bad_value"),
        ("", "", "bad_value"),
        ("a: [", "", "bad_value"),
        ("a: !!python/object:os.system x", "a", "unknown_key"),
        ("queues: !!python/object:os.system {}", "", "bad_value"),
        ("? [a]\n: b", "", "bad_value"),
        ("queues: *nobody", "", "bad_value"),
        ("queues: &a [*a]", "", "bad_value"),
    ],
)
def test_one_fault(text, path, code):
    assert (path, code) in faults(text)


def test_all_faults_at_once_with_their_lines():
    text = "queues:\n  - {name: a, quota: -2}\n  - name: a\n    parent: no\nusage:\n  b: 1\n"
    with pytest.raises(ScenarioError) as refused:
        answer(text)
    assert [(fault.path, fault.code, fault.line) for fault in refused.value.details] == [
        ("queues[0].quota", "bad_value", 2),
        ("queues[1].name", "duplicate_name", 3),
        ("usage.b", "unknown_name", 6),
    ]


def test_batches_keep_errors_in_their_place(tmp_path):
    (tmp_path / "b.yaml").write_text("queues: [{name: q}]\n---\nqueues: [{name: q, x: 1}]\n")
    (tmp_path / "a.json").write_text('{"queues": []}')
    (tmp_path / "notes.txt").write_text("no scenario")
    batch = simulate_sources([str(tmp_path), str(tmp_path / "none.yaml"), "-"], stdin="usage: {a: 1}")
    lines = list(batch.output_objects())
    assert [line["source"] for line in lines] == [
        f"{tmp_path}/a.json", f"{tmp_path}/b.yaml#1", f"{tmp_path}/b.yaml#2", f"{tmp_path}/none.yaml", "-",
    ]  # fmt: skip
    assert [line.get("error_code") for line in lines] == [None, None, "SCENARIO", "SCENARIO", "SCENARIO"]
    assert lines[2]["details"][0]["line"] == 3
    assert batch.exit_code == 2
    alone = simulate_sources([str(tmp_path / "a.json")])
    assert (alone.is_single, alone.exit_code) == (True, 0)
    assert "source" not in next(alone.output_objects())


MANY = settings(max_examples=max(150, settings.default.max_examples))
NAMES = st.sampled_from(["a", "b", "c", "n"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | NAMES | st.text(max_size=4)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3), max_leaves=6)
AMOUNT = st.integers(-2, 9) | st.dictionaries(st.sampled_from(["gpu", "spot/gpu", "cpu"]), st.integers(-1, 9)) | VALUES


def mostly(**fields):
    return st.fixed_dictionaries({}, optional={key: strategy | VALUES for key, strategy in fields.items()})


NODE = mostly(name=NAMES, gpus=st.integers(0, 8), resources=AMOUNT)
QUEUE = mostly(
    name=NAMES, parent=NAMES, quota=AMOUNT, limit=AMOUNT, borrowing_limit=AMOUNT, lending_limit=AMOUNT,
    weight=st.integers(0, 3), priority=st.integers(), created=st.integers(),
)  # fmt: skip
TASK = mostly(
    name=NAMES,
    count=st.integers(0, 4),
    gpus=st.integers(0, 4),
    state=st.sampled_from(["pending", "running", "releasing"]),
    node=NAMES,
    sub_group=NAMES,
)
GANG = mostly(
    min_member=st.integers(-1, 4), min_sub_group=st.integers(-1, 4),
    sub_groups=st.lists(
        mostly(name=NAMES, parent=NAMES, min_member=st.integers(0, 3), min_sub_group=st.integers(0, 3)), max_size=3
    ),
)  # fmt: skip
WORK = mostly(
    name=NAMES, queue=NAMES, priority=st.sampled_from(["HIGH", "LOW"]) | st.integers(0, 130), preemptible=st.booleans(),
    state=st.sampled_from(["pending", "running"]), gang=GANG, tasks=st.lists(TASK, min_size=1, max_size=3),
)  # fmt: skip
CHANGE = mostly(set=QUEUE, remove=NAMES, finish=st.lists(NAMES, max_size=2), submit=WORK)
LISTS = {"nodes": NODE, "cohorts": QUEUE, "queues": QUEUE, "workloads": WORK, "changes": CHANGE}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **{key: st.lists(entry, max_size=4) for key, entry in LISTS.items()},
            **{key: st.dictionaries(NAMES, AMOUNT, max_size=2) for key in ("usage", "demand")},
            "capacity": AMOUNT,
        },
    )
    | VALUES
)
@MANY
def test_anything_is_answered_or_refused(value):
    try:
        got = answer_scenario_value(value)
    except DomainError as error:
        got = {"details": error.details}
    assert got.get("details") or {"queues", "cohorts", "workloads", "steps", "settled", "violations"} <= set(got)


@given(st.text(max_size=60) | st.text("[]{}:-,&*!|>'\" \nqueuesname01", max_size=60))
@MANY
def test_any_text_is_answered_or_refused(text):
    for line in simulate_sources(["-"], stdin=text).output_objects():
        assert line.get("error_code") == "SCENARIO" or "settled" in line


def test_the_known_keys_are_those_of_the_design():
    design = {"nodes", "capacity", "cohorts", "queues", "usage", "demand", "workloads", "changes"}
    assert set(ROOT_KEYS) == design | {"policy"}


def test_a_policy_refuses_unknown_keys_and_times_that_are_none() -> None:
    with pytest.raises(ScenarioError) as refused:
        answer("policy: {reserve_after: soon, aging: 3, now: -1}")
    by_path = {fault.path: (fault.code, fault.message) for fault in refused.value.details}
    assert by_path["policy.aging"][0] == "unknown_key"
    assert "number from 0" in by_path["policy.reserve_after"][1]
    assert by_path["policy.now"][0] == "bad_value"
