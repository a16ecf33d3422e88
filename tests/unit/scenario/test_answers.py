"""The answers to scenario files: an example with every key, the documented examples, amounts, changes, violations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.rules.world import World
from scheduling.scenario import answer, parse_scenario_text

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "scenarios"
G = "default/gpu"

DESIGN = """
nodes:
  - {name: n1, gpus: 8}
capacity: 16
cohorts:
  - {name: org, parent: null, quota: 4, borrowing_limit: null, lending_limit: null, weight: 1}
queues:
  - {name: team, parent: org, limit: -1, weight: 1, priority: 100}
  - {name: team-a, parent: team, quota: 6, lending_limit: 2}
  - {name: team-b, parent: team, quota: 4, created: 2}
usage: {team-a: 1}
demand: {team-b: 3}
workloads:
  - {name: wf1, queue: team-a, priority: LOW, submitted: 1, state: running, tasks: [{count: 2, gpus: 1, node: n1}]}
  - name: wf2
    queue: team-a
    priority: NORMAL
    submitted: 2
    gang: {min_sub_group: 1, sub_groups: [{name: a, min_member: 2}, {name: b, min_member: 2}]}
    tasks: [{sub_group: a, count: 2, gpus: 1}, {sub_group: b, count: 2, resources: {gpu: 1}}]
changes:
  - {set: {name: team-a, quota: 4}}
  - {remove: org}
  - {finish: [wf1]}
  - {submit: {name: wf3, queue: team-b, priority: HIGH, tasks: [{gpus: 4}]}}
"""


OVERFULL = """
nodes: [{name: n, gpus: 1}]
queues: [{name: q}]
workloads: [{name: w, queue: q, priority: LOW, state: running, tasks: [{gpus: 2, node: n}]}]
"""


def test_the_example_of_the_design():
    got = answer(DESIGN)
    assert {name: work["state"] for name, work in got["workloads"].items()} == {
        "wf1": "finished", "wf2": "running", "wf3": "running",
    }  # fmt: skip
    assert got["queues"]["team"]["parent"] is None
    assert got["queues"]["team-a"]["subtree_quota"] == {G: 4}
    assert got["queues"]["team-a"]["usage"] == {G: 5}
    assert got["queues"]["team-b"]["fair_share"] == {G: 7}
    assert got["cohorts"] == {}
    assert (got["settled"], got["violations"]) == (True, [])
    assert list(got["workloads"]["wf2"]["tasks"]) == ["wf2-0", "wf2-1", "wf2-2", "wf2-3"]
    assert got["workloads"]["wf3"]["tasks"] == {"wf3-0": {"state": "running", "node": "n1"}}
    assert set(got["steps"][0]) == {"pass", "action", "workload", "tasks", "for", "message"}


def test_documented_examples():
    def states(name):
        got = answer((EXAMPLES / name).read_text())
        return {key: work["state"] for key, work in got["workloads"].items()}, got

    order, got = states("queue-order.yaml")
    assert sorted(order, key=lambda key: got["workloads"][key]["position"] or 0) == [
        "wf1", "wf2", "wf5", "wf4", "wf6", "wf3",
    ]  # fmt: skip
    preempted, got = states("preemption.yaml")
    assert preempted == {"wf1": "preempted", "wf2": "running", "wf3": "pending", "wf4": "pending", "wf5": "running"}
    assert [got["workloads"][key]["position"] for key in ("wf1", "wf3", "wf4")] == [1, 2, 3]
    reclaimed, got = states("borrowing-and-reclaim.yaml")
    assert [key for key, state in reclaimed.items() if state == "preempted"] == ["wf3"]
    assert [(step["action"], step["workload"], step["for"]) for step in got["steps"]] == [
        ("reclaim", "wf3", "wf5"),
        ("start", "wf5", None),
    ]
    saved, got = states("checkpoints.yaml")
    assert saved == {"saves": "preempted", "plain": "running", "urgent": "running"}
    _none, got = states("cohorts.yaml")
    assert {name: queue["available"][G] for name, queue in got["queues"].items()} == {
        "serve": 10, "batch": 7, "train": 13, "labs": 2,
    }  # fmt: skip
    assert {name: cohort["t"][G] for name, cohort in got["cohorts"].items()} == {"corp": 11, "prod": 2, "research": 7}
    assert got["queues"]["serve"]["borrowed"] == {G: 8}
    assert got["queues"]["serve"]["fair_share"] is None
    _none, got = states("flavors.yaml")
    works = got["workloads"]
    assert {name: work["choice"] for name, work in works.items()} == {
        "train": 1, "tune": 2, "filler": 2, "either": None, "large": None,
    }  # fmt: skip
    assert works["either"]["choices"] == ["h100", "a100"]
    assert works["either"]["reason"]["missing"] == {"a100/gpu": 2}
    assert [line.split(":")[0] for line in works["either"]["unblock"]] == ["a100", "h100, both of these"]
    assert works["either"]["unblock_needs_all"] is False
    assert "a100: it asks for 12 a100 GPUs, more than" in works["large"]["reason"]["message"]
    assert [(step["workload"], step["choice"]) for step in got["steps"]] == [("train", 1), ("tune", 2), ("filler", 2)]


def test_every_example_is_documented_and_answered():
    files = sorted(EXAMPLES.iterdir())
    assert len(files) == 6
    for file in files:
        assert file.read_text().startswith("# ")
        assert f"osmo simulate docs/scenarios/{file.name}" in file.read_text()
        assert answer(file.read_text())["violations"] == []


def test_amounts_are_exact_in_both_forms():
    got = answer(
        """
        capacity: {gpu: 1.5, spot/gpu: 2, default/cpu: 1000}
        queues:
          - {name: a, quota: {gpu: 0.1, cpu: 250, spot/gpu: -1}}
          - {name: b, quota: 0.2, limit: {a/b/c: 3}}
        usage: {a: 0.3, b: {cpu: 1}}
        """
    )
    a, b = got["queues"]["a"], got["queues"]["b"]
    assert a["subtree_quota"] == {"a/b/c": 0, "default/cpu": 250, G: 0.1, "spot/gpu": "unlimited"}
    assert a["t"][G] == -0.2
    assert a["borrowed"][G] == 0.2
    assert b["subtree_quota"] == {"a/b/c": 0, "default/cpu": 0, G: 0.2, "spot/gpu": 0}
    assert json.loads(json.dumps(got)) == got


def test_tasks_are_named_and_numbered_through_the_workload():
    scenario = parse_scenario_text(
        """
        queues: [{name: q}]
        workloads:
          - {name: w, queue: q, tasks: [{count: 2, gpus: 1}, {name: head, gpus: 2}, {gpus: 1}, {name: x, count: 2}]}
        """
    )
    assert [task.name for task in scenario.facts.gangs[0].tasks] == ["w-0", "w-1", "head", "w-3", "x-0", "x-1"]


def test_priorities_and_preemptibility():
    scenario = parse_scenario_text(
        """
        queues: [{name: q}]
        workloads:
          - {name: a, queue: q, priority: HIGH, tasks: [{}]}
          - {name: b, queue: q, tasks: [{}]}
          - {name: c, queue: q, priority: LOW, tasks: [{}]}
          - {name: d, queue: q, priority: 99, tasks: [{}]}
          - {name: e, queue: q, priority: 125, preemptible: true, tasks: [{}]}
          - {name: f, queue: q, priority: LOW, preemptible: false, submitted: -1.5, tasks: [{}]}
        """
    )
    assert [(g.priority, g.preemptible) for g in scenario.facts.gangs] == [
        (125, False), (100, False), (50, True), (99, True), (125, True), (50, False),
    ]  # fmt: skip
    assert [g.submitted for g in scenario.facts.gangs][:3] == [1, 2, 3]


def test_null_is_the_same_as_leaving_the_key_out():
    bare = "queues: [{name: q}]\nworkloads: [{name: w, queue: q, tasks: [{gpus: 1}]}]"
    full = """
    nodes: null
    capacity: null
    cohorts: null
    usage: null
    demand: null
    changes: null
    queues: [{name: q, parent: null, quota: null, limit: null, borrowing_limit: null, lending_limit: null, weight: null,
              priority: null, created: null}]
    workloads: [{name: w, queue: q, priority: null, preemptible: null, submitted: null, state: null, gang: null,
                 tasks: [{name: null, count: null, gpus: 1, resources: null, state: null, node: null,
                          sub_group: null}]}]
    """
    assert answer(full) == answer(bare)


def test_json_is_yaml_too():
    text = json.dumps({"queues": [{"name": "q", "quota": 0.1}], "usage": {"q": 1e1}})
    assert answer(text)["queues"]["q"]["t"] == {G: -9.9}


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        ("{set: {name: a, quota: 9}}", {"a": (9, 12), "b": (1, 12)}),
        ("{set: {name: a, quota: null}}", {"a": (0, 3), "b": (1, 3)}),
        ("{set: {name: a, parent: null}}", {"a": (4, 4), "b": (1, 3)}),
        ("{set: {name: org, quota: 0}}", {"a": (4, 5), "b": (1, 5)}),
        ("{set: {name: b, borrowing_limit: 1}}", {"a": (4, 7), "b": (1, 2)}),
        ("{remove: org}", {"a": (4, 4), "b": (1, 1)}),
        ("{remove: b}", {"a": (4, 6)}),
    ],
)
def test_changes(change, numbers):
    got = answer(
        f"""
        cohorts: [{{name: org, quota: 2}}]
        queues: [{{name: a, parent: org, quota: 4}}, {{name: b, parent: org, quota: 1}}]
        changes: [{change}]
        """
    )
    found = {name: (q["subtree_quota"][G], q["potential_available"][G]) for name, q in got["queues"].items()}
    assert found == numbers


def test_a_submitted_workload_is_the_youngest_and_work_of_a_removed_queue_waits():
    got = answer(
        """
        nodes: [{name: n, gpus: 1}]
        queues: [{name: a}, {name: b}]
        workloads: [{name: w1, queue: a, priority: LOW, tasks: [{gpus: 1}]}, {name: w2, queue: b, tasks: [{gpus: 1}]}]
        changes:
          - {submit: {name: w3, queue: a, priority: LOW, tasks: [{gpus: 1}]}}
          - {remove: b}
        """
    )
    assert got["workloads"]["w1"]["state"] == "running"
    assert got["workloads"]["w2"]["reason"]["code"] == "no_such_queue"
    assert [got["workloads"][name]["position"] for name in ("w3", "w2")] == [1, 2]


@pytest.mark.parametrize(
    ("text", "path", "code"),
    [
        ("queues: [{name: t, quota: 3}, {name: a, parent: t, quota: 4}]", "queues[0].quota", "children_above_parent"),
        ("queues: [{name: t, lending_limit: 3}]", "queues[0].lending_limit", "limit_without_parent"),
        ("cohorts: [{name: c, borrowing_limit: 3}]", "cohorts[0].borrowing_limit", "limit_without_parent"),
        ("cohorts: [{name: c}]\nqueues: [{name: q, parent: c, quota: 1}]\nusage: {q: 3}", "cohorts[0]", "debt"),
        ("queues: [{name: q, limit: 1}]\nusage: {q: 3}", "queues[0]", "debt"),
        ("queues: [{name: q}]\nworkloads: [{name: w, queue: q, tasks: [{gpus: 1}]}]", "workloads[0]", "never_fits"),
        (
            "queues: [{name: q}]\nworkloads: [{name: w, queue: q, gang: {min_member: 0}, tasks: [{gpus: 1}]}]",
            "workloads[0].gang.min_member",
            "min_member_not_positive",
        ),
        (
            OVERFULL,
            "nodes",
            "node_overfull",
        ),
        ("queues: [{name: t}, {name: a, parent: t}]\nusage: {t: 1}", "usage.t", "queue_has_children"),
    ],
)
def test_broken_rules_are_reported_and_the_run_goes_on(text, path, code):
    found = answer(text)["violations"]
    assert (path, code) in [(v["path"], v["code"]) for v in found]


def test_a_waiting_workload_names_node_limit_and_amounts():
    got = answer(
        """
        nodes: [{name: n, gpus: 8}]
        cohorts: [{name: prod, quota: 4}]
        queues: [{name: q, parent: prod, quota: 2, borrowing_limit: 1}]
        usage: {q: 1}
        workloads: [{name: w, queue: q, priority: LOW, tasks: [{gpus: 3}]}]
        """
    )
    assert got["workloads"]["w"]["reason"] == {
        "code": "over_borrowing_limit",
        "message": "It asks for 3 GPUs; the borrowing limit of q (1) leaves 2 GPUs: 1 GPU missing.",
        "queue": "q",
        "limit": "borrowing_limit",
        "requested": {G: 3},
        "free": {G: 2},
        "missing": {G: 1},
    }
    assert got["workloads"]["w"]["unblock"] == ["Raise the borrowing limit of q by 1 GPU, or end as much work in q."]


def test_the_preview_of_a_change_equals_its_result():
    base = """
    nodes: [{name: n, gpus: 4}]
    queues: [{name: a, quota: 2}, {name: b, quota: 2}]
    workloads:
      - {name: l, queue: a, priority: LOW, state: running, tasks: [{gpus: 2, node: n}]}
      - {name: k, queue: a, priority: LOW, state: running, tasks: [{gpus: 2, node: n}]}
      - {name: w, queue: b, priority: LOW, tasks: [{gpus: 4}]}
    """
    preview = answer(base + "changes: [{set: {name: b, quota: 4}}, {set: {name: a, quota: 0}}]")
    applied = answer(base.replace("quota: 2}, {", "quota: 0}, {").replace("{name: b, quota: 2}", "{name: b, quota: 4}"))
    assert preview == applied
    assert {step["action"] for step in preview["steps"]} == {"reclaim", "start"}


def test_a_large_scenario_is_read_and_settled():
    tasks = ", ".join(f"{{name: w{i}, queue: q{i % 50}, priority: LOW, tasks: [{{gpus: 1}}]}}" for i in range(2000))
    queues = ", ".join(f"{{name: q{i}}}" for i in range(50))
    scenario = parse_scenario_text(f"nodes: [{{name: n, gpus: 100}}]\nqueues: [{queues}]\nworkloads: [{tasks}]")
    world = run_cycle(scenario.facts).world
    assert isinstance(world, World)
    assert sum(gang.is_running for gang in world.gangs) == 100


@pytest.mark.parametrize(
    ("key", "quota", "said"),
    [
        ("quota", 4, "the quota of q (4) is exceeded by 2 GPUs: 3 GPUs missing."),
        ("quota", 6, "the quota of q (6) leaves 0 GPUs: 1 GPU missing."),
        ("limit", 5, "the limit of q (5) is exceeded by 1 GPU: 2 GPUs missing."),
    ],
)
def test_the_numbers_of_a_reason_add_up_where_more_is_in_use_than_allowed(key: str, quota: int, said: str) -> None:
    text = f"""
nodes: [{{name: n1, gpus: 8}}]
queues: [{{name: q, quota: 8}}]
workloads:
- {{name: h, queue: q, state: running, tasks: [{{gpus: 6, node: n1}}]}}
- {{name: w, queue: q, tasks: [{{gpus: 1}}]}}
changes: [{{set: {{name: q, {key}: {quota}}}}}]
"""
    reason = answer(text)["workloads"]["w"]["reason"]
    assert reason is not None
    assert reason["message"] == f"It asks for 1 GPU; {said}"
