"""What reads an observed cluster has no call that writes, and nothing of it makes one."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.client import KubernetesCluster, KubernetesReader
from scheduling.kube.connection.port import Cluster, ClusterReader
from scheduling.kube.informer import InformerTiming
from scheduling.services.kubernetes.observing.informers import ObservedInformers

ROOT = Path(__file__).resolve().parents[3]
OBSERVING = ROOT / "scheduling" / "services" / "kubernetes" / "observing"
RBAC = "rbac.authorization.k8s.io"
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


def test_the_rights_to_observe_are_list_and_watch_of_what_is_read() -> None:
    account, role, binding = yaml.safe_load_all((ROOT / "deploy" / "observer.yaml").read_text())
    informers = ObservedInformers(lambda: None, lambda: None, InformerTiming())
    read = {informer.kind for informer in informers._all}
    read |= {resource_kinds.DEVICE_LIST, resource_kinds.DEVICE_CLAIM}  # beside nodes, once for each reading of them
    allowed = [(group, plural) for rule in role["rules"] for group in rule["apiGroups"] for plural in rule["resources"]]
    assert sorted(allowed) == sorted({(kind.group, kind.plural) for kind in read})
    assert all(rule["verbs"] == ["list", "watch"] for rule in role["rules"])
    assert binding["roleRef"] == {"kind": role["kind"], "name": role["metadata"]["name"], "apiGroup": RBAC}
    where = {key: account["metadata"][key] for key in ("name", "namespace")}
    assert binding["subjects"] == [{"kind": account["kind"], **where}]


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
