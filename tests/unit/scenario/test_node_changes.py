"""Changes of nodes in a what-if: what is lost at once, what starts again, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from osmo_admin.cli.local.offline_text import simulation_text
from scheduling.scenario import ScenarioError, answer

RACKS = """
nodes:
  - {name: n1, gpus: 8, labels: {rack: r1}}
  - {name: n2, gpus: 8, labels: {rack: r1}}
  - {name: n3, gpus: 8, labels: {rack: r2}}
queues:
  - {name: vision, quota: 16}
  - {name: speech, quota: 8}
workloads:
  - {name: train, queue: vision, state: running, tasks: [{gpus: 8, node: n1}]}
  - {name: low, queue: vision, priority: LOW, state: running, tasks: [{gpus: 4, node: n3}]}
  - {name: waits, queue: speech, priority: LOW, tasks: [{gpus: 8}]}
"""


def loss_of(changes: str, text: str = RACKS) -> Any:
    return answer(f"{text}changes: {changes}\n")["loss"]


def test_a_node_is_gone() -> None:
    """Its gang starts on another node at once, in place of the work that would have started there."""
    loss = loss_of("[{remove_node: n1}]")
    assert (loss["nodes"], loss["gpus"], loss["resized"]) == (["n1"], 8, [])
    (lost,) = loss["workloads"]
    assert (lost["workload"], lost["gpus"], lost["whole"], lost["restarts"]) == ("train", 8, True, True)
    assert (lost["state"], lost["nodes"], lost["position"]) == ("running", ["n2"], None)
    assert [(each["workload"], each["state"]) for each in loss["displaced"]] == [("waits", "pending")]
    assert loss["queues"] == [{"queue": "speech", "gangs_before": 0, "gangs": 1, "gpus_before": 0, "gpus": 8}]
    assert [(each["queue"], each["held"], each["missing"]) for each in loss["guarantees"]] == [
        ("vision", 11, 5),
        ("speech", 5, 3),
    ]


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        ("{remove_nodes: [n1, n3]}", ["n1", "n3"]),
        ("{remove_nodes: {label: rack=r1}}", ["n1", "n2"]),
        ("{remove_nodes: {label: 'rack=(r1|r2)'}}", ["n1", "n2", "n3"]),
        ("{remove_nodes: {name: 'n*'}}", ["n1", "n2", "n3"]),
        ("{remove_nodes: {name: '(n2|n3)'}}", ["n2", "n3"]),
    ],
)
def test_several_nodes_are_gone(change: str, nodes: list[str]) -> None:
    assert loss_of(f"[{change}]")["nodes"] == nodes


def test_a_smaller_node_takes_nothing_from_its_work() -> None:
    loss = loss_of("[{set_node: {name: n1, gpus: 7}}]")
    assert loss["resized"] == [{"node": "n1", "gpus_before": 8, "gpus": 7, "held": 8, "free": 0}]
    assert (loss["workloads"], loss["nodes"], loss["displaced"]) == ([], [], [])
    assert [(each["queue"], each["missing"]) for each in loss["guarantees"]] == [("vision", 1)]


def test_the_largest_weight_comes_first_where_the_policy_says_so() -> None:
    text = RACKS.replace("quota: 8}", "quota: 8, weight: 2}") + "policy: {degraded: ordered}\n"
    assert [(each["queue"], each["missing"]) for each in loss_of("[{remove_node: n1}]", text)["guarantees"]] == [
        ("vision", 8)
    ]


def test_work_that_does_not_restart_has_ended() -> None:
    text = RACKS.replace("name: train,", "name: train, restarts: false,")
    (lost,) = loss_of("[{remove_node: n1}]", text)["workloads"]
    assert (lost["restarts"], lost["state"], lost["nodes"]) == (False, "finished", [])


@pytest.mark.parametrize(("minimum", "kept"), [(1, True), (2, False)])
def test_an_elastic_gang_goes_on_with_its_minimum(minimum: int, kept: bool) -> None:
    text = f"""
nodes: [{{name: n1, gpus: 4}}, {{name: n2, gpus: 4}}]
queues: [{{name: q, quota: 8}}]
workloads:
  - name: serve
    queue: q
    state: running
    gang: {{min_member: {minimum}}}
    tasks: [{{name: a, gpus: 4, node: n1}}, {{name: b, gpus: 4, node: n2}}]
"""
    (lost,) = loss_of("[{remove_node: n1}]", text)["workloads"]
    assert (lost["gpus"], lost["whole"]) == ((4, False) if kept else (8, True))
    assert (lost["state"], lost["nodes"]) == (("running", ["n2"]) if kept else ("pending", []))


def test_a_gang_below_its_minimum_releases_its_other_nodes() -> None:
    text = """
nodes: [{name: n1, gpus: 4}, {name: n2, gpus: 4}]
queues: [{name: q, quota: 8}, {name: p, quota: 0}]
workloads:
  - {name: pair, queue: q, state: running, tasks: [{name: a, gpus: 4, node: n1}, {name: b, gpus: 4, node: n2}]}
  - {name: small, queue: p, priority: LOW, tasks: [{gpus: 4}]}
"""
    got = answer(f"{text}changes: [{{remove_node: n1}}]\n")
    assert (got["workloads"]["pair"]["state"], got["workloads"]["small"]["state"]) == ("pending", "running")
    (lost,) = got["loss"]["workloads"]
    assert (lost["gpus"], lost["position"]) == (8, 1)


def test_without_a_change_of_nodes_nothing_is_said_of_a_loss() -> None:
    assert "loss" not in answer(f"{RACKS}changes: [{{finish: train}}]\n")


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        ("{remove_node: gone}", "changes[0].remove_node", "unknown_name"),
        ("{remove_node: 7}", "changes[0].remove_node", "bad_value"),
        ("{remove_nodes: [n1, gone]}", "changes[0].remove_nodes[1]", "unknown_name"),
        ("{remove_nodes: [1]}", "changes[0].remove_nodes[0]", "bad_value"),
        ("{remove_nodes: n1}", "changes[0].remove_nodes", "bad_value"),
        ("{remove_nodes: {rack: r1}}", "changes[0].remove_nodes.rack", "unknown_key"),
        ("{remove_nodes: {label: rack}}", "changes[0].remove_nodes.label", "bad_value"),
        ("{remove_nodes: {label: rack=r9}}", "changes[0].remove_nodes.label", "unknown_name"),
        ("{remove_nodes: {name: '('}}", "changes[0].remove_nodes.name", "bad_value"),
        ("{remove_nodes: {name: n1, label: rack=r1}}", "changes[0].remove_nodes", "bad_value"),
        ("{remove_backend: dgx}", "changes[0].remove_backend", "unknown_name"),
        ("{set_node: {name: gone, gpus: 1}}", "changes[0].set_node.name", "unknown_name"),
        ("{set_node: {name: n1, gpus: -1}}", "changes[0].set_node.gpus", "bad_value"),
        ("{set_node: {name: n1, colour: red}}", "changes[0].set_node.colour", "unknown_key"),
        ("{remove_node: n1, finish: train}", "changes[0]", "bad_value"),
    ],
)
def test_an_unreadable_change(change: str, path: str, code: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        loss_of(f"[{change}]")
    assert (path, code) in [(each.path, str(each.code)) for each in refused.value.details]


def test_the_client_says_it_in_a_table() -> None:
    text = simulation_text(answer(f"{RACKS}changes: [{{remove_node: n1}}]\n"))
    loss = text.partition("WITHOUT 1 NODE")[2].partition("STEPS")[0]
    assert "train" in loss and "n2" in loss
    assert "vision: 11 of 16 GPUs, 5 missing" in loss
    assert "speech: 1 gang waits for 8 GPUs, 0 for 0 before" in loss
