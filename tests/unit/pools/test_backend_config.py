"""The JSON of a backend, and the spellings of sizes."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.configuration.backend_config import NodeSpec, parse_backend
from pools.domain.values.byte_sizes import exact_size_text, size_text


def node(**keys: Any) -> dict[str, Any]:
    return {"nodes": [{"name": "n1", "gpus": 8, **keys}]}


def test_absent_keys_stay_unchanged() -> None:
    spec, faults = parse_backend("sim", {})
    assert not faults
    assert (spec.namespace, spec.nodes, spec.auto_end, spec.offline) == (None, None, None, None)


def test_a_node_needs_a_name_and_gpus() -> None:
    spec, faults = parse_backend("sim", node())
    assert not faults
    assert spec.nodes == (NodeSpec("n1", 8, 128, 2**40, 4 * 2**40, "default"),)


def test_sizes_of_a_node() -> None:
    spec, faults = parse_backend("sim", node(cpu=4, memory="1.5Gi", storage=1000, platform="a100"))
    assert not faults
    assert spec.nodes == (NodeSpec("n1", 8, 4, 3 * 2**29, 1000, "a100"),)


@pytest.mark.parametrize(
    ("name", "body", "path", "code"),
    [
        ("Sim", {}, "name", "bad_name"),
        ("a" * 64, {}, "name", "bad_name"),
        ("sim", {"colour": 1}, "colour", "unknown_key"),
        ("sim", {"type": "slurm"}, "type", "bad_value"),
        ("sim", {"namespace": "No"}, "namespace", "bad_value"),
        ("sim", {"namespace": ""}, "namespace", "bad_value"),
        ("sim", {"auto_end": "true"}, "auto_end", "bad_value"),
        ("sim", {"offline": 0}, "offline", "bad_value"),
        ("sim", {"nodes": {}}, "nodes", "bad_value"),
        ("sim", {"nodes": [1]}, "nodes", "bad_value"),
        ("sim", {"nodes": [{"gpus": 8}]}, "nodes[0].name", "missing"),
        ("sim", {"nodes": [{"name": "n1"}]}, "nodes[0].gpus", "missing"),
        ("sim", node(name="N 1"), "nodes[0].name", "bad_name"),
        ("sim", node(gpus=-1), "nodes[0].gpus", "bad_value"),
        ("sim", node(gpus=10**9), "nodes[0].gpus", "too_large"),
        ("sim", node(gpus=1.5), "nodes[0].gpus", "bad_value"),
        ("sim", node(memory="lots"), "nodes[0].memory", "bad_value"),
        ("sim", node(storage=True), "nodes[0].storage", "bad_value"),
        ("sim", node(platform="a b"), "nodes[0].platform", "bad_name"),
        ("sim", node(gpu=8), "nodes[0].gpu", "unknown_key"),
        ("sim", {"nodes": [{"name": "n", "gpus": 1}, {"name": "n", "gpus": 2}]}, "nodes[1].name", "duplicate_name"),
    ],
)
def test_each_fault_has_its_path(name: str, body: dict[str, Any], path: str, code: str) -> None:
    _, faults = parse_backend(name, body)
    assert [(fault.path, fault.code) for fault in faults] == [(path, code)]


@pytest.mark.parametrize(
    ("size", "down", "up", "exact"),
    [
        (0, "0", "0", "0"),
        (1023, "1023", "1023", "1023"),
        (1025, "1Ki", "2Ki", "1025"),
        (2**40, "1024Gi", "1024Gi", "1Ti"),
        (2**30 + 1, "1Gi", "2Gi", str(2**30 + 1)),
        (3 * 2**29, "1Gi", "2Gi", "1536Mi"),
        (5 * 2**20, "5Mi", "5Mi", "5Mi"),
    ],
)
def test_usage_is_rounded_up_and_capacity_down(size: int, down: str, up: str, exact: str) -> None:
    assert size_text(size, round_up=False) == down
    assert size_text(size, round_up=True) == up
    assert exact_size_text(size) == exact


@pytest.mark.parametrize("present", [None, "simulated"])
def test_a_key_of_clusters_on_kubernetes_says_so_elsewhere(present: str | None) -> None:
    _spec, faults = parse_backend("new", {"mode": "observe", "mod": "observe"}, present_kind=present)
    assert [(fault.path, fault.code) for fault in faults] == [("mod", "unknown_key"), ("mode", "unknown_key")]
    assert "of the type kubernetes; this one is simulated" in faults[1].message
