"""KAI's and Run:ai's queues as pools, subpools and cohorts: -1, 0, unset, fractions, node pools."""

from __future__ import annotations

import json

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.report import report_text
from scheduling.moving_in.result import BadSource, PartOutcome
from tests.support.imports import body, gpu, imported, pool, silent_keys, told

FREE = "cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}"


def queue(name: str, amounts: str, parent: str = "", more: str = FREE) -> str:
    """A Queue of KAI with these amounts of GPUs."""
    above = f"parentQueue: {parent}, " if parent else ""
    return (
        f"apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {name}}}\n"
        f"spec: {{{above}resources: {{gpu: {{{amounts}}}, {more}}}}}\n"
    )


def read(*documents: str):
    """The import of these queues on a cluster that exists."""
    return imported("kai", "---\n".join(documents), writes_backend=False)


class TestKai:
    """The Queues of a cluster."""

    def test_the_report_has_the_pools_of_queues_that_no_name_finds(self) -> None:
        """So that the cluster can be observed at once."""
        result = read(
            queue("team.a", "quota: 4, limit: -1"),
            queue("team-a", "quota: 4, limit: -1"),
            queue("x", "quota: 4, limit: -1"),
            queue("x.train", "quota: 4, limit: -1, overQuotaWeight: 1", "x"),
        )
        assert result.queue_pools == {
            "team.a": "team-a", "team-a": "team-a-2", "x": "x", "x.train": "x--x-train",
        }  # fmt: skip
        assert result.renamed_queues() == {"team-a": "team-a-2"}
        report = report_text("kai", result)
        assert "    team-a = team-a-2" in report
        assert '    {"queue_pools": {"team-a": "team-a-2"}}' in report
        plain = report_text("kai", read(queue("team.a", "quota: 4, limit: -1")))
        assert "finds the pool of each queue by its name" in plain

    def test_leaves_without_limits_are_subpools_and_nothing_is_lost(self) -> None:
        result = read(
            queue("team", "quota: 16, limit: 32, overQuotaWeight: 2"),
            queue("a", "quota: 8, limit: -1, overQuotaWeight: 1", "team"),
            queue("b", "quota: 4, limit: -1, overQuotaWeight: 1", "team"),
        )
        assert gpu(result, "team") == (16, 32, 2)
        assert pool(result, "team")["subpools"] == {"a": 8, "b": 4}
        assert result.is_complete

    def test_unlimited_zero_and_unset_amounts(self) -> None:
        result = read(
            queue("free", "quota: -1, limit: -1, overQuotaWeight: 1"),
            queue("borrower", "quota: 0, limit: -1, overQuotaWeight: 3"),
            queue("zero", "quota: 4, limit: 0"),
            queue("unset", "quota: 4"),
            queue("no-quota", "limit: 6, overQuotaWeight: 1"),
        )
        assert gpu(result, "free") == (-1, -1, 1)
        assert gpu(result, "borrower") == (0, -1, 3)
        assert gpu(result, "zero")[:2] == gpu(result, "unset")[:2] == (0, 0)
        assert gpu(result, "no-quota") == (0, 6, 1)
        assert told(result, PartOutcome.TO_DECIDE).count("nothing may run") == 2

    def test_fractions_are_floored_and_told(self) -> None:
        result = read(
            queue("a", "quota: 2.5, limit: 3.75, overQuotaWeight: 0.5"), queue("b", "limit: -1, overQuotaWeight: 1")
        )
        assert gpu(result, "a") == (2, 3, 1)
        assert gpu(result, "b")[2] == 2
        decide = told(result, PartOutcome.TO_DECIDE)
        assert "the quota 2.5 became 2" in decide
        assert "the limit 3.75 became 3" in decide

    def test_limits_of_leaves_make_a_cohort_whose_quota_is_not_counted_twice(self) -> None:
        result = read(
            queue("corp", "quota: 40, limit: -1, overQuotaWeight: 1"),
            queue("dep", "quota: 16, limit: 20, overQuotaWeight: 1", "corp"),
            queue("x", "quota: 4, limit: 8, overQuotaWeight: 1", "dep"),
            queue("y", "quota: 6, limit: -1, overQuotaWeight: 1", "dep"),
        )
        assert body(result, OwnedKind.COHORT, "corp")["quotas"] == [{"resource": "gpu", "nominal": 24}]
        assert body(result, OwnedKind.COHORT, "dep") == {
            "parent": "corp", "quotas": [{"resource": "gpu", "nominal": 6, "borrowing_limit": 4}]
        }  # fmt: skip
        assert (gpu(result, "x"), pool(result, "x")["cohort"]) == ((4, 8, 1), "dep")

    def test_a_queue_that_only_groups_leaves_nothing_behind(self) -> None:
        result = read(
            queue("default", "quota: -1, limit: -1, overQuotaWeight: 1"),
            queue("a", "quota: 2, limit: 8, overQuotaWeight: 1", "default"),
        )
        assert [name for _, name in result.objects] == ["a"]
        assert "cohort" not in pool(result, "a")

    def test_lending_limits(self) -> None:
        result = read(
            queue("corp", "quota: 40, limit: -1, lendingLimit: 5"),
            queue("dep", "quota: 16, limit: 20, lendingLimit: 3", "corp"),
            queue("x", "quota: 4, limit: -1, lendingLimit: 1.5", "dep"),
            queue("y", "quota: 4, limit: -1, lendingLimit: 0", "dep"),
        )
        assert body(result, OwnedKind.COHORT, "dep")["quotas"][0]["lending_limit"] == 3
        assert [pool(result, name)["lending_limit"] for name in ("x", "y")] == [1, 0]
        assert "the lending limit 5: without a cohort above it" in told(result, PartOutcome.NO_COUNTERPART)
        assert "the lending limit 1.5 became 1" in told(result, PartOutcome.TO_DECIDE)

    @pytest.mark.parametrize(("limit", "lending"), [("-1", None), ("9", 4), ("4", 4)])
    def test_a_lending_limit_of_the_whole_quota_or_more(self, limit: str, lending: int | None) -> None:
        result = read(
            queue("corp", "quota: 16, limit: 16"),
            queue("a", f"quota: 4, limit: 8, lendingLimit: {limit}", "corp"),
            queue("b", "quota: 4, limit: 6", "corp"),
        )
        assert pool(result, "a").get("lending_limit") == lending

    def test_a_missing_parent_and_a_cycle(self) -> None:
        assert "does not have" in told(read(queue("a", "limit: -1", "gone")), PartOutcome.TO_DECIDE).replace(
            "do not", "does not"
        )
        with pytest.raises(BadSource) as refusal:
            read(queue("a", "limit: -1", "b"), queue("b", "limit: -1", "a"))
        assert "a → b → a" in refusal.value.details[0].message

    def test_cpu_and_memory_are_told_in_readable_units(self) -> None:
        lost = told(
            read(queue("a", "limit: -1", more="cpu: {quota: 4000, limit: 8000}, memory: {quota: 2000, limit: 64000}")),
            PartOutcome.NO_COUNTERPART,
        )
        assert "cpu had quota 4 cores, limit 8 cores" in lost
        assert "memory had quota 2 GB, limit 64 GB" in lost
        lost = told(read(queue("a", "limit: -1", more="cpu: {}")), PartOutcome.NO_COUNTERPART)
        assert "no cpu limit is given, which is 0 in KAI" in lost
        assert "no memory limit is given" in lost

    @pytest.mark.parametrize("amount", ["-7", "1e999", "'eight'", "0x10", "{}"])
    def test_an_amount_that_is_none_is_refused_with_its_line(self, amount: str) -> None:
        with pytest.raises(BadSource) as refusal:
            read(queue("a", f"quota: {amount}, limit: -1"))
        assert refusal.value.details[0].path == "f1:4"

    def test_priorities_from_100_on_are_not_preempted(self) -> None:
        kind = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {}}}\nvalue: {}\n"
        values = {"train": 50, "build": 100, "inference": 125, "system-node-critical": 2000001000}
        decide = told(read(*(kind.format(name, value) for name, value in values.items())), PartOutcome.TO_DECIDE)
        for words in (
            "train (50): submit its work as LOW",
            "build (100): submit its work as NORMAL",
            "(125): submit its work as HIGH",
        ):
            assert words in decide
        assert "system-node-critical" not in decide

    def test_every_key_does_something_or_stands_in_the_report(self) -> None:
        text = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a, labels: {kai.scheduler/node-pool: x}, uid: u}
spec:
  displayName: A
  parentQueue: top
  priority: 50
  preemptMinRuntime: 5m
  reclaimMinRuntime: 5m
  somethingNew: 1
  resources:
    gpu: {quota: 2, limit: 8, overQuotaWeight: 3, lendingLimit: 1}
    cpu: {quota: 2000, limit: 8000, overQuotaWeight: 2}
    memory: {quota: 2, limit: 8, overQuotaWeight: 2}
status: {childQueues: [x]}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: net}
spec: {levels: [{nodeLabel: cloud/rack}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: train}
value: 50
globalDefault: true
description: training
preemptionPolicy: Never
"""
        named = (".cpu.overQuotaWeight", ".memory.overQuotaWeight", ".status.", ".gpu.overQuotaWeight")
        assert pool(imported("kai", text), "a")["description"] == "A"
        assert [key for key in silent_keys("kai", text) if not any(part in key for part in named)] == []


class TestRunai:
    """Projects and departments."""

    PROJECT = {
        "name": "vision", "parent": {"name": "research", "type": "department"}, "clusterId": "c",
        "schedulingRules": {"trainingJobTimeLimitSeconds": 60},
        "resources": [
            {"nodePool": {"id": "1", "name": "h100"}, "gpu": {"deserved": 4, "limit": None, "overQuotaWeight": 2}},
            {"nodePool": {"id": "2", "name": "a100"}, "gpu": {"deserved": 1.5, "limit": 8, "overQuotaWeight": 2},
             "rank": "High", "cpu": {"deserved": 4}},
        ],
    }  # fmt: skip
    DEPARTMENT = {
        "name": "research",
        "resources": [
            {"nodePool": {"name": name}, "gpu": {"deserved": 16, "limit": 16, "overQuotaWeight": 2}}
            for name in ("h100", "a100")
        ],
    }  # fmt: skip

    def test_an_answer_about_an_error_is_refused(self) -> None:
        with pytest.raises(BadSource) as refusal:
            imported("runai", '{"code": 401, "message": "Unauthorized"}')
        (fault,) = refusal.value.details
        assert (
            "the answer has no departments, nodePools" in fault.message and "/api/v1/org-unit/projects" in fault.message
        )

    def test_a_project_in_two_node_pools_is_two_pools(self) -> None:
        result = imported("runai", json.dumps({"projects": [self.PROJECT], "departments": [self.DEPARTMENT]}))
        assert {name for kind, name in result.objects if kind is OwnedKind.POOL} == {"vision-h100", "vision-a100"}
        assert pool(result, "vision-a100")["cohort"] == "department-research-a100"
        assert body(result, OwnedKind.COHORT, "department-research-a100")["quotas"] == [
            {"resource": "gpu", "nominal": 15}
        ]
        assert gpu(result, "vision-a100") == (1, 8, 2)
        assert pool(result, "vision-a100")["platforms"] == {"a100": {}}

    NODE_POOLS = [
        {"name": "h100", "labelKey": "gpu", "labelValue": "h100", "id": "1", "placementStrategy": {"gpu": "binpack"}},
        {"name": "a100", "labelKey": "gpu", "labelValue": "a100", "overProvisioningRatio": 1},
    ]
    NODES = """\
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: n1, labels: {gpu: h100}}, status: {allocatable: {nvidia.com/gpu: 8}}}
- {kind: Node, apiVersion: v1, metadata: {name: n2, labels: {gpu: a100}}, status: {allocatable: {nvidia.com/gpu: 8}}}
- {kind: Pod, apiVersion: v1, metadata: {name: p}}
"""

    def test_node_pools_with_labels_are_flavors(self) -> None:
        project = self.PROJECT | {"defaultNodePools": ["h100"]}
        files = {"projects": [project], "departments": [self.DEPARTMENT], "nodePools": self.NODE_POOLS}
        result = imported("runai", json.dumps(files), self.NODES)
        assert list(pool(result, "vision")["resources"]["flavors"].items()) == [
            ("h100", {"guarantee": 4}), ("a100", {"guarantee": 1, "maximum": 8})
        ]  # fmt: skip
        assert (pool(result, "vision")["cohort"], "platforms" in pool(result, "vision")) == (
            "department-research",
            False,
        )
        assert body(result, OwnedKind.COHORT, "department-research")["quotas"] == [
            {"flavor": "a100", "resource": "gpu", "nominal": 15}, {"flavor": "h100", "resource": "gpu", "nominal": 12}
        ]  # fmt: skip
        backend = body(result, OwnedKind.BACKEND, "imported")
        assert [each["name"] for each in backend["flavors"]] == ["h100", "a100"]
        assert [node["labels"] for node in backend["nodes"]] == [{"gpu": "h100"}, {"gpu": "a100"}]
        lost = told(result, PartOutcome.NO_COUNTERPART)
        assert all(words in lost for words in ("h100 placementStrategy: how a", "a100 overProvisioningRatio", "Pod p"))
        assert "quotas are whole GPUs: the quota of a100 1.5 became 1." in told(result, PartOutcome.TO_DECIDE)

    def test_projects_below_a_department_are_subpools_by_flavor(self) -> None:
        rows = [
            {"nodePool": {"name": name}, "gpu": {"deserved": 2, "limit": None, "overQuotaWeight": 1}}
            for name in ("default", "a100")
        ]
        department = {"name": "d", "resources": [row | {"gpu": {"deserved": 5, "limit": 8}} for row in rows]}
        projects = [{"name": name, "departmentName": "d", "resources": rows} for name in ("x", "y")]
        node_pools = [self.NODE_POOLS[1], {"name": "default", "labelKey": None, "labelValue": None}]
        files = {"projects": projects, "departments": [department], "nodePools": node_pools}
        result = imported("runai", json.dumps(files))
        assert pool(result, "department-d")["subpools"] == {name: {"a100": 2, "default": 2} for name in ("x", "y")}
        assert pool(result, "department-d")["resources"]["flavors"]["default"] == {"guarantee": 5, "maximum": 8}
        told_nodes = told(imported("runai", json.dumps(files), writes_backend=False), PartOutcome.TO_DECIDE)
        assert "give the cluster imported this flavor with its label" in told_nodes

    def test_an_unlimited_quota_and_different_weights_of_flavors_are_to_be_decided(self) -> None:
        rows = [
            {"nodePool": {"name": "h100"}, "gpu": {"deserved": None, "limit": None, "overQuotaWeight": 1}},
            {"nodePool": {"name": "a100"}, "gpu": {"deserved": 2, "limit": None, "overQuotaWeight": 3}},
        ]
        files = {"projects": [{"name": "x", "resources": rows}], "nodePools": self.NODE_POOLS}
        result = imported("runai", json.dumps(files))
        assert pool(result, "x")["resources"]["flavors"]["h100"] == {"guarantee": 0}
        decide = told(result, PartOutcome.TO_DECIDE)
        assert "a quota of h100 is a number where there are flavors" in decide
        assert "its weights differ between node pools, and a pool has one: 3" in decide

    def test_node_pools_without_labels_stay_pools(self) -> None:
        files = {"projects": [self.PROJECT], "nodePools": self.NODE_POOLS[:1]}
        result = imported("runai", json.dumps(files))
        assert {name for kind, name in result.objects if kind is OwnedKind.POOL} == {"vision-h100", "vision-a100"}
        assert "the label of the node pools a100 is not known" in told(result, PartOutcome.TO_DECIDE)

    def test_rules_and_ranks_are_named(self) -> None:
        lost = told(imported("runai", json.dumps({"projects": [self.PROJECT]})), PartOutcome.NO_COUNTERPART)
        for word in (
            "schedulingRules: rules about idle GPUs",
            "rank: pools have no order",
            "cpu: pools have a quota of GPUs",
        ):
            assert word in lost

    def test_an_amount_that_is_a_map_is_named_too(self) -> None:
        rows = [{**row, "cpu": {"deserved": {"a": 1}}} for row in self.PROJECT["resources"]]
        result = imported("runai", json.dumps({"projects": [self.PROJECT | {"resources": rows}]}))
        assert "cpu: pools have a quota of GPUs" in told(result, PartOutcome.NO_COUNTERPART)

    def test_every_key_does_something_or_stands_in_the_report(self) -> None:
        project = self.PROJECT | {
            "id": "1", "departmentId": "2", "defaultNodePools": ["h100"], "nodeTypes": {"training": ["a"]},
            "enforceRunaiScheduler": True, "description": "x", "status": {"phase": "Ready"}, "new": 1,
            "parentId": "2", "requestedNamespace": "n", "totalResources": {"gpuQuota": 1}, "createdAt": "t",
            "createdBy": "a", "updatedAt": "t", "updatedBy": "a", "effective": {"defaultNodePools": ["h100"]},
            "overtimeData": {"range7dData": 1},
        }  # fmt: skip
        rows = [{**row, "memory": {"deserved": 1, "limit": None}, "priority": "High"} for row in project["resources"]]
        more = (
            "clusterId phase phaseMessage tenantId clusterName createdBy createdAt updatedBy updatedAt isDefault "
            "gpuNetworkAccelerationDetection gpuNetworkAccelerationLabelKey networkTopologyId networkTopologyName "
            "gpuResourceOptimization schedulingConfiguration new"
        )
        node_pools = [
            each | {"status": {"phase": "Ready"}} | dict.fromkeys(more.split(), "x") for each in self.NODE_POOLS
        ]
        text = json.dumps(
            {"projects": [project | {"resources": rows}], "departments": [self.DEPARTMENT], "nodePools": node_pools}
        )
        named_with_the_part_around = (
            ".nodePool.id", ".parent.type", ".schedulingRules.", ".nodeTypes.", ".status.", ".cpu.", ".memory.",
            ".totalResources.", ".effective.", ".overtimeData.",
        )  # fmt: skip
        silent = silent_keys("runai", text, is_json=True)
        # The limit null is the same as none.
        rest = [key for key in silent if not key.endswith(named_with_the_part_around) and ".gpu.limit" not in key]
        assert [key for key in rest if not any(part in key for part in named_with_the_part_around)] == []

    def test_a_department_is_found_by_its_id(self) -> None:
        """Answers name the department of a project by `parentId` alone."""
        project = {**self.PROJECT, "parent": None, "parentId": 4500100, "description": "Vision"}
        department = self.DEPARTMENT | {"id": "4500100", "description": "All labs"}
        files = [json.dumps({"departments": [department]}), json.dumps({"projects": [project]})]
        result = imported("runai", *reversed(files))
        assert pool(result, "vision-h100")["cohort"] == "department-research-h100"
        assert pool(result, "vision-h100")["description"] == "Vision"
        assert "a department has no description" in told(result, PartOutcome.NO_COUNTERPART)
        alone = told(imported("runai", files[1]), PartOutcome.TO_DECIDE)
        assert "the files do not have its department. Add the answer of /api/v1/org-unit/departments." in alone

    def test_one_page_of_several_is_told(self) -> None:
        text = json.dumps({"projects": [self.PROJECT], "next": 50})
        assert "next: this is one page of an answer" in told(imported("runai", text), PartOutcome.TO_DECIDE)
        for end in (None, "", 0):
            result = imported("runai", json.dumps({"projects": [self.PROJECT], "next": end}))
            assert "one page" not in told(result, PartOutcome.TO_DECIDE)

    def test_what_answers_repeat_without_saying_anything_is_not_lost(self) -> None:
        """Answers have every key, also with the usual value."""
        nothing = {"deserved": None, "limit": None, "overQuotaWeight": None}
        row = {
            "nodePool": {"id": "1", "name": "default"}, "gpu": {"deserved": 2, "limit": 4, "overQuotaWeight": 2},
            "cpu": nothing, "memory": nothing | {"units": "Mib"}, "rank": "MediumLow",
        }  # fmt: skip
        project = {
            "name": "a", "resources": [row], "enforceRunaiScheduler": True, "schedulingRules": None,
            "defaultNodePools": [], "nodeTypes": {"training": [], "workspace": [], "names": {}}, "projectsCount": 2,
            "overtimeData": {"x": 1}, "status": {"phase": "Ready"}, "totalResources": {"gpuQuota": 2}, "effective": {},
            "parentId": None,
        }  # fmt: skip
        result = imported("runai", json.dumps({"projects": [project], "next": None}), writes_backend=False)
        assert result.is_complete, told(result, PartOutcome.TO_DECIDE) + told(result, PartOutcome.NO_COUNTERPART)

    def test_lines_of_the_command(self) -> None:
        result = imported(
            "runai",
            "# ours\nrunai project create vision --department research \\\n"
            "  --resources nodepool=h100,gpu-deserved=2,gpu-limit=-1,priority=High\n",
        )
        assert gpu(result, "vision") == (2, -1, 1)
        assert "priority=High: pools have no order" in told(result, PartOutcome.NO_COUNTERPART)
        assert "do not have the department research" in told(result, PartOutcome.TO_DECIDE)

    @pytest.mark.parametrize(
        "text", ["runai project delete x y", "runai project create 'x", "hello", '{"projects": [1]}']
    )
    def test_other_text_is_refused(self, text: str) -> None:
        with pytest.raises(BadSource):
            imported("runai", text)
