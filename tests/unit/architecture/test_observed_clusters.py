"""What reads an observed cluster has no call that writes, and nothing of it makes one."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

from scheduling.kube import rbac
from scheduling.kube.connection.client import KubernetesCluster, KubernetesReader
from scheduling.kube.connection.port import Cluster, ClusterReader

ROOT = Path(__file__).resolve().parents[3]
OBSERVING = ROOT / "scheduling" / "services" / "kubernetes" / "observing"
WRITES = {"apply", "create", "merge", "delete"}
WRITERS = {"Cluster", "KubernetesCluster", "fence", "EventWriter", "ClusterLease", "QueueWriter"}
"""Names of what writes to a cluster, or makes such a connection."""


def test_a_reader_has_no_call_that_writes() -> None:
    for reader in (ClusterReader, KubernetesReader):
        assert not {name for name in dir(reader) if name in WRITES or "write" in name.lower()}
    assert set(dir(Cluster)) >= WRITES
    assert set(dir(KubernetesCluster)) - set(dir(KubernetesReader)) == WRITES


def test_a_reader_sends_get_alone() -> None:
    assert KubernetesReader._methods == {"GET"}


def test_the_rights_to_observe_are_list_and_watch() -> None:
    manifests = list(yaml.safe_load_all((ROOT / "deploy" / "observer.yaml").read_text()))
    assert manifests == rbac.observer_manifests("osmo")
    rules = [rule for item in manifests for rule in item.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}


def test_what_observes_names_no_writer() -> None:
    modules = sorted(OBSERVING.rglob("*.py"))
    assert modules
    for module in modules:
        tree = ast.parse(module.read_text())
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        named |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not named & WRITERS, module
        assert "connect" not in called, module
        assert not _cluster_calls(tree) & WRITES, module


def _cluster_calls(tree: ast.AST) -> set[str]:
    """The names of methods that are called on something named cluster or reader."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and any(word in ast.dump(node.value) for word in ("cluster", "reader"))
    }
