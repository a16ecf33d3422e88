"""`/api/resources`: nodes, their pools, and the work on them."""

from __future__ import annotations

from pools.domain.changes.backends import PutBackend
from scheduling.selectors.cluster.node_resources import ResourceAnswer
from scheduling.services.workflows.submission import Submission, submit
from tests.integration.pools.conftest import pool_config
from tests.support.api_client import ApiClient, Callers
from tests.support.shapes import assert_has_shape
from tests.support.world import apply_change, reconcile

SPEC = """
workflow:
  name: job
  tasks:
  - {name: train, image: ubuntu, command: [sh], resource: r}
  resources:
    r: {gpu: 3, cpu: 2, memory: 1500Mi, storage: 1Gi}
"""


def test_a_node_with_work(sim: str, admin: ApiClient) -> None:
    apply_change(PutBackend(name="sim", body={"nodes": [{"name": "n1", "gpus": 8, "cpu": 16, "memory": "7.5Gi"}]}))
    admin(
        "PUT", "/api/configs/pool/team", {"configs": pool_config(8, platforms={"default": {"allowed_mounts": ["/x"]}})}
    )
    submit(actor=admin.actor, pool="team", submission=Submission(file=SPEC))
    reconcile()
    (node,) = admin("GET", "/api/resources/n1").body["resources"]
    assert node["usage_fields"] == {"gpu": "3", "cpu": "2", "memory": "2Gi", "storage": "1Gi"}
    assert node["allocatable_fields"] == {"gpu": "8", "cpu": "16", "memory": "7Gi", "storage": "4096Gi"}
    left = {"gpu": "5", "cpu": "14", "memory": "6Gi", "storage": "4095Gi"}
    assert node["platform_available_fields"]["team"]["default"] == left
    assert_has_shape(node, ResourceAnswer)
    assert node["exposed_fields"] == {"node": "n1", "pool/platform": ["team/default"], **node["allocatable_fields"]}
    assert node["config_fields"] == {
        "team": {
            "default": {"host_network": False, "privileged": False, "default_mounts": [], "allowed_mounts": ["/x"]}
        }
    }
    assert (node["hostname"], node["backend"], node["resource_type"]) == ("n1", "sim", "RESERVED")
    assert node["pool_platform_labels"] == {"team": ["default"]}


def test_nodes_by_pool(sim: str, admin: ApiClient, viewer: ApiClient, caller: Callers) -> None:
    nodes = [{"name": f"{kind}1", "gpus": 1, "platform": kind} for kind in ("a", "b", "c")]
    apply_change(PutBackend(name="sim", body={"nodes": nodes}))
    admin("PUT", "/api/configs/pool/one", {"configs": pool_config(1, platforms={"a": {}, "b": {}})})
    admin("PUT", "/api/configs/pool/two", {"configs": pool_config(1, platforms={"b": {}})})
    admin("POST", "/api/configs/pool/one/subpool", {"subpool_name": "x", "quota": 1})

    def resource_kinds(who: ApiClient, **query: object) -> dict[str, tuple[str, list[str]]]:
        found = who("GET", "/api/resources", query=query).body["resources"]
        return {node["hostname"]: (node["resource_type"], list(node["pool_platform_labels"])) for node in found}

    everything = {"a1": ("RESERVED", ["one"]), "b1": ("SHARED", ["one", "two"]), "c1": ("UNUSED", [])}
    assert resource_kinds(viewer) == everything
    two = caller("tom", "osmo-two-user")
    assert resource_kinds(two) == {"b1": ("RESERVED", ["two"])}
    assert resource_kinds(admin, pools=["one"]) == {"a1": ("RESERVED", ["one"]), "b1": ("RESERVED", ["one"])}
    assert resource_kinds(admin, pools=["one--x"]) == {"a1": ("RESERVED", ["one--x"]), "b1": ("RESERVED", ["one--x"])}
    assert resource_kinds(admin, pools=["one--gone"]) == {}
    assert resource_kinds(admin, pools=["one"], platforms=["b"]) == {"b1": ("RESERVED", ["one"])}
    assert resource_kinds(two, pools=["one"]) == {}
    assert [two("GET", f"/api/resources/{node}").status for node in ("b1", "a1", "c1")] == [200, 404, 404]
    assert viewer("GET", "/api/resources/nothing").status == 404
