"""Work that no node could ever hold is accepted, and the answer warns by the rule of `never_fits` in the queue."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.pools import PatchPool
from pools.models import Backend, Node, Pool
from scheduling.selectors.cluster import node_fit
from tests.support.world import apply_change, workflow_file


@pytest.fixture
def two_nodes(alice: Any) -> Backend:
    """The cluster of `team` has two nodes of 8 GPUs and 64 cores, a1 and a2, and one of another platform."""
    backend = Pool.objects.get(name="team").backend
    assert backend is not None
    nodes = [{"name": name, "gpus": 8, "cpu": 64} for name in ("a1", "a2")]
    nodes.append({"name": "big", "gpus": 16, "cpu": 64, "platform": "huge"})
    apply_change(PutBackend(name=backend.name, body={"nodes": nodes}))
    return backend


def tasks(*resources: str, fields: str = "") -> str:
    """A group whose tasks have these resources."""
    lines = ["workflow:", "  name: w", "  groups:", "  - name: gang", "    tasks:"]
    for number, _ in enumerate(resources):
        lead = ", lead: true" if number == 0 else ""
        lines.append(f"    - {{name: t{number}, image: i, command: [sh], resource: r{number}{lead}}}")
    lines.append("  resources:")
    lines += [f"    r{number}: {{{each}{fields}}}" for number, each in enumerate(resources)]
    return "\n".join(lines) + "\n"


FITTING = [
    workflow_file(gpus=8),
    tasks("gpu: 8", "gpu: 8"),
    tasks("gpu: 8", "gpu: 4", "gpu: 4"),
    tasks("gpu: 8, cpu: 64", "cpu: 32", "cpu: 32"),
    tasks("gpu: 8", fields=", nodesExcluded: [a1]"),
]
NEVER = [
    (
        workflow_file(gpus=9),
        "by its platform default it may not use big, where it would fit. The largest node that it may use has 8 GPUs.",
    ),
    (tasks("gpu: 1, cpu: 500"), "even if they were empty. The largest node that it may use has 64 cores."),
    (tasks("gpu: 5", "gpu: 5", "gpu: 5"), "The nodes that it may use hold 2 of its 3 tasks."),
    (
        tasks("gpu: 1", fields=", nodesExcluded: [a1, a2]"),
        (
            "by its platform default it may not use big and by its nodesExcluded it may not use a1 and a2; without "
            "one of these alone it would fit. It may use no node."
        ),
    ),
    (tasks("gpu: 9", fields=", nodesExcluded: [big]"), "only without all 2 of these it would fit."),
    (tasks("gpu: 8", "gpu: 8", fields=", nodesExcluded: [a1]"), "can never start on the nodes"),
]


def test_work_that_fits_has_no_warning(alice: Any, two_nodes: Backend) -> None:
    for file in FITTING:
        for query in ("validation_only=True", "dry_run=True", ""):
            assert alice.submit("team", file, query=query)["warnings"] == [], (file, query)


@pytest.mark.parametrize(("file", "words"), NEVER)
def test_every_answer_warns_and_the_queue_says_the_same(
    alice: Any, two_nodes: Backend, reconcile_pool: Any, file: str, words: str
) -> None:
    for query in ("validation_only=True", "dry_run=True", ""):
        (warning,) = alice.submit("team", file, query=query)["warnings"]
        assert alice.status == 200
        assert words in warning, query
    reconcile_pool()
    gangs = alice.get("/api/queue")["entries"]
    assert [gang["reason"]["code"] for gang in gangs] == ["never_fits"]
    assert gangs[0]["reason"]["message"] in warning


def test_full_nodes_and_unknown_nodes_warn_of_nothing(alice: Any, two_nodes: Backend, reconcile_pool: Any) -> None:
    alice.submit("team", tasks("gpu: 8", "gpu: 8"))
    reconcile_pool()
    assert alice.submit("team", workflow_file(gpus=8))["warnings"] == [], "it fits when other work has ended"
    Node.objects.all().delete()
    assert alice.submit("team", workflow_file(gpus=9))["warnings"] == []


def test_a_name_in_nodes_excluded_of_no_node_is_told(alice: Any, two_nodes: Backend) -> None:
    file = tasks("gpu: 1", "gpu: 1", fields=", nodesExcluded: [a1, bigg]")
    sentence = (
        "nodesExcluded of t0, t1 has 1 name of no node that cluster sim has now: nothing is excluded by that."
        ' Did you mean "big"?'
    )
    for query in ("validation_only=True", "dry_run=True", ""):
        assert alice.submit("team", file, query=query)["warnings"] == [sentence], query
    Node.objects.all().delete()
    assert alice.submit("team", file)["warnings"] == []


def test_a_label_of_ours_that_nothing_reads_is_told(alice: Any, two_nodes: Backend) -> None:
    file = workflow_file(gpus=1)
    answer = alice.submit("team", file, query="validation_only=True&label=osmo/simulated-runtim=5m&label=mine=5m")
    (warning,) = answer["warnings"]
    assert warning.startswith('The label "osmo/simulated-runtim" is read by nothing')
    assert warning.endswith('Did you mean "osmo/simulated-runtime"?')
    assert alice.submit("team", file, query="validation_only=True&label=osmo/simulated-runtime=5m")["warnings"] == []
    Backend.objects.update(kind="kubernetes")
    (warning,) = alice.submit("team", file, query="validation_only=True&label=osmo/simulated-runtime=5m")["warnings"]
    assert warning.startswith("The label osmo/simulated-runtime has no effect on cluster sim")


def test_several_files_at_once_have_their_own_warnings(alice: Any, two_nodes: Backend) -> None:
    files = [{"file": workflow_file("fits", gpus=8)}, {"file": workflow_file("never", gpus=9)}]
    fits, never = alice.post("/api/pool/team/workflows", {"workflows": files})["workflows"]
    assert fits["warnings"] == []
    assert "can never start" in never["warnings"][0]


def _name_flavors(backend: Backend, *of_pool: str) -> None:
    """The nodes are an H100 and an A100 of 8 GPUs; the pool has a quota of these flavors."""
    kinds = ("h100", "a100")
    nodes = [{"name": name, "gpus": 8, "labels": {"gpu": name}} for name in kinds]
    flavors = [{"name": name, "node_labels": {"gpu": name}} for name in kinds]
    apply_change(PutBackend(name=backend.name, body={"nodes": nodes, "flavors": flavors}))
    if of_pool:
        quotas = {name: {"guarantee": 50} for name in of_pool}
        apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))


def test_work_of_a_pool_without_flavors_has_no_nodes_of_flavors(alice: Any, two_nodes: Backend) -> None:
    _name_flavors(two_nodes)
    (warning,) = alice.submit("team", workflow_file(gpus=1), query="dry_run=True")["warnings"]
    assert "can never start on the nodes" in warning


def test_a_gang_fits_on_nodes_of_one_flavor(alice: Any, two_nodes: Backend) -> None:
    _name_flavors(two_nodes, "h100", "a100")
    for resources, warns in (
        (["gpu: 8"], False),
        (["gpu: 8", "gpu: 8"], True),
        (["gpu: 4", "gpu: 4"], False),
        (["gpu: 8, gpu_flavors: [h100]", "gpu: 8, gpu_flavors: [a100]"], False),
        (["gpu: 8, gpu_flavors: [h100]", "gpu: 8, gpu_flavors: [h100]"], True),
    ):
        answer = alice.submit("team", tasks(*resources), query="dry_run=True")
        assert [("can never start" in text) for text in answer["warnings"]] == [True] * warns, resources


def test_work_that_surely_fits_asks_for_no_nodes(
    alice: Any, two_nodes: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    _name_flavors(two_nodes, "h100", "a100")
    monkeypatch.setattr(node_fit, "_refusal", None)
    for flavors in ("", ", gpu_flavors: [a100]"):
        assert alice.submit("team", tasks("gpu: 8", fields=flavors), query="dry_run=True")["warnings"] == []
