"""The objects of a gang: names, labels, amounts, texts."""

from __future__ import annotations

import base64
import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.cluster import naming
from scheduling.domain.cluster.naming import DispatchTarget, GangOrigin
from scheduling.domain.cluster.pods import pod_group
from scheduling.domain.cluster.pods.pod import (
    PodAttempt,
    files_secret_manifest,
    gang_context,
    pod_manifest,
    service_manifest,
)
from scheduling.domain.cluster.pods.pod_group import GangShape
from scheduling.domain.cluster.pods.topology import TopologyLevels, topology_tree
from scheduling.domain.priorities import Priority
from scheduling.domain.workflow_spec import TaskSpec, TopologyRequirement

GROUP, WORK, TASK = UUID(int=1), UUID(int=2), UUID(int=3)
SITE = DispatchTarget(installation="h1", namespace="osmo", queue="osmo-pool-osmo-team---shared")
ORIGIN = GangOrigin("hello-1", WORK, "train-group", GROUP, "ann@example.org", "team", Priority.LOW)


def spec(name: str = "train", **fields: Any) -> TaskSpec:
    return TaskSpec(**{"name": name, "image": "ubuntu", "command": ("sh",)} | fields)


def attempt(of: TaskSpec | None = None, **fields: Any) -> PodAttempt:
    return PodAttempt(**{"uuid": TASK, "retry": 0, "position": 0, "spec": of or spec()} | fields)


def made(*tasks: PodAttempt, site: DispatchTarget = SITE, env_vars: dict[str, str] | None = None) -> dict[str, Any]:
    return pod_manifest(gang_context(site, ORIGIN, tasks, env_vars or {}), tasks[0])


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (only,) = manifest["spec"]["containers"]
    return dict(only)


def test_a_pod_names_its_owner_and_its_scheduler() -> None:
    manifest = made(attempt(spec(lead=True), retry=2, platform="h100", sub_group="workers"))
    assert manifest["metadata"]["name"] == str(TASK)
    assert manifest["metadata"]["namespace"] == "osmo"
    assert manifest["metadata"]["annotations"] == {"pod-group-name": str(GROUP)}
    assert manifest["metadata"]["labels"] == {
        "osmo.house": "h1",
        "app.kubernetes.io/managed-by": "osmo-admin",
        "kai.scheduler/queue": "osmo-pool-osmo-team---shared",
        "runai/queue": "osmo-pool-osmo-team---shared",
        "kai.scheduler/subgroup-name": "workers",
        "osmo.workflow_id": "hello-1",
        "osmo.workflow_uuid": str(WORK),
        "osmo.group_name": "train-group",
        "osmo.group_uuid": str(GROUP),
        "osmo.submitted_by": "ann_example.org",
        "osmo.task_name": "train",
        "osmo.task_uuid": str(TASK),
        "osmo.retry_id": "2",
        "osmo.pool": "team",
        "osmo.platform": "h100",
        "osmo.priority": "low",
        "osmo.lead_container": "true",
    }
    assert manifest["spec"]["schedulerName"] == "kai-scheduler"
    assert manifest["spec"]["restartPolicy"] == "Never"
    assert "priorityClassName" not in manifest["spec"]  # only the PodGroup has it
    assert "ownerReferences" not in manifest["metadata"]  # KAI would group the pod by its owner instead


def test_a_shard_finds_its_objects() -> None:
    site = DispatchTarget("h1", "osmo", "q", shard=("kai.scheduler/node-pool", "blue"))
    around = gang_context(site, ORIGIN, [attempt()], {})
    assert pod_manifest(around, attempt())["metadata"]["labels"]["kai.scheduler/node-pool"] == "blue"
    group = pod_group.pod_group_manifest(site, ORIGIN, GangShape(1))
    assert group["metadata"]["labels"]["kai.scheduler/node-pool"] == "blue"


def test_requests_and_limits_are_the_admitted_amounts() -> None:
    resources = container(made(attempt(gpus=8, cpu=4, memory_bytes=2**30, storage_bytes=10**9)))["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {
        "nvidia.com/gpu": "8", "cpu": "4", "memory": "1073741824", "ephemeral-storage": "1000000000",
    }  # fmt: skip
    assert container(made(attempt()))["resources"] == {}


def test_only_gpu_work_tolerates_the_taint_of_gpu_nodes() -> None:
    assert made(attempt(gpus=1))["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert "tolerations" not in made(attempt())["spec"]


def terms(task: PodAttempt) -> list[list[dict[str, Any]]]:
    affinity = made(task)["spec"]["affinity"]["nodeAffinity"]
    found = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [term["matchExpressions"] for term in found]


def test_a_platform_is_a_label_of_its_machines() -> None:
    assert terms(attempt(platform="h100")) == [[{"key": "osmo.platform", "operator": "In", "values": ["h100"]}]]


def test_machines_without_the_label_are_of_the_default_platform_and_excluded_ones_stay_out() -> None:
    out = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}
    assert terms(attempt(nodes_excluded=["n2", "n1"])) == [
        [{"key": "osmo.platform", "operator": "In", "values": ["default"]}, out],
        [{"key": "osmo.platform", "operator": "DoesNotExist"}, out],
    ]


def expanded(text: str, known: dict[str, str]) -> str:
    """The text of a command or a variable after Kubernetes has expanded it."""

    def meaning(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return known.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", meaning, text)


@given(st.text("$(){}AB ", max_size=20))
def test_a_shell_gets_its_text_as_written(text: str) -> None:
    """Unescaped, Kubernetes would expand `$(A)` and turn `$$` of a shell into `$`."""
    task = attempt(spec(command=("bash", "-c"), args=(text,), environment={"A": "1", "TEXT": text}))
    manifest = container(made(task))
    assert expanded(manifest["args"][0], {"A": "1"}) == text
    assert {each["name"]: expanded(each["value"], {"A": "1"}) for each in manifest["env"]} == {"A": "1", "TEXT": text}


def test_variables_of_the_request_override_the_file() -> None:
    task = attempt(spec(environment={"A": "file", "B": "file"}))
    env = container(made(task, env_vars={"A": "values", "C": "values"}))["env"]
    assert {each["name"]: each["value"] for each in env} == {"A": "values", "B": "file", "C": "values"}


def test_credentials_are_secrets_of_the_namespace() -> None:
    task = attempt(
        spec(credentials={"My_S3": {"KEY": "access", "A": "b"}, "omni": "/root/omni"}, environment={"A": "x"})
    )
    manifest = made(task)
    assert [each for each in container(manifest)["env"] if "valueFrom" in each] == [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "my-s3", "key": "access"}}}
    ]
    assert {"name": "credential-0", "secret": {"secretName": "omni"}} in manifest["spec"]["volumes"]
    assert {"name": "credential-0", "mountPath": "/root/omni", "readOnly": True} in container(manifest)["volumeMounts"]
    assert manifest["spec"]["automountServiceAccountToken"] is False


def test_the_rights_that_a_platform_gives_a_task() -> None:
    manifest = made(attempt(spec(privileged=True, host_network=True, volume_mounts=("/a", "/b:/c"))))
    assert container(manifest)["securityContext"] == {"privileged": True}
    assert (manifest["spec"]["hostNetwork"], manifest["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    mounts = {each["name"]: each["mountPath"] for each in container(manifest)["volumeMounts"]}
    assert (mounts["host-0"], mounts["host-1"]) == ("/a", "/c")
    assert {"name": "host-1", "hostPath": {"path": "/b"}} in manifest["spec"]["volumes"]


OWNER = {"apiVersion": "v1", "kind": "PodGroup", "metadata": {"name": "g", "uid": "u"}}


def test_files_are_a_secret_that_goes_with_the_pod_group() -> None:
    contents = [
        {"path": "/tmp/run.sh", "contents": "echo {{output}} $$"},
        {"path": "/tmp/b", "contents": "AP\n8=", "base64": True},
        {"path": "/tmp/c", "contents": "no base64!", "base64": True},
    ]
    task = attempt(spec(files=tuple(contents)), position=3)
    around = gang_context(SITE, ORIGIN, [task], {})
    secret = files_secret_manifest(around, task, OWNER)
    assert secret is not None
    assert secret["metadata"]["name"] == f"{GROUP}-3"
    assert secret["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "PodGroup", "name": "g", "uid": "u"}]
    texts = {key: base64.b64decode(text) for key, text in secret["data"].items()}
    assert texts == {"file-0": b"echo /osmo/data/output $$", "file-1": b"\0\xff", "file-2": b"no base64!"}
    mounts = [each for each in container(pod_manifest(around, task))["volumeMounts"] if each["name"] == "files"]
    assert mounts[0] == {"name": "files", "mountPath": "/tmp/run.sh", "subPath": "file-0"}
    assert files_secret_manifest(around, attempt(), OWNER) is None


def test_marks_are_filled_in_and_unknown_ones_stay() -> None:
    args = ("{{workflow_id}} {{ uuid }} {{input:0}} {{input:prep}} {{output}}/x {{host:nobody}} {{other}}",)
    assert container(made(attempt(spec(args=args))))["args"] == [
        f"hello-1 {WORK} /osmo/data/input/0 /osmo/data/input/prep /osmo/data/output/x {{{{host:nobody}}}} {{{{other}}}}"
    ]


def test_pods_that_look_for_each_other_get_names() -> None:
    master = attempt(spec("Master_Node"))
    worker = attempt(spec("worker", args=("--master={{host:Master_Node}}",)), position=1)
    around = gang_context(SITE, ORIGIN, [master, worker], {})
    name = f"gang-{GROUP}"
    assert container(pod_manifest(around, worker))["args"] == [f"--master=master-node.{name}"]
    assert (pod_manifest(around, master)["spec"]["hostname"], pod_manifest(around, master)["spec"]["subdomain"]) == (
        "master-node",
        name,
    )
    made_service = service_manifest(around, OWNER)
    assert made_service is not None
    assert made_service["spec"] == {
        "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"osmo.group_uuid": str(GROUP)},
    }  # fmt: skip
    assert service_manifest(gang_context(SITE, ORIGIN, [master], {}), OWNER) is None


@pytest.mark.parametrize("name", ["a", "A_b-C", "x" * 63, "x" * 128])
def test_host_names_are_valid_in_dns(name: str) -> None:
    hosts = {naming.host_name(name, position) for position in range(12)}
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", host) for host in hosts)
    assert len(hosts) == (12 if len(name) > 63 else 1)


@given(st.text(max_size=80))
def test_every_text_becomes_a_label(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", naming.label_value(text))


def group(shape: GangShape) -> dict[str, Any]:
    return pod_group.pod_group_manifest(SITE, ORIGIN, shape)


def test_a_plain_gang_starts_together() -> None:
    manifest = group(GangShape(4))
    assert manifest["metadata"]["name"] == str(GROUP)
    assert manifest["metadata"]["labels"]["osmo.house"] == "h1"
    assert "osmo.task_name" not in manifest["metadata"]["labels"]
    assert manifest["spec"] == {"queue": SITE.queue, "priorityClassName": "osmo-low", "minMember": 4}


TREE = {
    "min_sub_group": 1,
    "sub_groups": [
        {"name": "replica", "min_sub_group": 2},
        {"name": "leader", "parent": "replica", "min_member": 1},
        {"name": "workers", "parent": "replica", "min_member": 3},
    ],
}


def test_an_elastic_gang_has_its_minimums() -> None:
    manifest = group(GangShape(10, TREE))
    assert manifest["spec"] == {
        "queue": SITE.queue,
        "priorityClassName": "osmo-low",
        "minSubGroup": 1,
        "subGroups": [
            {"name": "replica", "minSubGroup": 2},
            {"name": "leader", "parent": "replica", "minMember": 1},
            {"name": "workers", "parent": "replica", "minMember": 3},
        ],
    }
    assert pod_group.may_be_dropped(manifest)
    assert not pod_group.may_be_dropped(group(GangShape(10, {"min_member": 6})))
    assert group(GangShape(10, {"min_member": 6}))["spec"]["minMember"] == 6


def test_an_older_cluster_is_found_out() -> None:
    sent = group(GangShape(10, TREE))
    groups = [{"name": "replica"}, *sent["spec"]["subGroups"][1:]]
    kept = {"spec": {"queue": "q", "priorityClassName": "p", "subGroups": groups}}
    assert pod_group.dropped_fields(sent, sent) == []
    assert pod_group.dropped_fields(sent, kept) == ["spec.minSubGroup", "spec.subGroups[0].minSubGroup"]


LEVELS = TopologyLevels("osmo-pool-osmo-team-topology", {"zone": "topology/zone", "rack": "topology/rack"})


def near(key: str, of: str = "default", required: bool = True) -> TopologyRequirement:
    return TopologyRequirement(key, of, required)


def test_all_in_one_rack_is_a_constraint_of_the_pod_group() -> None:
    found = topology_tree({"a": [near("rack")], "b": [near("rack")]}, LEVELS)
    spec = group(GangShape(2, topology=found))["spec"]
    assert spec["topologyConstraint"] == {
        "topology": "osmo-pool-osmo-team-topology", "requiredTopologyLevel": "topology/rack",
    }  # fmt: skip
    assert (spec["minMember"], "subGroups" in spec, found.sub_group_of) == (2, False, {})


def test_one_demand_makes_it_a_demand_of_all() -> None:
    requirements = {"a": [near("zone", required=False)], "b": [near("zone", required=False)]}
    assert "preferredTopologyLevel" in topology_tree(requirements, LEVELS).constraint
    requirements["b"] = [near("zone")]
    assert "requiredTopologyLevel" in topology_tree(requirements, LEVELS).constraint


def test_racks_apart_inside_one_zone() -> None:
    requirements = {
        "a0": [near("zone", required=False), near("rack", "a")],
        "a1": [near("zone", required=False), near("rack", "a")],
        "b0": [near("zone", required=False), near("rack", "b")],
        "c0": [near("zone", required=False)],
    }
    spec = group(GangShape(4, topology=topology_tree(requirements, LEVELS)))["spec"]
    rack = {"topology": LEVELS.name, "requiredTopologyLevel": "topology/rack"}
    assert spec["topologyConstraint"] == {"topology": LEVELS.name, "preferredTopologyLevel": "topology/zone"}
    assert spec["subGroups"] == [
        {"name": "near-0", "topologyConstraint": rack, "minMember": 2},
        {"name": "near-1", "topologyConstraint": rack, "minMember": 1},
        {"name": "near-2", "minMember": 1},
    ]
    assert "minMember" not in spec
    assert topology_tree(requirements, LEVELS).sub_group_of == {
        "a0": "near-0",
        "a1": "near-0",
        "b0": "near-1",
        "c0": "near-2",
    }


def test_finer_groups_stand_below_coarser_ones() -> None:
    requirements = {
        "a": [near("zone", "x"), near("rack", "1")],
        "b": [near("zone", "x"), near("rack", "2")],
        "c": [near("zone", "y")],
    }
    found = topology_tree(requirements, LEVELS)
    assert [(each["name"], each.get("parent"), each.get("minMember")) for each in found.sub_groups] == [
        ("near-0", None, None), ("near-0-0", "near-0", 1), ("near-0-1", "near-0", 1), ("near-1", None, 1),
    ]  # fmt: skip
    assert found.sub_group_of == {"a": "near-0-0", "b": "near-0-1", "c": "near-1"}
    assert found.constraint == {}


def test_a_key_that_the_pool_no_longer_has_is_ignored() -> None:
    assert topology_tree({"a": [near("gone")]}, LEVELS) == topology_tree({"a": []}, LEVELS)
