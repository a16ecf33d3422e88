"""Every key of a workflow file and of a PodGroup manifest has an effect, is refused, or warns by its name
(docs/values.md, "Fields without an effect")."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from scheduling.domain.workflow_spec import GroupSpec, TaskSpec, TopologyRequirement, WorkflowSpec
from scheduling.specs import (
    PlatformRules,
    SpecRules,
    parse,
    pod_annotations,
    podgroup_manifest,
    resources,
    task_data,
    tasks,
    workflow_file,
)
from tests.support.product_source import module_facts

RULES = SpecRules(
    platforms={
        "default": PlatformRules(privileged_allowed=True, host_network_allowed=True, allowed_mounts=("/data",)),
        "other": PlatformRules(),
    },
    default_platform="default",
    topology_keys=("rack",),
    gpu_flavors=("h100", "a100"),
)

TASK_VALUES: dict[str, Any] = {
    "name": "another", "image": "alpine", "command": ["ls"], "args": ["-l"], "environment": {"A": "b"},
    "resource": "big", "lead": True, "inputs": [{"url": "s3://b/x"}], "outputs": [{"url": "s3://b/y"}],
    "files": [{"path": "/tmp/x", "contents": "y"}], "credentials": {"c": "/secrets"},
    "exitActions": {"COMPLETE": "3"}, "privileged": True, "hostNetwork": True, "volumeMounts": ["/data"],
    "checkpoint": [{"path": "/a", "url": "s3://b/c", "frequency": "1m"}], "kpis": [{"index": "i", "path": "p"}],
    "downloadType": "download", "cacheSize": "10Gi",
}  # fmt: skip
RESOURCE_VALUES: dict[str, Any] = {
    "cpu": 2, "gpu": 2, "memory": "2Gi", "storage": "2Gi", "platform": "other", "nodesExcluded": ["n1"],
    "topology": [{"key": "rack"}], "gpu_flavors": ["a100"],
}  # fmt: skip
TOPOLOGY_VALUES: dict[str, Any] = {"key": "nosuch", "group": "g", "requirementType": "preferred"}
FILE_VALUES: dict[str, Any] = {"path": "/tmp/z", "contents": "z", "base64": True, "localpath": "z"}
GROUP_VALUES: dict[str, Any] = {"name": "another", "tasks": [], "barrier": False, "ignoreNonleadStatus": False}
WORKFLOW_VALUES: dict[str, Any] = {
    "name": "another", "tasks": [], "groups": [], "resources": {"default": {"gpu": 3}},
    "timeout": {"exec_timeout": "1h"}, "labels": {"a": "b"}, "pool": "other", "backend": "other",
}  # fmt: skip
TIMEOUT_VALUES: dict[str, Any] = {"exec_timeout": "2h", "queue_timeout": "2h"}
TOP_VALUES: dict[str, Any] = {"workflow": {}, "version": 3, "default-values": {"x": 1}}


def workflow(path: tuple[str, ...] = (), key: str = "", value: Any = None) -> str:
    """A file with one group of one task; `key` has the value in the map at `path`."""
    task: dict[str, Any] = {"name": "t", "image": "ubuntu", "command": ["sh"]}
    file = {"path": "/tmp/f", "contents": "Zg=="}
    topology = {"key": "rack"}
    body: dict[str, Any] = {
        "workflow": {
            "name": "w",
            "groups": [{"name": "g", "tasks": [task, {**task, "name": "u", "lead": True}]}],
            "resources": {"default": {"gpu": 1}, "big": {"gpu": 4}},
        }
    }
    places: dict[tuple[str, ...], dict[str, Any]] = {
        (): body,
        ("workflow",): body["workflow"],
        ("group",): body["workflow"]["groups"][0],
        ("task",): task,
        ("resource",): body["workflow"]["resources"]["default"],
    }
    if key == "default-values":
        task["args"] = ["{{ x }}"]
    if path == ("file",):
        task["files"] = [file]
        places[path] = file
    if path == ("topology",):
        body["workflow"]["resources"]["default"]["topology"] = [topology]
        places[path] = topology
    if path == ("timeout",):
        body["workflow"]["timeout"] = places[path] = {}
    if key:
        places[path][key] = value
    return json.dumps(body)


WORKFLOW_KEYS = [
    *(((), key, TOP_VALUES) for key in workflow_file._TOP),
    *((("workflow",), key, WORKFLOW_VALUES) for key in workflow_file._WORKFLOW),
    *((("group",), key, GROUP_VALUES) for key in workflow_file._GROUP),
    *((("timeout",), key, TIMEOUT_VALUES) for key in ("exec_timeout", "queue_timeout")),
    *((("task",), key, TASK_VALUES) for key in tasks._FIELDS),
    *((("file",), key, FILE_VALUES) for key in ("path", "contents", "base64", "localpath")),
    *((("resource",), key, RESOURCE_VALUES) for key in resources._FIELDS),
    *((("topology",), key, TOPOLOGY_VALUES) for key in ("key", "group", "requirementType")),
]


@pytest.mark.parametrize(("path", "key", "values"), WORKFLOW_KEYS)
def test_workflow_files(path: tuple[str, ...], key: str, values: dict[str, Any]) -> None:
    before, after = (parse(text, rules=RULES) for text in (workflow(path), workflow(path, key, values[key])))
    assert before.spec is not None, before.violations
    texts = [*(fault.path for fault in after.violations), *after.warnings]
    assert after.spec != before.spec or any(key in text for text in texts), key


POD_GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "p", "annotations": {"osmo/gpus-per-pod": "1"}},
    "spec": {"subGroups": [{"name": "a"}, {"name": "b", "parent": "a", "minMember": 1}]},
}
SPEC_VALUES: dict[str, Any] = {  # of the definitions of KAI 0.13 and 0.17
    "minMember": 3, "minSubGroup": 1, "subGroups": [{"name": "b", "minMember": 2}], "priorityClassName": "inference",
    "queue": "q", "preemptibility": "preemptible", "parallelism": 2, "completions": 2, "backoffLimit": 2,
    "markUnschedulable": True, "schedulingBackoff": 2, "topologyConstraint": {"topology": "t"},
    "preemptionDelay": "1m", "stalenessGracePeriod": "1m", "minMembers": 3,
}  # fmt: skip
SUB_GROUP_VALUES: dict[str, Any] = {
    "name": "c", "parent": None, "minMember": 2, "minSubGroup": 1, "topologyConstraint": {"topology": "t"},
}  # fmt: skip
METADATA_VALUES: dict[str, Any] = {
    "name": "other", "namespace": "n", "labels": {"a": "b"}, "annotations": {"gpu-fraction": "0.5"},
    "generateName": "p-", "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01",
    "deletionTimestamp": "2026-01-01", "deletionGracePeriodSeconds": 1, "ownerReferences": [{"name": "o"}],
    "finalizers": ["f"], "managedFields": [{"manager": "m"}], "selfLink": "/x",
}  # fmt: skip
ANNOTATIONS: dict[str, Any] = {
    "osmo/pods": "2", "osmo/gpus-per-pod": "2", "osmo/image": "alpine", "osmo/command": "[ls]",
    "osmo/platform": "other", "osmo/gpu-flavors": ["a100"],
    "osmo/nosuch": "x", "gpu-fraction": "0.5", "gpu-memory": "4096",
    "gpu-fraction-num-devices": "2", "kai.scheduler/preemption-delay": "1m", "min-runtime": "1h",
    "kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:00Z", "kai.scheduler/last-start-timestamp": "x",
    "example.com/anything": "x",
}  # fmt: skip
TOP_KEYS: dict[str, Any] = {
    "apiVersion": "v1", "kind": "podgroup", "metadata": {"name": "q"}, "spec": {"minMember": 9},
    "status": {"phase": "x"}, "data": {"a": "b"},
}  # fmt: skip


def manifest(place: str = "", key: str = "", value: Any = None) -> str:
    """The PodGroup with one more value; a value of a SubGroup is that of `b`."""
    body: dict[str, Any] = json.loads(json.dumps(POD_GROUP))
    places = {
        "": body,
        "metadata": body["metadata"],
        "annotation": body["metadata"]["annotations"],
        "spec": body["spec"],
        "sub_group": body["spec"]["subGroups"][1],
    }
    if key:
        places[place][key] = value
    return json.dumps(body)


MANIFEST_KEYS = [
    *(("", key, value) for key, value in TOP_KEYS.items() if key != "kind"),
    *(("metadata", key, value) for key, value in METADATA_VALUES.items()),
    *(("annotation", key, value) for key, value in ANNOTATIONS.items()),
    *(("spec", key, value) for key, value in SPEC_VALUES.items()),
    *(("sub_group", key, value) for key, value in SUB_GROUP_VALUES.items()),
]


@pytest.mark.parametrize(("place", "key", "value"), MANIFEST_KEYS)
def test_pod_group_manifests(place: str, key: str, value: Any) -> None:
    before, after = parse(manifest(), rules=RULES), parse(manifest(place, key, value), rules=RULES)
    assert before.spec is not None, before.violations
    texts = [*(fault.path for fault in after.violations), *after.warnings]
    new = set(texts) - set(before.warnings)
    assert after.spec != before.spec or any(key in text for text in new), key


def test_the_lists_above_have_every_known_key() -> None:
    assert set(podgroup_manifest._TOP) <= set(TOP_KEYS)
    assert set(podgroup_manifest._METADATA) <= set(METADATA_VALUES)
    assert set(podgroup_manifest._SPEC) <= set(SPEC_VALUES)
    assert set(podgroup_manifest._SUB_GROUP) <= set(SUB_GROUP_VALUES)
    assert set(pod_annotations.KNOWN_ANNOTATIONS) <= set(ANNOTATIONS)
    assert set(pod_annotations._REASON_NOT_USED) <= {*ANNOTATIONS, "kai.scheduler/min-runtime"}
    assert set(task_data.UNUSED) <= set(TASK_VALUES)


@pytest.mark.parametrize("kind", [TaskSpec, GroupSpec, WorkflowSpec, TopologyRequirement])
def test_every_field_of_a_spec_is_read_outside_the_reader(kind: type[Any]) -> None:
    """A difference of specs is an effect only if something uses the field."""
    users = tuple(f"scheduling/{folder}/" for folder in ("domain", "services", "selectors"))
    read = set().union(*(facts.attributes for path, facts in module_facts().items() if path.startswith(users)))
    assert {field.name for field in fields(kind)} - read == set()
