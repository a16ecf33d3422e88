"""What-if on live facts: changes applied to them, and facts redacted for callers who may not see all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, NodeFacts, QueueFacts, TaskFacts, TaskState
from scheduling.domain.engine.moved_nodes import nodes_with_work
from scheduling.scenario import ScenarioError
from scheduling.scenario.answer import answer_scenario
from scheduling.scenario.live_state import LiveNames, build_live_scenario
from scheduling.scenario.redact import redact_facts
from tests.unit.engine.sample_clusters import GPU, cluster_facts, facts, gang, partly_scheduled, queue

LIVE_NAMES = LiveNames(
    queue_aliases={"team": "q-team", "team--a": "q-a"}, submission_aliases={"team": "q-shared", "team--a": "q-a"}
)
LIVE = facts(
    [queue("q-team", None), queue("q-shared", 2, "q-team"), queue("q-a", 4, "q-team")],
    [
        gang("low-1", "q-a", gpus=2, count=2, on="n", at=10**18),
        gang("chain-1/first", "q-a", 100, gpus=1, on="n", at=5),
        gang("chain-1/second", "q-a", 100, gpus=1, on="n", at=5),
        gang("waits-1", "q-a", gpus=4, at=7),
    ],
    {"n": 6},
)


def run_live(*changes, live=True, **more):
    return build_live_scenario(LIVE, {"live": live, "changes": list(changes), **more}, LIVE_NAMES)


def states(scenario):
    return {name: work["state"] for name, work in answer_scenario(scenario)["workloads"].items()}


def test_without_changes_the_answer_is_the_live_state():
    assert states(build_live_scenario(LIVE, {"live": True}, LiveNames())) == {
        "low-1": "running",
        "chain-1/first": "running",
        "chain-1/second": "running",
        "waits-1": "pending",
    }


def test_names_in_changes_are_those_of_the_pages():
    """`set` and `remove` mean the pool, `submit` its shared queue, `finish` all groups of a workflow."""
    changed = run_live({"set": {"name": "team--a", "quota": 0}}, {"finish": "chain-1"}, {"finish": ["low-1"]})
    after = states(changed)
    assert (after["chain-1/first"], after["chain-1/second"], after["low-1"]) == ("finished", "finished", "finished")
    assert after["waits-1"] == "running"
    assert {q.name: q.quota for q in changed.facts.queues}["q-a"] == {GPU: 0}
    new = run_live({"submit": {"name": "new", "queue": "team", "tasks": [{"gpus": 1}]}}, {"remove": "team"})
    placed = next(g for g in new.facts.gangs if g.name == "new")
    assert placed.queue == "q-shared"
    assert placed.submitted > 10**18, "what is submitted in thought comes last"
    assert {q.parent for q in new.facts.queues} == {None}


@pytest.mark.parametrize("change", [{"quota": 2, "limit": 3}, {"quota": {"gpu": 2}, "limit": {"gpu": 3}}])
def test_a_change_of_gpus_leaves_the_other_resources(change):
    """A job that needs cores too never fitted under a changed quota of GPUs, because the quota of cores became 0."""
    cores = "default/cpu"
    before = QueueFacts("q", quota={GPU: 8, cores: 16}, limit={GPU: 9, cores: 20})
    question = {"live": True, "changes": [{"set": {"name": "q", **change}}]}
    (after,) = build_live_scenario(ClusterFacts((before,)), question, LiveNames()).facts.queues
    assert (after.quota, after.limit) == ({GPU: 2, cores: 16}, {GPU: 3, cores: 20})
    question = {"live": True, "changes": [{"set": {"name": "q", "limit": None}}]}
    (after,) = build_live_scenario(ClusterFacts((before,)), question, LiveNames()).facts.queues
    assert (after.quota, after.limit) == (before.quota, {})


@pytest.mark.parametrize("change", [{"finish": "old"}, {"remove_node": "a"}])
def test_gpus_of_a_relabelled_node_have_its_flavor_once_the_work_of_the_flavor_before_is_gone(change):
    def work(name, flavor, *on):
        state = TaskState.RUNNING if on else TaskState.PENDING
        tasks = (
            TaskFacts(f"t{n}", {f"{flavor}/gpu": 8}, state=state, node=node) for n, node in enumerate(on or [None])
        )
        return GangFacts(name, "q", tuple(tasks), 50)

    old = work("old", "a100", "a", "b")
    nodes = nodes_with_work([NodeFacts("a", {"a100/gpu": 8}), NodeFacts("b", {"h100/gpu": 8})], old.tasks)
    quota = {"a100/gpu": 16, "h100/gpu": 8}
    live = ClusterFacts((QueueFacts("q", quota=quota),), gangs=(old, work("new", "h100")), nodes=nodes)
    assert states(build_live_scenario(live, {"live": True}, LiveNames()))["new"] == "pending"
    after = build_live_scenario(live, {"live": True, "changes": [change]}, LiveNames())
    assert states(after)["new"] == "running"
    assert next(node.resources for node in after.facts.nodes if node.name == "b") == {"h100/gpu": 8}


def test_new_work_runs_on_the_nodes_of_its_pool():
    only = frozenset({"m"})
    live = ClusterFacts((QueueFacts("q", quota={GPU: 8}),), nodes=(NodeFacts("a", {GPU: 8}), NodeFacts("m", {GPU: 8})))
    question = {"live": True, "changes": [{"submit": {"name": "w", "queue": "q", "tasks": [{"gpus": 1}]}}]}
    got = answer_scenario(build_live_scenario(live, question, LiveNames(allowed_nodes={"q": only})))
    assert got["workloads"]["w"]["tasks"] == {"w-0": {"state": "running", "node": "m"}}


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        ({"finish": "gone-1"}, "changes[0].finish", "unknown_name"),
        ({"finish": ["low-1", 3]}, "changes[0].finish[1]", "bad_value"),
        ({"set": {"name": "other", "quota": 1}}, "changes[0].set.name", "unknown_name"),
        ({"set": {"name": "team", "colour": 1}}, "changes[0].set.colour", "unknown_key"),
        ({"set": {"name": "team", "parent": "team--a"}}, "changes[0].set.parent", "cycle"),
        ({"submit": {"name": "low-1", "queue": "q-a", "tasks": [{}]}}, "changes[0].submit.name", "duplicate_name"),
        ({"submit": {"name": "w", "queue": ["q"], "tasks": [{}]}}, "changes[0].submit.queue", "bad_value"),
        ({"submit": []}, "changes[0].submit", "bad_value"),
        ("finish", "changes[0]", "bad_value"),
    ],
)
def test_an_unreadable_change_is_reported_with_its_path(change, path, code):
    with pytest.raises(ScenarioError) as refused:
        run_live(change)
    assert (path, code) in [(fault.path, fault.code) for fault in refused.value.details]


def test_the_question_itself_is_read_strictly():
    for question, path in (
        ({"live": False}, "live"),
        ({"live": "yes"}, "live"),
        ({"live": True, "nodes": []}, "nodes"),
        ({"live": True, "changes": {}}, "changes"),
    ):
        with pytest.raises(ScenarioError) as refused:
            build_live_scenario(LIVE, question, LIVE_NAMES)
        assert path in [fault.path for fault in refused.value.details]


def test_a_redaction_leaves_no_hidden_name_in_the_answer():
    real = facts(
        [queue("secret", None, created=1), queue("secret--x", 2, "secret", created=2), queue("ours", 4, created=3)],
        [
            gang("hidden-1", "secret--x", gpus=4, on="n", at=1),
            gang("hidden-2", "secret--x", 100, gpus=2, at=2),
            gang("gone-1", "nowhere", gpus=1, at=3),
            gang("mine-1", "ours", 100, gpus=4, at=4),
        ],
        {"n": 4},
    )
    seen = redact_facts(real, queues={"ours"}, cohorts=(), gangs={"mine-1"})
    got = answer_scenario(build_live_scenario(seen, {"live": True}, LiveNames()))
    assert set(got["queues"]) == {"others:pool-1", "others:pool-1--1", "ours"}
    assert set(got["workloads"]) == {"others:work-1", "others:work-2", "others:work-3", "mine-1"}
    assert [(step["action"], step["workload"], step["for"]) for step in got["steps"]] == [
        ("reclaim", "others:work-1", "mine-1"),
        ("start", "mine-1", None),
    ]
    text = json.dumps(got)
    assert not any(name in text for name in ("secret", "hidden", "gone-1", "nowhere"))


@given(cluster_facts(), st.sets(st.sampled_from([f"g{i}" for i in range(14)])), st.sets(st.integers(0, 6)))
@settings(deadline=None)
def test_a_redaction_changes_no_outcome(cluster, running, seen):
    """Queues and work differ in age, as in an installation, so no tie is decided by names."""
    aged = tuple(
        GangFacts(g.name, g.queue, g.tasks, g.priority, g.preemptible, 100 * g.submitted + n, g.tree)
        for n, g in enumerate(cluster.gangs)
    )
    real = partly_scheduled(ClusterFacts(cluster.queues, cluster.cohorts, aged, cluster.nodes), running)
    redacted = redact_facts(
        real,
        queues={f"q{i}" for i in seen},
        cohorts={f"c{i}" for i in seen},
        gangs={f"g{i}" for i in seen},
    )
    bare, behind = run_cycle(real), run_cycle(redacted)
    names = dict(zip([g.name for g in real.gangs], [g.name for g in redacted.gangs], strict=True))
    assert [(step.action, names[step.gang]) for step in bare.steps] == [
        (step.action, step.gang) for step in behind.steps
    ]


def test_tasks_of_a_redacted_gang_are_numbered():
    real = ClusterFacts(
        (QueueFacts("q"),), gangs=(GangFacts("w", "q", (TaskFacts("train", {GPU: 1}), TaskFacts("eval", {GPU: 1}))),)
    )
    (hidden,) = redact_facts(real, queues=(), cohorts=(), gangs=()).gangs
    assert (hidden.name, [task.name for task in hidden.tasks]) == (
        "others:work-1",
        ["others:work-1-0", "others:work-1-1"],
    )


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ({"gpus": 4}, "a"),
        ({"resources": {"gpu": 4}}, "a"),
        ({"resources": {"h100/gpu": 4}}, None),
        ({"resources": {"default/gpu": 4}}, None),
        ({"gpus": 4, "state": "running", "node": "a"}, "a"),
    ],
    ids=["gpus", "resources", "another flavor", "the default one", "on a node"],
)
def test_gpus_of_new_work_are_those_of_each_flavor_of_the_pool(line: dict[str, Any], starts: str | None) -> None:
    """The node of H100 is full, the one of A100 is free."""
    nodes = (NodeFacts("h", {"h100/gpu": 4}), NodeFacts("a", {"a100/gpu": 4}))
    full = GangFacts("full", "q", (TaskFacts("t", {"h100/gpu": 4}, state=TaskState.RUNNING, node="h"),))
    live = ClusterFacts((QueueFacts("q", quota={"h100/gpu": 4, "a100/gpu": 4}),), gangs=(full,), nodes=nodes)
    question = {"live": True, "changes": [{"submit": {"name": "new", "queue": "q", "tasks": [{"name": "n", **line}]}}]}
    got = answer_scenario(build_live_scenario(live, question, LiveNames(flavors={"q": ("h100", "a100")})))
    assert got["workloads"]["new"]["tasks"]["n"]["node"] == starts
